/* database.h: an embedded cluster in a temporary directory, made once for all tests of a file, and a worker that takes
 * runs of the kind "test". */
#ifndef DATABASE_H
#define DATABASE_H

#include "unit.h"

#include "postgres/embedded.h"
#include "store/checkpoints.h"
#include "store/migrations.h"
#include "store/queue.h"
#include "store/runs.h"

#include <ftw.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call)            assert_int_equal_or_say((call), STATUS_OK, &error, __LINE__)
#define GIVES(status, call) assert_int_equal_or_say((call), (status), &error, __LINE__)

struct fixture {
    char directory[64];
    struct embedded *embedded;
    struct connection *connection;
};

static inline void assert_int_equal_or_say(enum status got, enum status expected, const struct error *error, int line)
{
    if (got != expected)
        print_message("line %d: %s: %s\n", line, status_info(got)->name, got != STATUS_OK ? error->detail : "");
    assert_int_equal(got, expected);
}

/* Most of what making a cluster takes is PostgreSQL's; where tests/run.py has had one made (tests/http/database.py), a
 * copy of that is begun with. */
static inline void lay_cluster(const char *directory)
{
    const char *place = getenv("DELTAQ_TEST_DATABASE");
    char made[512], copy[] = "cp", whole[] = "-a", to[128];
    (void)snprintf(made, sizeof made, "%s/made/pg", place != NULL ? place : "");
    if (place == NULL || access(made, R_OK) != 0) return;
    (void)snprintf(to, sizeof to, "%s", directory);
    char *const words[] = {copy, whole, made, to, NULL};
    pid_t pid;
    int status;
    assert_int_equal(posix_spawnp(&pid, copy, NULL, NULL, words, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static inline int set_up(void **state)
{
    struct error error;
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    (void)snprintf(fixture->directory, sizeof fixture->directory, "/tmp/deltaq-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    lay_cluster(fixture->directory);
    const struct embedded_options options = {.data_directory = fixture->directory, .ballast_bytes = 0};
    OK(embedded_start(&options, &fixture->embedded, &error));
    OK(connection_new(embedded_conninfo(fixture->embedded), "test", &fixture->connection, &error));
    OK(migrations_apply(fixture->connection, NULL, &error));
    *state = fixture;
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    connection_free(fixture->connection);
    embedded_stop(fixture->embedded);
    const int ended = nftw(fixture->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(fixture);
    return ended;
}

static inline struct connection *connection_of(void **state)
{
    return ((struct fixture *)*state)->connection;
}

static inline const char *text_at(const json_t *document, const char *key)
{
    const char *text = json_string_value(json_object_get(document, key));
    return text != NULL ? text : "(none)";
}

static inline struct store_id id_of(const json_t *document)
{
    struct store_id id;
    (void)snprintf(id.text, sizeof id.text, "%s", text_at(document, "id"));
    return id;
}

static const struct worker_identity someone = {
    .id = {"worker-1"}, .host = "here", .boot_id = "b", .device = "cpu", .pid = 1, .threads = 1};
static const char *const test_kind[] = {"test"};

static inline struct lease take(struct connection *connection)
{
    struct error error;
    struct leased_run run;
    bool found;
    OK(queue_lease(connection, &someone, test_kind, 1, 30, &found, &run, &error));
    assert_true(found);
    const struct lease lease = run.lease;
    leased_run_reset(&run);
    return lease;
}

/* A new run of the kind "test" where none is given, with the parameters {"x": 1}. */
static inline struct store_id enqueue(struct connection *connection, struct run_new new, enum store_outcome expected)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *params = json_pack("{s:i}", "x", 1);
    new.params = params;
    if (new.kind == NULL) new.kind = test_kind[0];
    OK(run_insert(connection, &new, &outcome, &document, &error));
    assert_int_equal(outcome, expected);
    const struct store_id id = id_of(document);
    json_decref(document);
    json_decref(params);
    return id;
}

/* Changes or asks about one run, which is $1; a question gives one number (null: NaN). */
static inline void change(struct connection *connection, const char *sql, const struct store_id *run)
{
    struct error error;
    OK(connection_execute(connection, sql, VALUES(value_text(run->text)), NULL, &error));
}

static inline double ask(struct connection *connection, const char *sql, const struct store_id *run)
{
    struct error error;
    struct rows *rows;
    OK(connection_query_one(connection, sql, VALUES(value_text(run->text)), &rows, &error));
    const double number = rows_null(rows, 0, 0) ? NAN : rows_double(rows, 0, 0);
    rows_free(rows);
    return number;
}

static inline void expect_state(struct connection *connection, const struct store_id *run, const char *state)
{
    struct error error;
    json_t *document;
    OK(run_get(connection, run->text, &document, &error));
    assert_string_equal(text_at(document, "state"), state);
    json_decref(document);
}

/* A checkpoint of `trajectory` at `step`, with learning rate 0.1 / (step + 1). */
static inline struct store_id add_checkpoint(struct connection *connection, const char *trajectory, const char *name,
                                             int64_t step)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *source = json_pack("{s:s}", "path", name);
    const int64_t tokens = step * 1000;
    const double learning_rate = 0.1 / (double)(step + 1);
    const struct checkpoint_new new = {.trajectory = trajectory,
                                       .name = name,
                                       .step = &step,
                                       .tokens = &tokens,
                                       .learning_rate = &learning_rate,
                                       .source = source,
                                       .path = name,
                                       .fingerprint = "f"};
    OK(checkpoint_insert(connection, &new, &outcome, &document, &error));
    const struct store_id id = id_of(document);
    json_decref(document);
    json_decref(source);
    return id;
}

static inline void finish(struct connection *connection, const struct lease *lease,
                          const struct measurements *measurements)
{
    struct error error;
    json_t *answer = json_pack("{s:f}", "loss", 2.5);
    const struct queue_result result = {.result = answer,
                                        .measurements = measurements,
                                        .usage = {.seconds = 1, .peak_host_bytes = 5, .peak_device_bytes = -1}};
    OK(queue_finish(connection, lease, &result, &error));
    json_decref(answer);
}

#endif
