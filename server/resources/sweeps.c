#include "store/sweeps.h"

#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/waiting.h"
#include "runs/parameter_grid.h"
#include "runs/requirements.h"
#include "runs/sweep_growth.h"
#include "runs/sweep_plan.h"
#include "schema/form.h"
#include "store/trajectories.h"

struct sweep_body {
    const char *name, *base, *grid;
    int kind;
    bool standing, dry_run;
    struct requirements requires;
};

const struct param sweeps_post_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct sweep_body, name),
     .fallback = "null",
     .nullable = true,
     .maximum = 200,
     .form = &form_name,
     .help = "Unique name; null: its id"},
    {.name = "kind",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct sweep_body, kind),
     .schema = "Kind",
     .choices = kind_names,
     .help = "Kind of the runs"},
    {.name = "base",
     .type = PARAM_JSON,
     .offset = offsetof(struct sweep_body, base),
     .fallback = "{}",
     .help = "Parameters that all runs have"},
    {.name = "grid",
     .type = PARAM_JSON,
     .offset = offsetof(struct sweep_body, grid),
     .fallback = "{}",
     .help = "Field (dots reach into objects) to a list of values, or {\"trajectory\": NAME} for its checkpoints"},
    {.name = "standing",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct sweep_body, standing),
     .fallback = "false",
     .help = "Takes in every checkpoint that the grid's trajectory gets from now on, until the sweep is cancelled"},
    {.name = "dry_run",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct sweep_body, dry_run),
     .fallback = "false",
     .help = "Make no sweep: answer what its runs would need"},
    {.name = "requires",
     .type = PARAM_OBJECT,
     .schema = "Requirements",
     .offset = offsetof(struct sweep_body, requires),
     .fallback = "null",
     .nullable = true,
     .children = requirements_params,
     .help = "Requirements on the workers of its runs"},
    {0},
};

struct extend_body {
    const char *grid;
    bool dry_run;
};

const struct param sweeps_extend_body[] = {
    {.name = "grid",
     .type = PARAM_JSON,
     .offset = offsetof(struct extend_body, grid),
     .help = "Fields of its grid to lists of further values, or {\"trajectory\": NAME} as it stands there for the"
             " checkpoints that came since"},
    {.name = "dry_run",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct extend_body, dry_run),
     .fallback = "false",
     .help = "Add nothing: answer what the new runs would need"},
    {0},
};

static const struct list_field fields[] = {
    {"id", true},
    {"name", true},
    {"kind", true},
    {"base", false},
    {"grid", false},
    {"requires", false},
    {"standing", true},
    {"refused", false},
    {"runs", true},
    {"created_at", true},
    {0},
};

