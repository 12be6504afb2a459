/* Curves and pairs of measurements, asked of a real database. */
#include "database.h"
#include "store/curves.h"

#include <pthread.h>

/* A run that succeeded and left this number. */
static struct store_id measure(struct connection *connection, const struct store_id *checkpoint, const char *metric,
                               double value, const char *label, const char *calibration)
{
    struct error error;
    struct measurements list = {0};
    struct measurement item = {
        .checkpoint = *checkpoint, .value = value, .low = value - 1, .high = value + 1, .method = "gptq", .bits = 4};
    (void)snprintf(item.metric, sizeof item.metric, "%s", metric);
    (void)snprintf(item.label, sizeof item.label, "%s", label);
    (void)snprintf(item.calibration, sizeof item.calibration, "%s", calibration);
    (void)snprintf(item.calibrated_on, sizeof item.calibrated_on, "%s", calibration[0] == '\0' ? "" : "data");
    OK(measurements_add(&list, &item, &error));
    const struct store_id run =
        enqueue(connection, (struct run_new){.checkpoints = checkpoint, .checkpoint_count = 1}, STORE_CREATED);
    const struct lease lease = take(connection);
    finish(connection, &lease, &list);
    measurements_reset(&list);
    return run;
}

static void test_curves_take_the_newest_measurement_by_step(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    json_t *document;
    const struct store_id late = add_checkpoint(connection, "curve", "late", 20),
                          early = add_checkpoint(connection, "curve", "early", 10);
    (void)measure(connection, &late, "delta", 0.5, "gptq 4", "");
    (void)measure(connection, &early, "delta", 0.1, "gptq 4", "");
    (void)measure(connection, &late, "delta", 0.7, "gptq 4", "");
    const char *const names[] = {"curve"};
    struct curve_query query = {.trajectories = names, .trajectory_count = 1, .metric = "delta", .axis = CURVE_TOKENS};
    OK(curve_read(connection, &query, &document, &error));
    json_t *points = json_object_get(json_array_get(json_object_get(document, "series"), 0), "points");
    assert_int_equal(json_array_size(points), 2);
    assert_true(json_number_value(json_object_get(json_array_get(points, 0), "x")) == 10000);
    assert_true(json_number_value(json_object_get(json_array_get(points, 1), "y")) == 0.7);
    json_decref(document);
    query.metric = "learning_rate";
    OK(curve_read(connection, &query, &document, &error));
    assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(document, "series"), 0), "points")),
                     2);
    json_decref(document);
    (void)measure(connection, &late, "trace", 3, "", "");
    struct curve_pairs_query pairs = {.trajectories = names, .trajectory_count = 1, .x = "trace", .y = "delta"};
    OK(curve_pairs(connection, &pairs, &document, &error));
    assert_int_equal(json_array_size(document), 1);
    assert_true(json_number_value(json_object_get(json_array_get(document, 0), "y")) == 0.7);
    json_decref(document);
    pairs = (struct curve_pairs_query){.x = "step", .y = "delta", .series = {.method = "gptq", .bits = 4}};
    OK(curve_pairs(connection, &pairs, &document, &error));
    assert_int_equal(json_array_size(document), 2);
    assert_true(json_number_value(json_object_get(json_array_get(document, 0), "x")) == 10);
    json_decref(document);
    pairs.series.bits = 3;
    OK(curve_pairs(connection, &pairs, &document, &error));
    assert_int_equal(json_array_size(document), 0);
    json_decref(document);
    OK(curve_metrics(connection, &document, &error));
    json_decref(document);
}

static const char *label_of(const json_t *list, size_t i)
{
    return json_string_value(json_object_get(json_array_get(list, i), "label"));
}

