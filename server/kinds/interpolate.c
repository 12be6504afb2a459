#include "jobs/interpolate.h"

#include "kinds/kind.h"
#include "kinds/metric.h"
#include "kinds/probe.h"
#include "schema/result_render.h"

struct interpolate_params {
    const char *from, *to;
    int64_t points, seed;
    struct param_list range;
    struct data_use use, calibration;
    struct quantize_method method;
    int precision;
};
#define AT(field) offsetof(struct interpolate_params, field)

static const struct param alpha_item = {.type = PARAM_NUMBER, .minimum = -10, .maximum = 10};

static const struct param interpolate_params[] = {
    {.name = "from",
     .type = PARAM_CHECKPOINT,
     .offset = AT(from),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint at alpha = 0"},
    {.name = "to",
     .type = PARAM_CHECKPOINT,
     .offset = AT(to),
     .help = "Id, name or TRAJECTORY/NAME of the checkpoint at alpha = 1"},
    {.name = "points",
     .type = PARAM_INTEGER,
     .offset = AT(points),
     .fallback = "51",
     .minimum = 2,
     .maximum = 10001,
     .help = "Alphas, evenly spaced over the range, both ends included"},
    {.name = "range",
     .type = PARAM_LIST,
     .offset = AT(range),
     .item = &alpha_item,
     .fallback = "[0, 1]",
     .minimum = 2,
     .maximum = 2,
     .help = "First and last alpha; outside of 0 to 1 the line goes on past the checkpoints"},
    DATA_SOURCE_PARAMS(AT(use), "\"blocks\""),
    PROBE_METHOD_PARAMS(AT(method), AT(calibration)),
    INPUTS_PRECISION_PARAM(AT(precision)),
    PROBE_SEED_PARAM(AT(seed)),
    {0},
};

static enum status interpolate_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct interpolate_params *params = filled;
    if (!(params->range.numbers[0] < params->range.numbers[1]))
        return error_set_at(error, STATUS_INVALID, "/params/range", "must ascend, found %g to %g",
                            params->range.numbers[0], params->range.numbers[1]);
    json_t *both = json_pack("[ss]", params->from, params->to);
    const enum status status = both == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run")
                                            : checkpoint_set_check(request, both, "/params/to", error);
    json_decref(both);
    if (status != STATUS_OK) return status;
    return probe_check(request, params->from, &params->method, &params->use, NULL, &params->calibration, error);
}

struct interpolate_report {
    struct interpolate_result found;
    bool quantized;
    const char *note; /* NULL: none */
};

static const struct result_field place_item = {.type = RESULT_NUMBER, .finite = true};
static const struct result_field loss_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, loss)};
static const struct result_field loss_q_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, loss_q)};
static const struct result_field delta_item = {.type = RESULT_NUMBER, .offset = offsetof(struct point, delta)};
static const struct result_field interval_item = {
    .type = RESULT_INTERVAL, .offset = offsetof(struct point, delta_low), .high = offsetof(struct point, delta_high)};

#define REPORT(field) offsetof(struct interpolate_report, field)
#define POINTS \
    .type = RESULT_LIST, .offset = REPORT(found.points), .count = REPORT(found.count), .stride = sizeof(struct point)
#define WITH_METHOD .absence = RESULT_NULL, .has_when = true, .when = REPORT(quantized)

static const struct result_field interpolate_fields[] = {
    {.name = "alphas",
     .type = RESULT_LIST,
     .offset = REPORT(found.alphas),
     .count = REPORT(found.count),
     .item = &place_item,
     .help = "0 is the first checkpoint, 1 the second"},
    {.name = "losses", POINTS, .item = &loss_item, .unit = "nats", .help = "In full precision"},
    {.name = "losses_q", POINTS, .item = &loss_q_item, .unit = "nats", .help = "Null without a method", WITH_METHOD},
    {.name = "deltas",
     POINTS,
     .item = &delta_item,
     .help = "losses_q / losses − 1; null without a method",
     WITH_METHOD},
    {.name = "delta_intervals",
     POINTS,
     .item = &interval_item,
     .help = "95 % intervals over sequences, made like delta_interval of a quantize run; null without a method",
     WITH_METHOD},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};
static const struct result_shape interpolate_shape = {.name = "InterpolateResult", .fields = interpolate_fields};

static enum status render(const struct interpolate_result *found, bool quantized, json_t **result, struct error *error)
{
    char note[PROBE_NOTE];
    const struct interpolate_report report = {*found, quantized, probe_note_text(found->points, found->count, note)};
    return result_render(&interpolate_shape, &report, result, error);
}

/* The inputs of a run, and the request that lends from them. Must not move. */
struct opened {
    struct probe_set read;
    struct interpolate_request request;
};

static enum status open_all(const struct run_context *context, const struct interpolate_params *params,
                            struct opened *o, struct error *error)
{
    const char *const ids[] = {params->from, params->to};
    const enum status status = probe_set_open(context, ids, 2, params->precision, &params->method, &params->use,
                                              &params->calibration, params->seed, &o->read, error);
    o->request = (struct interpolate_request){
        .point = o->read.probe.request,
        .low = params->range.numbers[0],
        .high = params->range.numbers[1],
        .points = params->points,
        .work_directory = context->work_directory,
    };
    return status;
}

static enum status plan_find(const struct opened *o, struct plan_budget *budget, struct run_plan *out,
                             struct error *error)
{
    *budget = backend_budget(o->request.point.backend, o->request.work_directory);
    return interpolate_plan(&o->request, budget, out, error);
}

static enum status interpolate_run_plan(const struct run_context *context, const void *filled,
                                        struct plan_budget *budget, struct run_plan *out, struct error *error)
{
    struct opened o;
    enum status status = open_all(context, filled, &o, error);
    if (status == STATUS_OK) status = plan_find(&o, budget, out, error);
    probe_set_reset(&o.read);
    return status;
}

static enum status interpolate_execute(const struct run_context *context, const void *filled, json_t **result,
                                       struct measurements *out, struct error *error)
{
    struct opened o;
    struct interpolate_result found = {0};
    struct plan_budget budget;
    struct run_plan plan;
    enum status status;
    (void)out; /* points between checkpoints cannot be shown on a curve over checkpoints */
    if ((status = open_all(context, filled, &o, error)) != STATUS_OK) goto done;
    if ((status = plan_find(&o, &budget, &plan, error)) != STATUS_OK) goto done;
    if ((status = interpolate_run(&o.request, &found, error)) != STATUS_OK) goto done;
    run_context_note_work(context, plan_work(&plan));
    status = render(&found, o.request.point.method != NULL, result, error);
done:
    interpolate_result_reset(&found);
    probe_set_reset(&o.read);
    return status;
}

static const char *const interpolate_resumes[] = {"interpolate.table", NULL};

const struct kind interpolate_kind = {
    .name = "interpolate",
    .help = "Losses on the line between two checkpoints, in full precision and quantized",
    .params = interpolate_params,
    .params_size = sizeof(struct interpolate_params),
    .result = &interpolate_shape,
    .check = interpolate_check,
    .execute = interpolate_execute,
    .plan = interpolate_run_plan,
    .resumes = interpolate_resumes,
};
