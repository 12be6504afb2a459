/* postgres.log stays small: at a start, and while PostgreSQL writes to it. */
#include "unit.h"

#include "postgres/cluster.h"
#include "postgres/connection.h"
#include "postgres/embedded.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MUCH = 9 << 20, LITTLE = 1 << 20 };

struct place {
    char data[64], log[96], old[96];
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static struct place make_place(void)
{
    struct place place = {.data = "/tmp/deltaq-rotation-XXXXXX"};
    assert_non_null(mkdtemp(place.data));
    (void)snprintf(place.log, sizeof place.log, "%s/pg/postgres.log", place.data);
    (void)snprintf(place.old, sizeof place.old, "%s/pg/postgres.log.1", place.data);
    return place;
}

static int64_t size_of(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 ? (int64_t)file.st_size : -1;
}

/* Lines of `letter`, `bytes` of them. */
static void fill(const char *path, char letter, int bytes)
{
    char line[1024];
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    memset(line, letter, sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < bytes / (int)sizeof line; i++) assert_int_equal(fwrite(line, sizeof line, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static char first_of(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const int letter = fgetc(file);
    (void)fclose(file);
    return (char)letter;
}

static bool has(const char *path, const char *words)
{
    char text[LITTLE];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    return strstr(text, words) != NULL;
}

static struct embedded *start(const struct place *place)
{
    struct error error;
    struct embedded *embedded = NULL;
    const struct embedded_options options = {.data_directory = place->data, .ballast_bytes = 0};
    const enum status status = embedded_start(&options, &embedded, &error);
    if (status != STATUS_OK) print_message("%s\n", error.detail);
    assert_int_equal(status, STATUS_OK);
    return embedded;
}

static void test_a_start_puts_a_long_log_away(void **state)
{
    struct place place = make_place();
    (void)state;
    embedded_stop(start(&place));
    fill(place.log, 'a', LITTLE);
    embedded_stop(start(&place));
    assert_true(size_of(place.log) > LITTLE); /* it is not long yet */
    assert_int_equal(size_of(place.old), -1);
    fill(place.log, 'b', MUCH);
    embedded_stop(start(&place));
    assert_in_range(size_of(place.log), 1, LITTLE);
    assert_in_range(size_of(place.old), MUCH, 2 * MUCH);
    assert_int_equal(nftw(place.data, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* PostgreSQL keeps the file open, and goes on at its new beginning. */
static void test_a_long_log_is_put_away_under_a_server_that_runs(void **state)
{
    struct place place = make_place();
    struct error error;
    struct cluster cluster;
    struct connection *connection;
    (void)state;
    struct embedded *embedded = start(&place);
    assert_int_equal(cluster_open(place.data, NULL, &cluster, &error), STATUS_OK);
    assert_int_equal(connection_new(embedded_conninfo(embedded), "test", &connection, &error), STATUS_OK);
    for (char letter = 'a'; letter <= 'b'; letter++) {
        assert_int_equal(truncate(place.log, 0), 0);
        fill(place.log, letter, MUCH);
        cluster_rotate_log(&cluster);
        assert_int_equal(size_of(place.log), 0);
        assert_int_equal(first_of(place.old), letter);
        assert_in_range(size_of(place.old), MUCH - 1024, MUCH);
        assert_int_not_equal(connection_script(connection, "select 1 / 0", &error), STATUS_OK);
        assert_true(has(place.log, "division by zero"));
        assert_in_range(size_of(place.log), 1, LITTLE);
        cluster_rotate_log(&cluster); /* it is short now */
        assert_true(size_of(place.log) > 0);
    }
    connection_free(connection);
    cluster_reset(&cluster);
    embedded_stop(embedded);
    assert_int_equal(nftw(place.data, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* A copy that cannot be made (here its name is taken by a directory) leaves the log as it is, up to a bound. */
static void test_a_log_that_cannot_be_put_away_is_given_up_in_the_end(void **state)
{
    struct place place = make_place();
    struct error error;
    struct cluster cluster;
    (void)state;
    assert_int_equal(cluster_open(place.data, NULL, &cluster, &error), STATUS_OK);
    assert_int_equal(mkdir(place.old, 0700), 0);
    fill(place.log, 'a', MUCH);
    cluster_rotate_log(&cluster);
    assert_in_range(size_of(place.log), MUCH - 1024, MUCH);
    fill(place.log, 'b', 3 * MUCH);
    cluster_rotate_log(&cluster);
    assert_int_equal(size_of(place.log), 0);
    cluster_reset(&cluster);
    assert_int_equal(nftw(place.data, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_start_puts_a_long_log_away),
        cmocka_unit_test(test_a_long_log_is_put_away_under_a_server_that_runs),
        cmocka_unit_test(test_a_log_that_cannot_be_put_away_is_given_up_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
