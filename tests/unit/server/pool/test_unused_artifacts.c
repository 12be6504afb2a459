/* What is removed of the artifacts' directory, on a real database. */
#include "server/store/database.h"

#include "pool/unused_artifacts.h"
#include "store/backup_lock.h"

#include <fcntl.h>
#include <pthread.h>

enum { FILES = 2500 };

static void path_of(void **state, const char *name, char out[200])
{
    const struct fixture *fixture = *state;
    (void)snprintf(out, 200, "%s/artifacts/%s", fixture->directory, name);
}

static void name_of(int number, char out[65])
{
    (void)snprintf(out, 65, "%064x", (unsigned)number);
}

static void put(const char *path, bool old)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (old) assert_int_equal(futimens(fd, times), 0);
    (void)close(fd);
}

static void put_named(void **state, const char *name, bool old)
{
    char path[200];
    path_of(state, name, path);
    put(path, old);
}

static bool is_there(void **state, const char *name)
{
    char path[200];
    path_of(state, name, path);
    return access(path, F_OK) == 0;
}

static void put_many(void **state)
{
    char name[65];
    for (int i = 0; i < FILES; i++) {
        name_of(i, name);
        put_named(state, name, true);
    }
}

static struct unused_artifacts *begin(void **state, bool keep)
{
    const struct fixture *fixture = *state;
    struct unused_artifacts *unused;
    struct error error;
    OK(unused_artifacts_new(fixture->directory, keep, &unused, &error));
    return unused;
}

static void record(struct connection *connection, int number)
{
    struct error error;
    char name[65];
    const struct store_id run = enqueue(connection, (struct run_new){.force = true}, STORE_CREATED);
    name_of(number, name);
    OK(connection_execute(
        connection,
        "insert into artifacts (run, epoch, name, media_type, sha256, bytes) values ($1, 1, 'x', 'x', $2, 0)",
        VALUES(value_text(run.text), value_text(name)), NULL, &error));
}

static int make_directory(void **state)
{
    char path[200];
    const struct fixture *fixture;
    if (set_up(state) != 0) return -1;
    fixture = *state;
    struct unused_artifacts *unused = begin(state, false);
    assert_null(unused);
    (void)snprintf(path, sizeof path, "%s/artifacts", fixture->directory);
    return mkdir(path, 0700);
}

static void test_what_no_run_refers_to_goes_in_parts(void **state)
{
    static const int recorded[] = {0, 1234, FILES - 1};
    struct error error;
    char name[65];
    bool done = false;
    int removed = 0, parts = 0, last = 0;
    put_many(state);
    for (size_t i = 0; i < 3; i++) record(connection_of(state), recorded[i]);
    name_of(FILES, name);
    put_named(state, name, false);
    put_named(state, "no-hash", true);
    put_named(state, ".tmp-old", true);
    put_named(state, ".tmp-young", false);
    struct unused_artifacts *unused = begin(state, false);
    for (; !done; parts++, last = removed) {
        OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
        assert_true(removed - last <= 1000);
    }
    unused_artifacts_free(unused);
    assert_int_equal(parts, 3);
    assert_int_equal(removed, FILES - 3 + 1);
    for (size_t i = 0; i < 3; i++) {
        name_of(recorded[i], name);
        assert_true(is_there(state, name));
    }
    name_of(FILES, name);
    assert_true(is_there(state, name) && is_there(state, "no-hash") && is_there(state, ".tmp-young"));
    assert_false(is_there(state, ".tmp-old"));
}

static void test_what_an_archive_may_name_stays(void **state)
{
    struct error error;
    char name[65];
    bool done;
    int removed = 0;
    name_of(1, name);
    put_named(state, name, true);
    put_named(state, ".tmp-old", true);
    struct unused_artifacts *unused = begin(state, true);
    OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
    unused_artifacts_free(unused);
    assert_true(done && removed == 1 && is_there(state, name) && !is_there(state, ".tmp-old"));
}

static void test_without_the_database_published_files_stay(void **state)
{
    struct error error;
    struct connection *away;
    char name[65];
    bool done;
    int removed = 0;
    name_of(2, name);
    put_named(state, name, true);
    OK(connection_new("host=/nonexistent dbname=none", "test", &away, &error));
    struct unused_artifacts *unused = begin(state, false);
    GIVES(STATUS_UNAVAILABLE, unused_artifacts_remove(unused, away, &done, &removed, &error));
    unused_artifacts_free(unused);
    connection_free(away);
    assert_true(removed == 0 && is_there(state, name));
}

/* ---- a backup, and another clean-up, at the same time ---- */

/* One part of the directory, which has the file `name`: whether the file stays. */
static bool stays(void **state, const char *name, bool expected_done)
{
    struct error error;
    bool done = false;
    int removed = 0;
    put_named(state, name, true);
    struct unused_artifacts *unused = begin(state, false);
    OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
    unused_artifacts_free(unused);
    assert_int_equal(done, expected_done);
    assert_true(is_there(state, name) == (removed == 0));
    return is_there(state, name);
}

static struct connection *other_session(void **state)
{
    const struct fixture *fixture = *state;
    struct error error;
    struct connection *other;
    OK(connection_new(embedded_conninfo(fixture->embedded), "other", &other, &error));
    return other;
}

