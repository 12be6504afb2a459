#include "jobs/landscape.h"

#include "base/memory.h"
#include "kinds/kind.h"
#include "kinds/metric.h"
#include "kinds/probe.h"
#include "schema/result_render.h"

#include <math.h>

struct landscape_params {
    struct param_list checkpoints, grid;
    const char *trajectory;
    double margin;
    bool adaptive;
    int64_t seed;
    struct data_use use, calibration;
    struct quantize_method method;
    int precision;
};
#define AT(field) offsetof(struct landscape_params, field)

static const struct param side_item = {.type = PARAM_INTEGER, .minimum = 2, .maximum = 200};

static const struct param landscape_params[] = {
    CHECKPOINT_SET_PARAMS(
        AT(checkpoints), 3,
        "Ids, names or TRAJECTORY/NAME of the path's checkpoints, in order; null: those of the trajectory",
        AT(trajectory), "Instead of checkpoints: all of this trajectory, which are then written into checkpoints"),
    {.name = "grid",
     .type = PARAM_LIST,
     .offset = AT(grid),
     .item = &side_item,
     .fallback = "[20, 15]",
     .minimum = 2,
     .maximum = 2,
     .help = "Points along x and along y"},
    {.name = "margin",
     .type = PARAM_NUMBER,
     .offset = AT(margin),
     .fallback = "0.25",
     .minimum = 0,
     .maximum = 10,
     .help = "The grid reaches past the projected checkpoints by this share of their extent on each side"},
    {.name = "adaptive_margins",
     .type = PARAM_BOOLEAN,
     .offset = AT(adaptive),
     .fallback = "false",
     .help = "Find each side's margin instead: out until the loss has risen by a quarter, near in sharp basins,"
             " far in flat ones"},
    DATA_SOURCE_PARAMS(AT(use), "\"blocks\""),
    PROBE_METHOD_PARAMS(AT(method), AT(calibration)),
    INPUTS_PRECISION_PARAM(AT(precision)),
    PROBE_SEED_PARAM(AT(seed)),
    {0},
};

/* The list of checkpoints in the parameters, filled in from the trajectory when it is missing. Lent. */
static enum status complete_checkpoints(struct run_request *request, const struct landscape_params *params,
                                        json_t **out, struct error *error)
{
    *out = json_object_get(request->params, "checkpoints");
    if (json_is_array(*out)) return STATUS_OK;
    if (params->trajectory == NULL)
        return error_set_at(error, STATUS_INVALID, "/params/checkpoints", "is missing: give a list, or a trajectory");
    json_t *ids = json_array();
    if (ids == NULL || json_object_set_new(request->params, "checkpoints", ids) != 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    *out = ids;
    const enum status status = checkpoint_set_list(request, params->trajectory, "/params/trajectory", ids, error);
    if (status == STATUS_OK && json_array_size(ids) < 3)
        return error_set_at(error, STATUS_INVALID, "/params/trajectory",
                            "has %zu checkpoint(s): a plane needs three or more", json_array_size(ids));
    return status;
}

static enum status landscape_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct landscape_params *params = filled;
    json_t *ids = NULL;
    enum status status = complete_checkpoints(request, params, &ids, error);
    if (status == STATUS_OK) status = checkpoint_set_check(request, ids, "/params/checkpoints", error);
    if (status != STATUS_OK) return status;
    return probe_check(request, json_string_value(json_array_get(ids, 0)), &params->method, &params->use, NULL,
                       &params->calibration, error);
}

/* --- What is told ---- */

struct mesh_row {
    const struct point *points; /* [count], by x; lent */
    int64_t count;
};

struct landscape_report {
    struct landscape_result found;
    struct mesh_row *mesh;  /* [rows], by y; owned */
    const char *const *ids; /* [id_count] */
    const char *note;       /* NULL: none */
    int64_t columns, rows, id_count;
    bool quantized;
};

static const struct result_field place_item = {.type = RESULT_NUMBER, .finite = true};
static const struct result_field text_item = {.type = RESULT_TEXT};
static const struct result_field pair_item = {.type = RESULT_ARRAY, .length = 2, .item = &place_item};
static const struct result_field loss_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, loss)};
static const struct result_field loss_q_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, loss_q)};
static const struct result_field delta_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, delta)};

#define ROW(number)                                                                                                  \
    {                                                                                                                \
        .type = RESULT_LIST, .offset = offsetof(struct mesh_row, points), .count = offsetof(struct mesh_row, count), \
        .stride = sizeof(struct point), .item = &(number),                                                           \
    }
static const struct result_field loss_row = ROW(loss_item), loss_q_row = ROW(loss_q_item), delta_row = ROW(delta_item);

#define REPORT(field) offsetof(struct landscape_report, field)
#define MESH_STRIDE   .stride = sizeof(struct mesh_row)
#define MESH          .type = RESULT_LIST, .offset = REPORT(mesh), .count = REPORT(rows), MESH_STRIDE
#define WITH_METHOD   .absence = RESULT_NULL, .has_when = true, .when = REPORT(quantized)