enum status sweeps_list(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK)
        status = sweep_list(application_connection(context), &asked.filter, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

static bool is_final(const json_t *sweep)
{
    const json_t *runs = json_object_get(sweep, "runs");
    return json_integer_value(json_object_get(runs, "queued")) + json_integer_value(json_object_get(runs, "running")) ==
           0;
}

static const struct waiting sweeps_wait = {"/v1/sweeps/", sweep_get, is_final};

enum status sweeps_get(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    return waiting_get(context, request, response, &sweeps_wait, request_parameter(request, "sweep"), error);
}

enum status sweeps_cancel(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    json_t *document = NULL;
    struct connection *connection = application_connection(context);
    enum status status = answer_no_fields(request, response, error);
    if (status == STATUS_OK) status = sweep_cancel(connection, request_parameter(request, "sweep"), &document, error);
    return answer_changed(response, connection, status, document, error);
}

enum status sweeps_retry_failed(struct http_context *context, const struct request *request, struct response *response,
                                struct error *error)
{
    json_t *document = NULL;
    struct connection *connection = application_connection(context);
    const int64_t queued_most = application_of(context)->queue_per_token;
    enum status status = answer_no_fields(request, response, error);
    if (status == STATUS_OK)
        status = sweep_retry_failed(connection, request_parameter(request, "sweep"), queued_most, &document, error);
    return answer_changed(response, connection, status, document, error);
}

enum status sweeps_delete(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct connection *connection = application_connection(context);
    return answer_deleted(response, connection, sweep_delete(connection, request_parameter(request, "sweep"), error));
}

/* A sweep to be made: its plan is what its runs come from, its row what the store gets. */
struct new_sweep {
    const struct sweep_body *body;
    json_t *grid; /* as the sweep keeps it, owned */
    struct store_id standing;
    struct sweep_plan plan;
    struct sweep_new row; /* lends */
};

/* Finds the trajectory that a standing sweep follows. */
static enum status find_standing(struct connection *connection, const json_t *grid, struct store_id *id,
                                 struct error *error)
{
    const char *key, *trajectory;
    sweep_plan_trajectory(grid, &key, &trajectory);
    if (trajectory == NULL)
        return error_set_at(
            error, STATUS_INVALID, "/standing",
            "needs exactly one {\"trajectory\": NAME} in the grid: the checkpoints to come are taken from it");
    const enum status status = trajectory_resolve(connection, trajectory, id, error);
    if (status != STATUS_NOT_FOUND) return status;
    return error_set_at(error, STATUS_INVALID, "/grid", "no trajectory \"%.200s\"", trajectory);
}

static enum status plan(struct http_context *context, const struct request *asked, const json_t *document,
                        const json_t *requires, struct faults *faults, struct new_sweep *out, struct error *error)
{
    const struct application *application = application_of(context);
    struct connection *connection = application_connection(context);
    const json_t *base = json_object_get(document, "base");
    enum status status = parameter_grid_lay(base, json_object_get(document, "grid"), NULL, faults, &out->grid, error);
    const struct sweep_plan_request request = {
        .kind = kinds[out->body->kind],
        .base = base,
        .grid = out->grid,
        .requires = requires,
        .requester = asked->principal.name,
        .queued_most = application->queue_per_token,
        .roots = application->roots,
        .data_directory = application->data_directory,
        .may_be_empty = out->body->standing,
        .dry_run = out->body->dry_run,
    };
    if (status == STATUS_OK && out->body->standing)
        status = find_standing(connection, out->grid, &out->standing, error);
    if (status == STATUS_OK) status = sweep_plan_make(connection, &request, faults, &out->plan, error);
    out->row = (struct sweep_new){.name = out->body->name,
                                  .kind = request.kind->name,
                                  .base = base,
                                  .grid = out->grid,
                                  .requires = requires,
                                  .requester = request.requester,
                                  .standing = out->body->standing ? out->standing.text : NULL,
                                  .runs = out->plan.rows,
                                  .run_count = out->plan.count,
                                  .taken = out->plan.taken};
    return status;
}

static enum status insert(struct http_context *context, const struct request *asked, const struct sweep_body *body,
                          const json_t *document, const json_t *requires, const struct idempotency_record *record,
                          struct faults *faults, enum store_outcome *outcome, json_t **made, struct error *error)
{
    struct connection *connection = application_connection(context);
    struct new_sweep sweep = {.body = body};
    enum status status = plan(context, asked, document, requires, faults, &sweep, error);
    sweep.row.record = record;
    if (status == STATUS_OK && body->dry_run) {
        struct dry_run_place place;
        bool exists = false;
        status = sweep_exists(connection, &sweep.row, &exists, error);
        if (status == STATUS_OK) status = application_dry_run_place(context, asked->monitor, &place, error);
        if (status == STATUS_OK) status = dry_run_of_sweep(&place, kinds[body->kind], &sweep.plan, exists, made, error);
    } else if (status == STATUS_OK) {
        status = sweep_insert(connection, &sweep.row, outcome, made, error);
        if (status == STATUS_CONFLICT) sweep_plan_blame(sweep.grid, error);
    }
    sweep_plan_reset(&sweep.plan);
    json_decref(sweep.grid);
    return status;
}

enum status sweeps_post(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct schema_filled filled = {0};
    struct faults faults = {0};
    struct idempotency_record record;
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL, *requires = NULL;
    enum status status;
    if (waiting_resume(context, request, response, &sweeps_wait, &status, error)) return status;
    status = answer_body(request, response, sweeps_post_body, sizeof(struct sweep_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct sweep_body *body = filled.params;
    if (body->dry_run && !request->working) {
        schema_filled_reset(&filled);
        response_to_work(response);
        return STATUS_OK;
    }
    status = requirements_make(json_object_get(request->body, "requires"), &requires, error);
    if (status == STATUS_OK)
        status =
            insert(context, request, body, request->body, requires,
                   application_record(request, "/v1/sweeps/", 202, 200, &record), &faults, &outcome, &document, error);
    json_decref(requires);
    if (faults.count > 0) status = answer_faults(response, &faults, error);
    const bool dry_run = body->dry_run;
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    if (dry_run) return response_json(response, 200, document, error);
    store_notify(application_connection(context));
    return waiting_made(request, response, &sweeps_wait, outcome == STORE_CREATED ? 202 : 200, document, error);
}

/* A request to extend a sweep. */
struct extension {
    const json_t *sweep, *more; /* lent */
    const struct monitor *monitor;
    const struct idempotency_record *record;
    const char *requester;
    bool dry_run;
    size_t made; /* number of new runs */
};

static enum status widen(struct http_context *context, struct extension *extension, struct faults *faults,
                         json_t **document, struct error *error)
{
    const json_t *sweep = extension->sweep;
    const struct application *application = application_of(context);
    struct connection *connection = application_connection(context);
    struct sweep_growth growth = {0};
    const char *id = json_string_value(json_object_get(sweep, "id"));
    const struct sweep_plan_request request = {
        .kind = kind_find(kinds, json_string_value(json_object_get(sweep, "kind"))),
        .base = json_object_get(sweep, "base"),
        .grid = json_object_get(sweep, "grid"),
        .requires = json_object_get(sweep, "requires"),
        .requester = extension->requester,
        .queued_most = application->queue_per_token,
        .roots = application->roots,
        .data_directory = application->data_directory,
        .dry_run = extension->dry_run,
    };
    if (request.kind == NULL) return error_set(error, STATUS_UNSUPPORTED, "this server does not know the sweep's kind");
    const bool standing = json_is_true(json_object_get(sweep, "standing"));
    enum status status = sweep_growth_make(connection, &request, id, standing, extension->more, faults, &growth, error);
    extension->made = growth.plan.count;
    if (status == STATUS_OK && extension->dry_run) {
        struct dry_run_place place;
        status = application_dry_run_place(context, extension->monitor, &place, error);
        if (status == STATUS_OK) status = dry_run_of_sweep(&place, request.kind, &growth.plan, false, document, error);
    } else if (status == STATUS_OK) {
        const struct sweep_widening widening = {.sweep = id,
                                                .grid = request.grid,
                                                .more = growth.grid,
                                                .trajectory = growth.trajectory.text,
                                                .taken = growth.taken,
                                                .later = growth.later,
                                                .runs = growth.plan.rows,
                                                .run_count = growth.plan.count,
                                                .record = extension->record};
        status = sweep_widen(connection, &widening, document, error);
        if (status == STATUS_CONFLICT) sweep_plan_blame(request.grid, error);
    }
    sweep_growth_reset(&growth);
    return status;
}

enum status sweeps_extend(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    struct faults faults = {0};
    struct idempotency_record record;
    json_t *sweep = NULL, *document = NULL;
    enum status status;
    if (waiting_resume(context, request, response, &sweeps_wait, &status, error)) return status;
    status = answer_body(request, response, sweeps_extend_body, sizeof(struct extend_body), &filled, error);
    const bool dry_run = status == STATUS_OK && ((const struct extend_body *)filled.params)->dry_run;
    schema_filled_reset(&filled);
    if (dry_run && !request->working) {
        response_to_work(response);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = sweep_get(application_connection(context), request_parameter(request, "sweep"), &sweep, error);
    struct extension extension = {.sweep = sweep,
                                  .more = json_object_get(request->body, "grid"),
                                  .monitor = request->monitor,
                                  .record = application_record(request, "/v1/sweeps/", 202, 200, &record),
                                  .requester = request->principal.name,
                                  .dry_run = dry_run};
    if (status == STATUS_OK) status = widen(context, &extension, &faults, &document, error);
    if (faults.count > 0) status = answer_faults(response, &faults, error);
    json_decref(sweep);
    if (status != STATUS_OK) return status;
    if (dry_run) return response_json(response, 200, document, error);
    store_notify(application_connection(context));
    return waiting_made(request, response, &sweeps_wait, extension.made > 0 ? 202 : 200, document, error);
}
