#include "eval/bootstrap.h"
#include "eval/leverage.h"
#include "kinds/compare_pair.h"
#include "kinds/compare_report.h"
#include "kinds/compared_run.h"
#include "kinds/kind.h"
#include "kinds/probe.h"
#include "schema/result_render.h"

#include <string.h>

struct compare_params {
    const char *a, *b;
    struct param_list checkpoints;
    struct data_use evaluation, calibration;
    struct quantize_method method;
    int precision;
    bool per_token;
    int64_t seed;
};
#define AT(field) offsetof(struct compare_params, field)

static const struct param compare_params[] = {
    {.name = "a",
     .type = PARAM_STRING,
     .offset = AT(a),
     .fallback = "null",
     .nullable = true,
     .maximum = 100,
     .help = "Id of the run that is compared with, of the kind evaluate or quantize; null: checkpoints are given"},
    {.name = "b",
     .type = PARAM_STRING,
     .offset = AT(b),
     .fallback = "null",
     .nullable = true,
     .maximum = 100,
     .help = "Id of the run that is compared, on the same evaluation; null: checkpoints are given"},
    CHECKPOINT_SET_PARAM(
        AT(checkpoints), 2, 2,
        "Instead of runs: ids, names or TRAJECTORY/NAME of two checkpoints, which are measured on the evaluation"),
    INPUTS_EVALUATION_OR_NULL_PARAM(AT(evaluation),
                                    "What checkpoints are measured on; null: runs are given, which have theirs"),
    PROBE_METHOD_PARAMS(AT(method), AT(calibration)),
    INPUTS_PRECISION_PARAM(AT(precision)),
    {.name = "per_token",
     .type = PARAM_BOOLEAN,
     .offset = AT(per_token),
     .fallback = "false",
     .help =
         "Also compares token by token; refused of runs that kept no values of tokens. Runs that both kept them are "
         "compared by token in any case"},
    PROBE_SEED_PARAM(AT(seed)),
    {0},
};

/* ---- When posted ---- */

static bool of_runs(const struct compare_params *params)
{
    return params->a != NULL || params->b != NULL;
}

static enum status missing(const char *pointer, struct error *error)
{
    return error_set_at(error, STATUS_INVALID, pointer,
                        "is missing: give two runs, a and b, or checkpoints and an evaluation");
}

/* Checks that the request uses exactly one of the two forms. */
static enum status check_way(const struct compare_params *params, struct error *error)
{
    static const char *const useless = "is of no use with two runs, which have theirs";
    if (of_runs(params)) {
        if (params->a == NULL) return missing("/params/a", error);
        if (params->b == NULL) return missing("/params/b", error);
        if (params->checkpoints.count > 0)
            return error_set_at(error, STATUS_INVALID, "/params/checkpoints", "exclude a and b: give one or the other");
        if (params->evaluation.dataset != NULL)
            return error_set_at(error, STATUS_INVALID, "/params/evaluation", "%s", useless);
        if (point_method_given(&params->method))
            return error_set_at(error, STATUS_INVALID, "/params/method", "%s", useless);
        if (params->calibration.dataset != NULL)
            return error_set_at(error, STATUS_INVALID, "/params/calibration", "%s", useless);
        if (params->precision != PRECISION_F32)
            return error_set_at(error, STATUS_INVALID, "/params/precision", "%s", useless);
        return STATUS_OK;
    }
    if (params->checkpoints.count == 0) return missing("/params/a", error);
    return params->evaluation.dataset == NULL ? missing("/params/evaluation", error) : STATUS_OK;
}

static enum status check_run(struct run_request *request, bool tokens_needed, struct compared_run *run,
                             struct error *error)
{
    struct store_id checkpoint = {0};
    bool tokens;
    int64_t bytes;
    enum status status = compared_run_open(request->connection, run, error);
    if (status == STATUS_NOT_FOUND)
        return error_set_at(error, STATUS_INVALID, run->pointer, "there is no run \"%.60s\"", run->id);
    if (status == STATUS_OK)
        status = compared_run_find(request->connection, run, tokens_needed, &tokens, &bytes, error);
    if (status != STATUS_OK || strlen(run->checkpoint) >= sizeof checkpoint.text) return status;
    memcpy(checkpoint.text, run->checkpoint, strlen(run->checkpoint));
    return run_request_uses_checkpoint(request, &checkpoint, error);
}

static enum status check_runs(struct run_request *request, const struct compare_params *params, struct error *error)
{
    struct compared_run a = {.pointer = "/params/a", .id = params->a}, b = {.pointer = "/params/b", .id = params->b};
    enum status status = check_run(request, params->per_token, &a, error);
    if (status == STATUS_OK) status = check_run(request, params->per_token, &b, error);
    if (status == STATUS_OK) status = compared_runs_check(&a, &b, error);
    compared_run_reset(&a);
    compared_run_reset(&b);
    return status;
}

