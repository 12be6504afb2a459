#include "kinds/compare_pair.h"

#include <stdio.h>
#include <string.h>

/* ---- What is read ---- */

static enum status side_open(const struct run_context *context, const struct compare_pair_request *request, int which,
                             struct compare_pair_side *side, struct error *error)
{
    char dataset[STORE_NAME], calibrated_on[STORE_NAME] = "";
    struct inputs *inputs = &side->inputs;
    enum status status = inputs_open(context, request->checkpoints[which], request->precision, inputs, error);
    if (status != STATUS_OK) return status;
    status = inputs_sequences(context, inputs, request->evaluation, false, &side->evaluation, dataset, error);
    if (status != STATUS_OK) return status;
    status = protocol_id(&side->evaluation, inputs_precisions[request->precision], side->protocol, error);
    if (status != STATUS_OK || request->method == NULL) return status;
    side->method = *request->method;
    if ((status = quantize_method_complete(&side->method, error)) != STATUS_OK) return status;
    if ((status = recipes_id(&side->method, side->recipe, error)) != STATUS_OK) return status;
    if (request->calibration->dataset == NULL) return STATUS_OK;
    status = inputs_sequences(context, inputs, request->calibration, true, &side->calibration, calibrated_on, error);
    if (status != STATUS_OK) return status;
    return protocol_calibrated(&side->method, &side->calibration, 1, calibrated_on, &side->calibrated, error);
}

enum status compare_pair_open(const struct run_context *context, const struct compare_pair_request *request,
                              struct compare_pair *out, struct error *error)
{
    struct compare_pair_side *a = &out->sides[0], *b = &out->sides[1];
    *out = (struct compare_pair){.request = *request};
    enum status status = side_open(context, request, 0, a, error);
    if (status == STATUS_OK) status = side_open(context, request, 1, b, error);
    if (status != STATUS_OK) return status;
    backend_free(b->inputs.backend);
    b->inputs.backend = NULL;
    if (strcmp(a->protocol, b->protocol) == 0) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, "/params/checkpoints/1",
                        "its tokenizer makes other tokens of the evaluation than the first one's, so that their losses "
                        "are of other sequences; use a dataset of tokens that both have");
}

void compare_pair_reset(struct compare_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        struct compare_pair_side *side = &pair->sides[i];
        evaluate_result_reset(&side->evaluated);
        quantize_result_reset(&side->quantized);
        dataset_sequences_free(&side->evaluation);
        dataset_sequences_free(&side->calibration);
        inputs_reset(&side->inputs);
    }
}

/* ---- What is measured ---- */

static struct evaluate_request evaluation_of(const struct run_context *context, const struct compare_pair *pair,
                                             int side, const struct monitor *monitor)
{
    return (struct evaluate_request){.model = pair->sides[side].inputs.model,
                                     .backend = pair->sides[0].inputs.backend,
                                     .sequences = &pair->sides[side].evaluation,
                                     .directory = context->work_directory,
                                     .monitor = monitor,
                                     .per_token = pair->request.per_token};
}

static struct quantize_request quantization_of(const struct run_context *context, const struct compare_pair *pair,
                                               int side, const struct monitor *monitor)
{
    const struct compare_pair_side *from = &pair->sides[side];
    return (struct quantize_request){.model = from->inputs.model,
                                     .backend = pair->sides[0].inputs.backend,
                                     .method = from->method,
                                     .calibration = from->calibration.count > 0 ? &from->calibration : NULL,
                                     .evaluation = &from->evaluation,
                                     .per_token = pair->request.per_token,
                                     .seed = (uint64_t)pair->request.seed,
                                     .monitor = monitor,
                                     .directory = context->work_directory};
}

/* Bytes of the losses of sequences, and of tokens in single precision, that one measurement leaves. */
static int64_t kept_bytes(const struct compare_pair *pair)
{
    const struct sequences *evaluation = &pair->sides[0].evaluation;
    const int64_t predictions = evaluation->starts[evaluation->count] - evaluation->count, columns = 3;
    return evaluation->count * (columns + 1) * (int64_t)sizeof(double) +
           (pair->request.per_token ? predictions * columns * (int64_t)sizeof(float) : 0);
}

enum status compare_pair_plan(const struct run_context *context, struct compare_pair *pair, struct plan_budget *budget,
                              struct run_plan *out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct run_plan){.flops = 0};
    *budget = backend_budget(pair->sides[0].inputs.backend, context->work_directory);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        const struct evaluate_request evaluate = evaluation_of(context, pair, i, NULL);
        const struct quantize_request quantize = quantization_of(context, pair, i, NULL);
        struct run_plan one;
        status = pair->request.method == NULL ? evaluate_plan(&evaluate, budget, &one, error)
                                              : quantize_plan(&quantize, 1, budget, &one, error);
        if (status != STATUS_OK) break;
        plan_add(out, &one, 1);
        plan_take(out, PLAN_HOST, kept_bytes(pair));
    }
    return status;
}

/* Reports the progress of both measurements as one. */
struct relay {
    const struct monitor *outer;
    int side;
};

static void relay_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct relay *relay = owner;
    monitor_progress(relay->outer, relay->side * total + done, 2 * total, unit);
}

static void relay_log(void *owner, const char *line)
{
    monitor_log(((const struct relay *)owner)->outer, "%s", line);
}

static enum status relay_check(void *owner, struct error *error)
{
    return monitor_check(((const struct relay *)owner)->outer, error);
}

enum status compare_pair_measure(const struct run_context *context, struct compare_pair *pair, struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        struct relay relay = {context->monitor, i};
        const struct monitor monitor = {&relay, relay_progress, relay_log, relay_check};
        const struct evaluate_request evaluate = evaluation_of(context, pair, i, &monitor);
        const struct quantize_request quantize = quantization_of(context, pair, i, &monitor);
        status = pair->request.method == NULL ? evaluate_asked(&evaluate, &pair->sides[i].evaluated, error)
                                              : quantize_run(&quantize, &pair->sides[i].quantized, error);
    }
    return status;
}

struct compared_losses compare_pair_losses(const struct compare_pair *pair, int side)
{
    const struct compare_pair_side *from = &pair->sides[side];
    const struct quantize_result *found = &from->quantized;
    if (pair->request.method == NULL)
        return (struct compared_losses){.left = &losses_evaluate,
                                        .sequences = from->evaluated.sequences,
                                        .predictions = from->evaluated.sequence_predictions,
                                        .columns = {from->evaluated.sequence_losses},
                                        .tokens = {from->evaluated.token_losses}};
    return (struct compared_losses){
        .left = &losses_quantize,
        .sequences = found->fp.sequences,
        .predictions = found->fp.sequence_predictions,
        .columns = {found->fp.sequence_losses, found->q.sequence_losses, found->sequence_kl},
        .tokens = {found->fp.token_losses, found->q.token_losses, found->token_kl},
    };
}
