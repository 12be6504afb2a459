/* The start of a private database on a slow machine: `initdb` and `postgres` are scripts that wait first. */
#include "unit.h"

#include "postgres/embedded.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char making[] = "deltaq: making the private database, once",
                  waiting[] = "deltaq: waiting for the private database";

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

/* The newest installed server, as the product looks for it. */
static void find_server(char out[256])
{
    glob_t found;
    assert_int_equal(glob("/usr/lib/postgresql/*/bin", 0, NULL, &found), 0);
    (void)snprintf(out, 256, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

static void write_script(const char *directory, const char *server, const char *name, double seconds)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\nsleep %.1f\nexec %s/%s \"$@\"\n", seconds, server, name) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* Starts and stops a new cluster; what was said on stderr meanwhile. */
static void start_once(double seconds, char said[4096])
{
    char base[64] = "/tmp/deltaq-embedded-XXXXXX", server[256], binaries[128], data[128], log[128];
    struct embedded *embedded = NULL;
    struct error error;
    assert_non_null(mkdtemp(base));
    (void)snprintf(binaries, sizeof binaries, "%s/bin", base);
    (void)snprintf(data, sizeof data, "%s/data", base);
    (void)snprintf(log, sizeof log, "%s/log", base);
    assert_int_equal(chmod(base, 0755) + mkdir(binaries, 0755) + chmod(binaries, 0755) + mkdir(data, 0700), 0);
    find_server(server);
    write_script(binaries, server, "initdb", seconds);
    write_script(binaries, server, "postgres", seconds);
    const int kept = dup(STDERR_FILENO), file = open(log, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    const struct embedded_options options = {.data_directory = data, .binaries = binaries, .ballast_bytes = 0};
    const enum status status = embedded_start(&options, &embedded, &error);
    embedded_stop(embedded);
    assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    const ssize_t length = pread(file, said, 4095, 0);
    said[length > 0 ? length : 0] = '\0';
    assert_int_equal(close(kept) + close(file), 0);
    assert_int_equal(nftw(base, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    if (status != STATUS_OK) print_message("%s\n", error.detail);
    assert_int_equal(status, STATUS_OK);
}

static void test_a_slow_start_is_waited_for_and_told(void **state)
{
    char said[4096];
    (void)state;
    start_once(2.6, said);
    assert_non_null(strstr(said, making));
    assert_non_null(strstr(said, waiting));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_slow_start_is_waited_for_and_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