/* Each checkpoint may have its own tokenizer, which decides the result too. */
static enum status check_checkpoints(struct run_request *request, const struct compare_params *params,
                                     struct error *error)
{
    static const char *const kept[] = {"tokenizer_a", "tokenizer_b"};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        status = probe_check(request, params->checkpoints.texts[i], &params->method, &params->evaluation, "evaluation",
                             &params->calibration, error);
        json_t *tokenizer = json_object_get(request->identity, "tokenizer");
        if (status == STATUS_OK && tokenizer != NULL && json_object_set(request->identity, kept[i], tokenizer) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a run");
        (void)json_object_del(request->identity, "tokenizer");
    }
    return status;
}

static enum status compare_check(struct run_request *request, const void *filled, struct error *error)
{
    const struct compare_params *params = filled;
    enum status status = check_way(params, error);
    if (status != STATUS_OK) return status;
    if (of_runs(params)) return check_runs(request, params, error);
    return check_checkpoints(request, params, error);
}

/* ---- What it takes ---- */

/* The number of additions in the resampling behind the intervals. */
static double additions(int64_t units, double degrees, int numbers)
{
    const int64_t samples = difference_resampled(degrees, units) ? BOOTSTRAP_DRAWS : 1;
    return (double)samples * 4 * numbers * (double)units;
}

/* Plans the work after the losses: statistics and text. `degrees`: the sequences' leverage_degrees; tokens weigh the
 * same. */
static void plan_statistics(struct run_plan *plan, int64_t sequences, double degrees, int64_t predictions, int numbers,
                            bool tokens)
{
    const int64_t doubles = BOOTSTRAP_DRAWS * DIFFERENCE_PAIRS_MOST + numbers * sequences * 2;
    const int64_t text = sequences * 128;
    const int64_t bytes =
        doubles * (int64_t)sizeof(double) + text + (tokens ? token_difference_bytes(sequences, predictions) : 0);
    plan_take(plan, PLAN_HOST, bytes + PLAN_SMALL_BYTES);
    plan_give(plan, PLAN_HOST, bytes + PLAN_SMALL_BYTES);
    plan->flops += additions(sequences, degrees, numbers);
    if (tokens) plan->flops += additions(predictions, (double)(predictions - 1), numbers);
    plan->written_bytes += text + (tokens ? predictions * (12 + 12 * numbers) : 0);
}

struct opened_runs {
    struct compared_run a, b;
    bool tokens; /* both have them */
};

static void runs_reset(struct opened_runs *runs)
{
    compared_run_reset(&runs->a);
    compared_run_reset(&runs->b);
}

static enum status runs_open(const struct run_context *context, const struct compare_params *params,
                             struct opened_runs *runs, int64_t bytes[2], struct error *error)
{
    bool tokens[2] = {false, false};
    enum status status;
    *runs = (struct opened_runs){.a = {.pointer = "/params/a", .id = params->a},
                                 .b = {.pointer = "/params/b", .id = params->b}};
    struct compared_run *const both[] = {&runs->a, &runs->b};
    for (int i = 0; i < 2; i++) {
        if ((status = compared_run_open(context->connection, both[i], error)) != STATUS_OK) return status;
        status = compared_run_find(context->connection, both[i], params->per_token, &tokens[i], &bytes[i], error);
        if (status != STATUS_OK) return status;
    }
    runs->tokens = tokens[0] && tokens[1];
    return compared_runs_check(&runs->a, &runs->b, error);
}

static int64_t integer_of(const struct compared_run *run, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(run->document, "result"), name));
}

static enum status runs_plan(const struct run_context *context, const struct compare_params *params,
                             struct plan_budget *budget, struct run_plan *out, struct error *error)
{
    struct opened_runs runs;
    struct backend *backend = NULL;
    int64_t bytes[2];
    enum status status = runs_open(context, params, &runs, bytes, error);
    if (status == STATUS_OK) status = inputs_backend(context, PRECISION_F32, &backend, error);
    if (status == STATUS_OK) {
        const int64_t sequences = integer_of(&runs.a, "sequences");
        const int64_t predictions = integer_of(&runs.a, "tokens") - sequences;
        const int numbers = runs.a.left->count == 1 ? 1 : COMPARED_NUMBERS - 1;
        *budget = backend_budget(backend, context->work_directory);
        out->read_bytes = bytes[0] + bytes[1];
        plan_take(out, PLAN_HOST, 2 * out->read_bytes); /* a file as text and what was parsed of it */
        /* the runs' files have the lengths; no lengths leave more degrees than equal ones */
        plan_statistics(out, sequences, (double)(sequences - 1), predictions, numbers, runs.tokens);
    }
    backend_free(backend);
    runs_reset(&runs);
    return status;
}

static struct compare_pair_request pair_of(const struct compare_params *params)
{
    return (struct compare_pair_request){
        .checkpoints = {params->checkpoints.texts[0], params->checkpoints.texts[1]},
        .evaluation = &params->evaluation,
        .calibration = &params->calibration,
        .method = point_method_given(&params->method) ? &params->method : NULL,
        .precision = params->precision,
        .per_token = params->per_token,
        .seed = params->seed,
    };
}

