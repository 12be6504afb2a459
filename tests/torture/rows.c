/* Rows of the database, a real one: a run's life, and what is registered. Each statement is lost in turn, and each
 * allocation of ours fails. */
#include "faults.h"
#include "scenario.h"

#include "server/store/database.h"
#include "store/datasets.h"
#include "store/trajectories.h"

#define KINDS (1U << FAULT_MEMORY | 1U << FAULT_QUERY)

static struct fixture *fixture; /* of this process */

static void prepare(struct room *room)
{
    void *state = NULL;
    (void)room;
    scenario_require(set_up(&state) == 0, "database", NULL);
    fixture = state;
    json_set_alloc_funcs(malloc, free);
}

static void finish_database(void)
{
    void *state = fixture;
    (void)tear_down(&state);
    fixture = NULL;
}

/* Nothing fails any more, and what was begun is gone. */
static void clean(void)
{
    struct error error;
    (void)fault_disarm();
    enum status status = STATUS_UNAVAILABLE;
    for (int i = 0; i < 50 && status != STATUS_OK; i++) {
        status = connection_execute(fixture->connection, "truncate runs, trajectories, datasets cascade", NO_VALUES,
                                    NULL, &error);
        if (status != STATUS_OK) (void)usleep(20000);
    }
    scenario_require(status == STATUS_OK, "truncate", &error);
}

static void add_field(struct checksum *sum, const json_t *document, const char *key)
{
    const char *text = text_at(document, key);
    checksum_add(sum, text, strlen(text));
}

static enum status lease_and(bool fails, struct error *error)
{
    struct connection *connection = fixture->connection;
    struct leased_run run = {0};
    const struct queue_progress progress = {.done = 1, .total = 2, .unit = "x", .eta_seconds = 3};
    struct error cause;
    bool found = false, cancel = false;
    json_t *lines = NULL, *answer = json_pack("{s:f}", "loss", 2.5);
    const struct queue_result result = {.result = answer,
                                        .usage = {.seconds = 1, .peak_host_bytes = 5, .peak_device_bytes = -1}};
    (void)error_set(&cause, STATUS_CORRUPT, "broken \xff");
    enum status status = answer != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK) status = queue_lease(connection, &someone, test_kind, 1, 30, &found, &run, error);
    if (status == STATUS_OK && !found) status = error_set(error, STATUS_INTERNAL, "no run was leased");
    if (status == STATUS_OK) status = queue_beat(connection, &run.lease, 30, &progress, &cancel, error);
    if (status == STATUS_OK && (lines = json_pack("[s]", "a line")) == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK) status = queue_log(connection, &run.lease, lines, error);
    if (status == STATUS_OK && fails) status = queue_fail(connection, &run.lease, &cause, &result, error);
    if (status == STATUS_OK && !fails) status = queue_finish(connection, &run.lease, &result, error);
    json_decref(lines);
    json_decref(answer);
    leased_run_reset(&run);
    return status;
}

static enum status live(bool fails, struct checksum *sum, struct error *error)
{
    struct connection *connection = fixture->connection;
    enum store_outcome outcome;
    json_t *made = NULL, *document = NULL, *events = NULL, *params = json_pack("{s:i}", "x", 1);
    const struct run_new new = {.kind = test_kind[0], .params = params, .force = true};
    enum status status = params != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK) status = run_insert(connection, &new, &outcome, &made, error);
    if (status == STATUS_OK) status = lease_and(fails, error);
    if (status == STATUS_OK) status = run_get(connection, text_at(made, "id"), &document, error);
    if (status == STATUS_OK) status = run_events(connection, text_at(made, "id"), 0, 10, &events, error);
    if (status == STATUS_OK) {
        add_field(sum, document, "state");
        add_field(sum, json_object_get(document, "error"), "detail");
        const size_t count = json_array_size(events);
        checksum_add(sum, &count, sizeof count);
    }
    json_decref(events);
    json_decref(document);
    json_decref(made);
    json_decref(params);
    clean();
    return status;
}

static enum status run_finished(const struct room *room, struct checksum *sum, struct error *error)
{
    (void)room;
    return live(false, sum, error);
}

static enum status run_failed(const struct room *room, struct checksum *sum, struct error *error)
{
    (void)room;
    return live(true, sum, error);
}

static enum status run_registered(const struct room *room, struct checksum *sum, struct error *error)
{
    struct connection *connection = fixture->connection;
    enum store_outcome outcome;
    json_t *trajectory = NULL, *checkpoint = NULL, *list = NULL, *source = json_pack("{s:s}", "path", "/a");
    const int64_t step = 5;
    const struct page page = {0};
    const struct list_filter any = LIST_FILTER_ANY;
    (void)room;
    enum status status = source != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory");
    const struct checkpoint_new row = {
        .trajectory = "t", .name = "c", .step = &step, .source = source, .path = "/a", .fingerprint = "f"};
    if (status == STATUS_OK) status = checkpoint_insert(connection, &row, &outcome, &checkpoint, error);
    if (status == STATUS_OK) status = trajectory_get(connection, "t", &trajectory, error);
    if (status == STATUS_OK) status = checkpoint_list(connection, NULL, &any, &page, &list, error);
    if (status == STATUS_OK) {
        const size_t count = json_array_size(json_object_get(list, "items"));
        checksum_add(sum, &count, sizeof count);
        add_field(sum, checkpoint, "name");
    }
    json_decref(list);
    json_decref(checkpoint);
    json_decref(trajectory);
    json_decref(source);
    clean();
    return status;
}

const struct scenario scenarios_of_rows[] = {
    {"rows of a run that ends well", KINDS, prepare, run_finished, finish_database, 0},
    {"rows of a run that fails", KINDS, prepare, run_failed, finish_database, 0},
    {"rows of checkpoints", KINDS, prepare, run_registered, finish_database, 0},
    {0},
};
