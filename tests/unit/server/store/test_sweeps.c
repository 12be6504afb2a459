/* Sweeps: their runs, and that one which was cancelled takes in no more checkpoints. */
#include "database.h"
#include "store/sweeps.h"
#include "store/trajectories.h"

#include <pthread.h>
#include <stdatomic.h>

static void test_sweeps_count_and_cancel_their_runs(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    enum store_outcome outcome;
    json_t *document, *params = json_object();
    const struct run_new runs[] = {{.kind = "test", .params = params, .dedupe_key = "s1"},
                                   {.kind = "test", .params = params, .dedupe_key = "s2"}};
    const struct sweep_new new = {
        .name = "sweep", .kind = "test", .base = params, .grid = params, .runs = runs, .run_count = 2};
    OK(sweep_insert(connection, &new, &outcome, &document, &error));
    assert_int_equal(outcome, STORE_CREATED);
    json_decref(document);
    OK(sweep_insert(connection, &new, &outcome, &document, &error));
    assert_int_equal(outcome, STORE_EXISTED);
    json_decref(document);
    const struct run_filter filter = {.sweep = "sweep", .state = "queued", .list = LIST_FILTER_ANY};
    const struct page page = {0};
    OK(run_list(connection, &filter, &page, &document, &error));
    assert_int_equal(json_array_size(json_object_get(document, "items")), 2);
    json_decref(document);
    OK(sweep_cancel(connection, "sweep", &document, &error));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "runs"), "cancelled")), 2);
    json_decref(document);
    json_decref(params);
}

/* What the watcher does, on a connection of its own. */
struct extending {
    struct connection *connection;
    struct store_id sweep, checkpoint;
    pthread_t thread;
    atomic_bool ended;
    enum status status; /* out */
    bool mine;          /* out */
};

static void *extend(void *context)
{
    struct extending *extending = context;
    struct error error;
    json_t *params = json_object();
    const struct run_new run = {.kind = "test", .params = params, .dedupe_key = "standing"};
    const struct sweep_extension extension = {.sweep = extending->sweep.text,
                                              .checkpoint = extending->checkpoint.text,
                                              .grid = params,
                                              .runs = &run,
                                              .run_count = 1};
    extending->status = sweep_extend(extending->connection, &extension, &extending->mine, &error);
    json_decref(params);
    atomic_store(&extending->ended, true);
    return NULL;
}

/* A cancellation that commits once the extension beside it has ended or waits for it. */
static enum status cancel_body(struct connection *connection, void *context, struct error *error)
{
    struct extending *extending = context;
    enum status status = connection_execute(connection, "update sweeps set standing = null where id = $1",
                                            VALUES(value_text(extending->sweep.text)), NULL, error);
    if (status != STATUS_OK) return status;
    assert_int_equal(pthread_create(&extending->thread, NULL, extend, extending), 0);
    for (bool waits = false; status == STATUS_OK && !waits && !atomic_load(&extending->ended); (void)usleep(1000)) {
        status = connection_query_boolean(connection, "select exists (select from pg_locks where not granted)",
                                          NO_VALUES, &waits, error);
    }
    return status;
}

static void test_a_cancelled_sweep_takes_in_no_checkpoint_that_came_at_that_moment(void **state)
{
    struct fixture *fixture = *state;
    struct error error;
    enum store_outcome outcome;
    json_t *document, *params = json_object();
    struct store_id trajectory;
    struct extending extending = {.mine = true};
    extending.checkpoint = add_checkpoint(fixture->connection, "standing", "late", 1);
    OK(trajectory_resolve(fixture->connection, "standing", &trajectory, &error));
    const struct sweep_new new = {
        .name = "standing", .kind = "test", .base = params, .grid = params, .standing = trajectory.text};
    OK(sweep_insert(fixture->connection, &new, &outcome, &document, &error));
    extending.sweep = id_of(document);
    json_decref(document);
    OK(connection_new(embedded_conninfo(fixture->embedded), "test", &extending.connection, &error));
    OK(connection_transaction(fixture->connection, cancel_body, &extending, NULL, &error));
    assert_int_equal(pthread_join(extending.thread, NULL), 0);
    connection_free(extending.connection);
    assert_int_equal(extending.status, STATUS_OK);
    assert_false(extending.mine);
    assert_true(ask(fixture->connection, "select count(*) from sweep_runs where sweep = $1", &extending.sweep) == 0);
    json_decref(params);
}

/* Pairs of a sweep and a checkpoint above that number which it has not taken in. */
static size_t count_behind(struct connection *connection, int64_t after)
{
    struct error error;
    json_t *list, *without = json_array();
    OK(sweep_behind(connection, after, 20, without, NULL, &list, &error));
    const size_t count = json_array_size(list);
    json_decref(list);
    json_decref(without);
    return count;
}

static void test_only_checkpoints_above_a_number_are_looked_at(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    enum store_outcome outcome;
    json_t *document, *params = json_object();
    struct store_id trajectory;
    int64_t before, first, second;
    OK(sweep_newest_checkpoint(connection, &before, &error));
    assert_int_equal(count_behind(connection, before), 0);
    (void)add_checkpoint(connection, "followed", "first", 1);
    OK(sweep_newest_checkpoint(connection, &first, &error));
    OK(trajectory_resolve(connection, "followed", &trajectory, &error));
    const struct sweep_new new = {
        .name = "followed", .kind = "test", .base = params, .grid = params, .standing = trajectory.text};
    OK(sweep_insert(connection, &new, &outcome, &document, &error));
    json_decref(document);
    (void)add_checkpoint(connection, "followed", "second", 2);
    OK(sweep_newest_checkpoint(connection, &second, &error));
    assert_true(before < first && first < second);
    assert_int_equal(count_behind(connection, before), 2);
    assert_int_equal(count_behind(connection, first), 1);
    assert_int_equal(count_behind(connection, second), 0);
    json_decref(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweeps_count_and_cancel_their_runs),
        cmocka_unit_test(test_only_checkpoints_above_a_number_are_looked_at),
        cmocka_unit_test(test_a_cancelled_sweep_takes_in_no_checkpoint_that_came_at_that_moment),
    };
    return cmocka_run_group_tests_name("sweeps", tests, set_up, tear_down);
}