static const struct result_field landscape_fields[] = {
    {.name = "checkpoints",
     .type = RESULT_LIST,
     .offset = REPORT(ids),
     .count = REPORT(id_count),
     .item = &text_item,
     .help = "Ids along the path"},
    {.name = "explained_variance",
     .type = RESULT_ARRAY,
     .offset = REPORT(found.plane.explained),
     .length = 2,
     .item = &place_item,
     .help = "Shares of the checkpoints' variance along the two directions"},
    {.name = "points",
     .type = RESULT_LIST,
     .offset = REPORT(found.plane.points),
     .count = REPORT(id_count),
     .stride = 2 * sizeof(double),
     .item = &pair_item,
     .help = "The checkpoints projected, [x, y] in parameter units from their mean"},
    {.name = "point_losses",
     .type = RESULT_LIST,
     .offset = REPORT(found.path),
     .count = REPORT(id_count),
     .stride = sizeof(struct point),
     .item = &loss_item,
     .unit = "nats",
     .help = "In full precision, at each projected checkpoint"},
    {.name = "x",
     .type = RESULT_LIST,
     .offset = REPORT(found.x),
     .count = REPORT(columns),
     .item = &place_item,
     .help = "The grid's places along the first direction, in parameter units"},
    {.name = "y",
     .type = RESULT_LIST,
     .offset = REPORT(found.y),
     .count = REPORT(rows),
     .item = &place_item,
     .help = "The grid's places along the second direction, in parameter units"},
    {.name = "losses", MESH, .item = &loss_row, .unit = "nats", .help = "losses[iy][ix] in full precision"},
    {.name = "losses_q",
     MESH,
     .item = &loss_q_row,
     .unit = "nats",
     .help = "Of the quantized points, [iy][ix]; null without a method",
     WITH_METHOD},
    {.name = "deltas",
     MESH,
     .item = &delta_row,
     .help = "losses_q / losses − 1, [iy][ix]; null without a method",
     WITH_METHOD},
    {.name = "margins",
     .type = RESULT_ARRAY,
     .offset = REPORT(found.margins),
     .length = 4,
     .item = &place_item,
     .help = "Shares of the extent at low x, high x, low y, high y"},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};
static const struct result_shape landscape_shape = {.name = "LandscapeResult", .fields = landscape_fields};

static enum status render(const struct landscape_request *request, const struct landscape_params *params,
                          const struct landscape_result *found, json_t **result, struct error *error)
{
    char note[PROBE_NOTE];
    struct landscape_report report = {
        .found = *found,
        .ids = params->checkpoints.texts,
        .id_count = found->plane.count,
        .columns = request->columns,
        .rows = request->rows,
        .quantized = request->point.method != NULL,
        .note = probe_note_text(found->mesh, request->rows * request->columns, note),
    };
    enum status status = memory_new(report.rows, sizeof *report.mesh, "a result", &report.mesh, error);
    if (status != STATUS_OK) return status;
    for (int64_t y = 0; y < report.rows; y++)
        report.mesh[y] = (struct mesh_row){found->mesh + y * report.columns, report.columns};
    status = result_render(&landscape_shape, &report, result, error);
    memory_free(report.mesh);
    return status;
}

/* The inputs of a run, and the request that lends from them. Must not move. */
struct opened {
    struct probe_set read;
    struct landscape_request request;
};

static enum status open_all(const struct run_context *context, const struct landscape_params *params, struct opened *o,
                            struct error *error)
{
    const enum status status =
        probe_set_open(context, params->checkpoints.texts, params->checkpoints.count, params->precision,
                       &params->method, &params->use, &params->calibration, params->seed, &o->read, error);
    o->request = (struct landscape_request){
        .point = o->read.probe.request,
        .team = context->team,
        .columns = params->grid.integers[0],
        .rows = params->grid.integers[1],
        .margin = params->adaptive ? NAN : params->margin,
        .work_directory = context->work_directory,
    };
    return status;
}

static enum status plan_find(const struct opened *o, struct plan_budget *budget, struct run_plan *out,
                             struct error *error)
{
    *budget = backend_budget(o->request.point.backend, o->request.work_directory);
    return landscape_plan(&o->request, budget, out, error);
}

static enum status landscape_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                      struct run_plan *out, struct error *error)
{
    struct opened o;
    enum status status = open_all(context, filled, &o, error);
    if (status == STATUS_OK) status = plan_find(&o, budget, out, error);
    probe_set_reset(&o.read);
    return status;
}

static enum status landscape_execute(const struct run_context *context, const void *filled, json_t **result,
                                     struct measurements *out, struct error *error)
{
    const struct landscape_params *params = filled;
    struct opened o;
    struct landscape_result found = {0};
    struct plan_budget budget;
    struct run_plan plan;
    enum status status;
    (void)out; /* the losses belong to points in a plane, not to checkpoints */
    if ((status = open_all(context, params, &o, error)) != STATUS_OK) goto done;
    if ((status = plan_find(&o, &budget, &plan, error)) != STATUS_OK) goto done;
    if ((status = landscape_run(&o.request, &found, error)) != STATUS_OK) goto done;
    run_context_note_work(context, plan_work(&plan) * (double)found.measured / (double)landscape_points(&o.request));
    status = render(&o.request, params, &found, result, error);
done:
    landscape_result_reset(&found);
    probe_set_reset(&o.read);
    return status;
}

static const char *const landscape_resumes[] = {"landscape.table", NULL};

const struct kind landscape_kind = {
    .name = "landscape",
    .help = "Losses over the plane of a path of checkpoints",
    .params = landscape_params,
    .params_size = sizeof(struct landscape_params),
    .result = &landscape_shape,
    .check = landscape_check,
    .execute = landscape_execute,
    .plan = landscape_run_plan,
    .resumes = landscape_resumes,
};