static enum status pair_plan(const struct run_context *context, struct compare_pair *pair, struct plan_budget *budget,
                             struct run_plan *out, struct error *error)
{
    const struct sequences *evaluation = &pair->sides[0].evaluation;
    const enum status status = compare_pair_plan(context, pair, budget, out, error);
    if (status != STATUS_OK) return status;
    const double degrees = leverage_of_starts(evaluation->starts, evaluation->count).degrees;
    plan_statistics(out, evaluation->count, degrees, evaluation->starts[evaluation->count] - evaluation->count,
                    pair->request.method == NULL ? 1 : COMPARED_NUMBERS - 1, pair->request.per_token);
    return STATUS_OK;
}

static enum status compare_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                struct run_plan *out, struct error *error)
{
    const struct compare_params *params = filled;
    struct compare_pair pair = {0};
    *out = (struct run_plan){.flops = 0};
    if (of_runs(params)) return runs_plan(context, params, budget, out, error);
    const struct compare_pair_request request = pair_of(params);
    enum status status = compare_pair_open(context, &request, &pair, error);
    if (status == STATUS_OK) status = pair_plan(context, &pair, budget, out, error);
    compare_pair_reset(&pair);
    return status;
}

/* ---- The comparison ---- */

static enum status tell(const struct run_context *context, const struct compared_losses *a,
                        const struct compared_losses *b, int64_t seed, struct compare_report *report, json_t **result,
                        struct error *error)
{
    enum status status;
    if ((status = monitor_check(context->monitor, error)) != STATUS_OK) return status;
    if ((status = compare_report_fill(a, b, (uint64_t)seed, report, error)) != STATUS_OK) return status;
    if ((status = monitor_check(context->monitor, error)) != STATUS_OK) return status;
    if ((status = compare_report_publish(a, b, context->artifacts, error)) != STATUS_OK) return status;
    return result_render(&compare_report_shape, report, result, error);
}

static const char *or_none(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static struct compare_report_side run_side(const struct compared_run *run)
{
    return (struct compare_report_side){run->id, run->checkpoint, or_none(run->recipe), or_none(run->calibration)};
}

static enum status runs_execute(const struct run_context *context, const struct compare_params *params, json_t **result,
                                struct error *error)
{
    struct opened_runs runs;
    int64_t bytes[2];
    enum status status = runs_open(context, params, &runs, bytes, error);
    const struct artifact_place *place = context->artifact_place;
    if (status == STATUS_OK) status = compared_run_read(context->connection, place, runs.tokens, &runs.a, error);
    if (status == STATUS_OK) status = compared_run_read(context->connection, place, runs.tokens, &runs.b, error);
    if (status == STATUS_OK) {
        const struct compared_losses a = compared_run_losses(&runs.a), b = compared_run_losses(&runs.b);
        struct compare_report report = {.a = run_side(&runs.a),
                                        .b = run_side(&runs.b),
                                        .numbers = {.kind = runs.a.kind, .protocol = runs.a.protocol}};
        status = tell(context, &a, &b, params->seed, &report, result, error);
    }
    runs_reset(&runs);
    return status;
}

static struct compare_report_side pair_side(const struct compare_pair_side *side)
{
    return (struct compare_report_side){NULL, side->inputs.row.id.text, or_none(side->recipe),
                                        or_none(side->calibrated.id)};
}

static enum status pair_execute(const struct run_context *context, const struct compare_params *params, json_t **result,
                                struct error *error)
{
    const struct compare_pair_request request = pair_of(params);
    struct compare_pair pair = {0};
    struct plan_budget budget;
    struct run_plan plan;
    enum status status;
    if ((status = compare_pair_open(context, &request, &pair, error)) != STATUS_OK) goto done;
    if ((status = pair_plan(context, &pair, &budget, &plan, error)) != STATUS_OK) goto done;
    if (context->work != NULL) *context->work = plan_work(&plan); /* an attempt never continues an earlier one's work */
    if ((status = compare_pair_measure(context, &pair, error)) != STATUS_OK) goto done;
    const struct compared_losses a = compare_pair_losses(&pair, 0), b = compare_pair_losses(&pair, 1);
    struct compare_report report = {.a = pair_side(&pair.sides[0]),
                                    .b = pair_side(&pair.sides[1]),
                                    .numbers = {.kind = a.left->kind, .protocol = pair.sides[0].protocol}};
    status = tell(context, &a, &b, params->seed, &report, result, error);
done:
    compare_pair_reset(&pair);
    return status;
}

static enum status compare_execute(const struct run_context *context, const void *filled, json_t **result,
                                   struct measurements *out, struct error *error)
{
    const struct compare_params *params = filled;
    (void)out; /* a difference of two checkpoints belongs to neither, so no curve can show it */
    return of_runs(params) ? runs_execute(context, params, result, error)
                           : pair_execute(context, params, result, error);
}

const struct kind compare_kind = {
    .name = "compare",
    .help = "Differences between two runs, or two checkpoints, on the same sequences, in pairs",
    .params = compare_params,
    .params_size = sizeof(struct compare_params),
    .result = &compare_report_shape,
    .check = compare_check,
    .execute = compare_execute,
    .plan = compare_plan,
};