/* Two calibrations are two series, whose labels say so; the words for them are the same here, so that ids do. */
static void test_no_series_joins_calibrations(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    json_t *document;
    const struct store_id late = add_checkpoint(connection, "calibrations", "late", 20),
                          early = add_checkpoint(connection, "calibrations", "early", 10);
    (void)measure(connection, &late, "delta", 0.5, "gptq 4", "aaaaaaaa");
    (void)measure(connection, &early, "delta", 0.1, "gptq 4", "bbbbbbbb");
    const char *const names[] = {"calibrations"};
    struct curve_query query = {.trajectories = names, .trajectory_count = 1, .metric = "delta"};
    OK(curve_read(connection, &query, &document, &error));
    json_t *series = json_object_get(document, "series");
    assert_int_equal(json_array_size(series), 2);
    assert_string_equal(label_of(series, 0), "gptq 4, calibrated on data (aaaaaa)");
    assert_string_equal(label_of(series, 1), "gptq 4, calibrated on data (bbbbbb)");
    json_decref(document);
    struct curve_pairs_query pairs = {.trajectories = names, .trajectory_count = 1, .x = "step", .y = "delta"};
    OK(curve_pairs(connection, &pairs, &document, &error));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(document, i), "series")), i);
    json_decref(document);
    query.series.calibration = "bbbbbbbb";
    OK(curve_read(connection, &query, &document, &error));
    series = json_object_get(document, "series");
    assert_int_equal(json_array_size(series), 1);
    assert_string_equal(label_of(series, 0), "gptq 4");
    json_decref(document);
    (void)measure(connection, &late, "delta", 0.6, "gptq 4", "");
    query.series.calibration = NULL;
    OK(curve_read(connection, &query, &document, &error));
    series = json_object_get(document, "series");
    assert_int_equal(json_array_size(series), 3);
    assert_string_equal(label_of(series, 2), "gptq 4, calibrated on unknown data");
    json_decref(document);
}

enum { PAIRS = 25 };

/* Deletes one run of each pair, each at the moment at which another thread deletes the other one. */
struct deleting {
    struct connection *connection;
    const struct store_id *runs;
    pthread_barrier_t *together;
    int failed; /* out */
};

static void *delete_all(void *context)
{
    struct deleting *deleting = context;
    struct error error;
    for (int i = 0; i < PAIRS; i++) {
        (void)pthread_barrier_wait(deleting->together);
        if (run_delete(deleting->connection, deleting->runs[i].text, &error) != STATUS_OK) deleting->failed++;
    }
    return NULL;
}

/* Neither may put the other's number into the place of its own. */
static void test_nothing_is_left_of_two_runs_that_are_deleted_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct error error;
    struct store_id runs[2][PAIRS];
    struct deleting deleting[2];
    pthread_barrier_t together;
    pthread_t other;
    assert_int_equal(pthread_barrier_init(&together, NULL, 2), 0);
    for (int i = 0; i < PAIRS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", i);
        const struct store_id checkpoint = add_checkpoint(fixture->connection, "gone", name, i);
        for (int k = 0; k < 2; k++) runs[k][i] = measure(fixture->connection, &checkpoint, "delta", k, "gone", "");
    }
    for (int k = 0; k < 2; k++) deleting[k] = (struct deleting){.runs = runs[k], .together = &together};
    deleting[0].connection = fixture->connection;
    OK(connection_new(embedded_conninfo(fixture->embedded), "test", &deleting[1].connection, &error));
    assert_int_equal(pthread_create(&other, NULL, delete_all, &deleting[1]), 0);
    (void)delete_all(&deleting[0]);
    assert_int_equal(pthread_join(other, NULL), 0);
    connection_free(deleting[1].connection);
    (void)pthread_barrier_destroy(&together);
    assert_int_equal(deleting[0].failed + deleting[1].failed, 0);
    const struct store_id none = {""};
    assert_true(ask(fixture->connection,
                    "select count(*) from newest where $1 = '' and not exists (select from runs r where r.id = run)",
                    &none) == 0);
}

/* Of a run with a checkpoint, and of one without. */
static void test_a_run_measures_a_thing_once(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    const struct store_id checkpoint = add_checkpoint(connection, "once", "one", 1),
                          run = enqueue(connection, (struct run_new){.kind = "once"}, STORE_CREATED);
    for (int with = 0; with < 2; with++) {
        struct measurements list = {0};
        struct measurement item = {.metric = "loss", .value = 1, .low = NAN, .high = NAN};
        if (with) item.checkpoint = checkpoint;
        OK(measurements_add(&list, &item, &error));
        OK(measurements_insert(connection, run.text, 1, &list, &error));
        GIVES(STATUS_CONFLICT, measurements_insert(connection, run.text, 1, &list, &error));
        OK(measurements_insert(connection, run.text, 2, &list, &error));
        measurements_reset(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves_take_the_newest_measurement_by_step),
        cmocka_unit_test(test_no_series_joins_calibrations),
        cmocka_unit_test(test_nothing_is_left_of_two_runs_that_are_deleted_at_once),
        cmocka_unit_test(test_a_run_measures_a_thing_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