static void test_what_a_backup_may_copy_stays(void **state)
{
    struct error error;
    struct connection *backup = other_session(state), *second = other_session(state);
    char name[65];
    name_of(3, name);
    OK(backup_lock_hold(backup, &error));
    OK(backup_lock_hold(second, &error));
    assert_true(stays(state, name, true));
    backup_lock_let_go(second);
    assert_true(stays(state, name, true));
    connection_free(backup); /* as when its process dies */
    while (stays(state, name, true)) {
    }
    OK(backup_lock_hold(second, &error));
    backup_lock_let_go(second);
    assert_false(stays(state, name, true));
    connection_free(second);
}

static void test_a_backup_that_begins_ends_the_round(void **state)
{
    struct error error;
    bool done = false;
    int removed = 0;
    put_many(state);
    struct connection *backup = other_session(state);
    struct unused_artifacts *unused = begin(state, false);
    OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
    assert_true(!done && removed > 900); /* of 1,000, less those that are recorded */
    const int before = removed;
    OK(backup_lock_hold(backup, &error));
    OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
    assert_true(done && removed == before);
    unused_artifacts_free(unused);
    backup_lock_let_go(backup); /* a session that only ends keeps it for a moment, also in the next test */
    connection_free(backup);
}

static enum status clean_beside(struct connection *connection, void *context, struct error *error)
{
    void **state = context;
    enum backup_lock_found found;
    bool done = true;
    int removed = 0;
    const enum status status = backup_lock_try(connection, &found, error);
    assert_int_equal(found, BACKUP_LOCK_TAKEN);
    struct unused_artifacts *unused = begin(state, false);
    assert_int_equal(unused_artifacts_remove(unused, connection_of(state), &done, &removed, error), STATUS_OK);
    unused_artifacts_free(unused);
    assert_true(removed == 0 && !done); /* the next part may succeed */
    return status;
}

static void test_another_clean_up_is_no_backup(void **state)
{
    struct error error;
    struct connection *other = other_session(state);
    bool unknown, done = false;
    int removed = 0;
    put_many(state);
    OK(connection_transaction(other, clean_beside, state, &unknown, &error));
    struct unused_artifacts *unused = begin(state, false);
    while (!done) OK(unused_artifacts_remove(unused, connection_of(state), &done, &removed, &error));
    unused_artifacts_free(unused);
    assert_int_equal(removed, FILES - 3); /* those of the first test are recorded */
    connection_free(other);
}

/* ---- a run that puts a file in place meanwhile ---- */

struct meanwhile {
    char path[200];
    struct unused_artifacts *unused;
    struct connection *connection;
    pthread_t thread;
    bool done;
    int removed;
    enum status status;
    struct error error;
};

static void *remove_part(void *context)
{
    struct meanwhile *meanwhile = context;
    meanwhile->status = unused_artifacts_remove(meanwhile->unused, meanwhile->connection, &meanwhile->done,
                                                &meanwhile->removed, &meanwhile->error);
    return NULL;
}

/* Replaces the file while the question whether it is recorded waits for the table. */
static enum status replace(struct connection *connection, void *context, struct error *error)
{
    struct meanwhile *meanwhile = context;
    char fresh[220];
    int64_t waiting = 0;
    enum status status =
        connection_execute(connection, "lock table artifacts in access exclusive mode", NO_VALUES, NULL, error);
    if (status != STATUS_OK) return status;
    assert_int_equal(pthread_create(&meanwhile->thread, NULL, remove_part, meanwhile), 0);
    while (status == STATUS_OK && waiting == 0)
        status = connection_query_integer(connection, "select count(*) from pg_locks where not granted", NO_VALUES,
                                          &waiting, error);
    (void)snprintf(fresh, sizeof fresh, "%s-fresh", meanwhile->path);
    put(fresh, false);
    assert_int_equal(rename(fresh, meanwhile->path), 0);
    return status;
}

static void test_what_a_run_puts_in_place_meanwhile_stays(void **state)
{
    const struct fixture *fixture = *state;
    struct error error;
    struct meanwhile meanwhile = {.unused = NULL};
    char name[65];
    bool unknown;
    name_of(7, name);
    put_named(state, name, true);
    path_of(state, name, meanwhile.path);
    meanwhile.unused = begin(state, false);
    OK(connection_new(embedded_conninfo(fixture->embedded), "cleaner", &meanwhile.connection, &error));
    OK(connection_transaction(connection_of(state), replace, &meanwhile, &unknown, &error));
    assert_int_equal(pthread_join(meanwhile.thread, NULL), 0);
    assert_int_equal(meanwhile.status, STATUS_OK);
    assert_true(is_there(state, name));
    unused_artifacts_free(meanwhile.unused);
    connection_free(meanwhile.connection);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_no_run_refers_to_goes_in_parts),
        cmocka_unit_test(test_what_an_archive_may_name_stays),
        cmocka_unit_test(test_without_the_database_published_files_stay),
        cmocka_unit_test(test_what_a_backup_may_copy_stays),
        cmocka_unit_test(test_another_clean_up_is_no_backup),
        cmocka_unit_test(test_a_backup_that_begins_ends_the_round),
        cmocka_unit_test(test_what_a_run_puts_in_place_meanwhile_stays),
    };
    return cmocka_run_group_tests_name("unused artifacts", tests, make_directory, tear_down);
}
