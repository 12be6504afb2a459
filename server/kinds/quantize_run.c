#include "kinds/quantize_run.h"

#include "base/checksum.h"
#include "base/members.h"
#include "kinds/baselines.h"
#include "kinds/losses.h"
#include "kinds/method.h"
#include "kinds/quantize_export.h"
#include "kinds/quantize_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run_batch;

/* A run of the batch. */
struct run_member {
    struct member member;
    struct run_batch *batch;
    struct kind_member *given; /* lent: the run, which is told its end through it */
    const struct quantize_params *params;
    struct export_job *export;
    char *save_path;
    struct quantize_identity identity;
    struct quantize_findings found;
};

/* The inputs that runs of a batch share. */
struct run_batch {
    struct members members;
    struct run_member *runs; /* [count] */
    size_t count;
    struct run_context context; /* the first run's context, with the monitor of all members */
    struct inputs inputs;
    struct sequences calibration, evaluation;
    struct overlap overlap;
    char dataset[STORE_NAME], calibrated_on[STORE_NAME], protocol[PROTOCOL_TEXT];
    char *baseline;
};

static void ended(struct member *member, enum status status, const struct error *error)
{
    struct run_member *run = member->owner;
    export_close(run->export);
    free(run->save_path);
    quantize_result_reset(&run->found.result);
    quantize_export_reset(&run->found.exported);
    kind_member_end(run->given, status, error);
}

/* ---- What they have in common ------------------------------------------------------------------------------------ */

static enum status data_open(struct run_batch *batch, const struct quantize_params *params, struct error *error)
{
    struct data_use use = params->calibration;
    enum status status = inputs_sequences(&batch->context, &batch->inputs, &params->evaluation, false,
                                          &batch->evaluation, batch->dataset, error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    use.max_sequences *= params->calibration_draws;
    if ((status = inputs_sequences(&batch->context, &batch->inputs, &use, true, &batch->calibration,
                                   batch->calibrated_on, error)) != STATUS_OK)
        return status;
    if (params->calibration_draws > 1 && batch->calibration.count < use.max_sequences)
        return error_set_at(error, STATUS_INVALID, "/params/calibration_draws",
                            "%lld draws of %lld sequences; the dataset has %lld in all with this \"packing\"",
                            (long long)params->calibration_draws, (long long)params->calibration.max_sequences,
                            (long long)batch->calibration.count);
    status = overlap_find(&batch->evaluation, &batch->calibration, &batch->overlap, error);
    if (status == STATUS_OK && batch->overlap.overlapping > 0)
        monitor_log(
            &batch->members.monitor, "%lld of %lld windows of %lld evaluation tokens stand in the calibration data too",
            (long long)batch->overlap.overlapping, (long long)batch->overlap.windows, (long long)batch->overlap.window);
    return status;
}

static enum status batch_open(struct run_batch *batch, struct error *error)
{
    const struct quantize_params *params = batch->runs[0].params;
    enum status status;
    if ((status = inputs_open(&batch->context, params->checkpoint, params->precision, &batch->inputs, error)) !=
        STATUS_OK)
        return status;
    if ((status = data_open(batch, params, error)) != STATUS_OK) return status;
    if ((status = protocol_id(&batch->evaluation, inputs_precisions[params->precision], batch->protocol, error)) !=
        STATUS_OK)
        return status;
    return baselines_path(&batch->context, &batch->inputs, &batch->evaluation, &batch->baseline, error);
}

/* ---- What is each one's own -------------------------------------------------------------------------------------- */

/* A hash of the files' content: the work directory belongs to the run, but the checkpoint's files may have been
 * replaced since. */
static uint64_t content_of(const struct inputs *inputs)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, inputs->row.id.text, strlen(inputs->row.id.text));
    checksum_add(&sum, inputs->row.sha256, strlen(inputs->row.sha256));
    return checksum_value(&sum);
}

/* Streams stay in the work directory between two attempts, and so do the exported blocks. */
static enum status run_open(struct run_member *run, struct quantize_request *request, struct error *error)
{
    struct run_batch *batch = run->batch;
    const struct run_context *context = &run->given->context;
    const int format = run->params->export_as;
    enum status status;
    *request = (struct quantize_request){
        .model = batch->inputs.model,
        .backend = batch->inputs.backend,
        .method = run->params->method,
        .calibration = batch->calibration.count > 0 ? &batch->calibration : NULL,
        .evaluation = &batch->evaluation,
        .baseline = batch->baseline,
        .per_token = run->params->per_token,
        .seed = (uint64_t)run->params->seed,
        .monitor = context->monitor,
        .content = content_of(&batch->inputs),
        .directory = context->work_directory,
        .save_seconds = context->save_seconds,
    };
    run->found = (struct quantize_findings){.draws = {.count = 1, .deviation = NAN},
                                            .overlap = batch->overlap,
                                            .calibrated_on_heads = batch->inputs.calibrates_on_heads};
    memcpy(run->identity.dataset, batch->dataset, sizeof batch->dataset);
    memcpy(run->identity.protocol, batch->protocol, sizeof batch->protocol);
    if ((status = quantize_method_complete(&request->method, error)) != STATUS_OK) return status;
    status = protocol_calibrated(&request->method, &batch->calibration, run->params->calibration_draws,
                                 batch->calibrated_on, &run->identity.calibration, error);
    if (status != STATUS_OK) return status;
    if ((status = recipes_id(&request->method, run->identity.recipe, error)) != STATUS_OK) return status;
    if (asprintf(&run->save_path, "%s/streams", context->work_directory) < 0) run->save_path = NULL;
    if (run->save_path == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    request->save_path = run->save_path;
    if (format == EXPORT_NONE) return STATUS_OK;
    if ((status = quantize_export_open(context, format, &request->method, &batch->inputs, &run->export, error)) !=
        STATUS_OK)
        return status;
    request->hook = export_hook(run->export, batch->inputs.backend);
    request->saver = export_saver(run->export);
    request->half_scales = run->found.half_scales = export_half_scales(run->export);
    return STATUS_OK;
}

static enum status losses_of(const struct run_context *context, const struct quantize_result *found,
                             struct error *error)
{
    const double *const losses[] = {found->fp.sequence_losses, found->q.sequence_losses, found->sequence_kl};
    const float *const tokens[] = {found->fp.token_losses, found->q.token_losses, found->token_kl};
    const enum status status = losses_publish(context->artifacts, found->fp.sequence_predictions, found->fp.sequences,
                                              &losses_quantize, losses, error);
    if (status != STATUS_OK || found->token_kl == NULL) return status;
    return losses_publish_tokens(context->artifacts, &losses_quantize, tokens, found->fp.predictions, error);
}

/* Turns the findings into the report. */
static enum status run_report(struct run_member *run, const struct quantize_request *request, struct error *error)
{
    const struct run_batch *batch = run->batch;
    const int format = run->params->export_as;
    enum status status = STATUS_OK;
    if (run->export != NULL)
        status = quantize_export_publish(&run->given->context, format, &request->method, &batch->inputs, run->export,
                                         &run->found.exported, error);
    if (status == STATUS_OK) status = losses_of(&run->given->context, &run->found.result, error);
    if (status == STATUS_OK)
        status = quantize_report_measure(run->params, &batch->inputs, &run->identity, &run->found,
                                         run->given->measurements, error);
    if (status != STATUS_OK) return status;
    run->given->result = quantize_report_render(&run->found, &run->identity);
    return run->given->result != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a result");
}

/* Called when the last block is done: finishes the member's export. */
static void quantized(struct quantize_member *quantization)
{
    struct run_member *run = quantization->owner;
    struct error error = quantization->error;
    enum status status = quantization->status;
    run->found.result = quantization->result;
    if (status == STATUS_OK) status = run_report(run, &quantization->request, &error);
    members_end(&run->member, status, &error);
}

/* ---- The forward pass -------------------------------------------------------------------------------------------- */

static void draw(struct run_member *run, const struct quantize_request *request)
{
    struct error error = {0};
    enum status status =
        quantize_draws_run(request, run->params->calibration_draws, &run->found.result, &run->found.draws, &error);
    if (status == STATUS_OK) status = run_report(run, request, &error);
    members_end(&run->member, status, &error);
}

/* Notes the work of a run that is alone in its batch; the time of a batch says nothing about one member. Does nothing
 * when a saved baseline spares a part of the work. */
static void work_note(const struct run_context *context, const struct run_member *run,
                      const struct quantize_request *request)
{
    const struct plan_budget budget = backend_budget(request->backend, request->directory);
    const bool spared = request->baseline != NULL && access(request->baseline, F_OK) == 0;
    struct run_plan plan;
    struct error unused;
    if (context->work == NULL || run->batch->count > 1 || spared) return;
    if (quantize_plan(request, 1, &budget, &plan, &unused) == STATUS_OK)
        *context->work = plan.flops * (double)run->params->calibration_draws;
}

/* Takes as many members into the pass as memory has space for; the others return to the queue. */
static size_t take_in(struct run_batch *batch, struct quantize_member *quantizations)
{
    size_t count = 0;
    int64_t most = INT64_MAX;
    for (struct member *member = members_next(&batch->members, NULL); member != NULL;
         member = members_next(&batch->members, member)) {
        struct run_member *run = member->owner;
        struct error error = {0};
        quantizations[count] = (struct quantize_member){.owner = run, .ended = quantized};
        const enum status status = run_open(run, &quantizations[count].request, &error);
        if (status != STATUS_OK) {
            members_end(member, status, &error);
            continue;
        }
        const int64_t space = quantize_batch_most(&quantizations[count].request, 0);
        most = space < most ? space : most;
        if ((int64_t)count < most) {
            count++;
            continue;
        }
        run->given->given_back = true;
        members_end(member, STATUS_LEASE_LOST, &error);
    }
    return count;
}

static enum status batch_quantize(struct run_batch *batch, struct error *error)
{
    struct quantize_member *quantizations = calloc(batch->count, sizeof *quantizations);
    if (quantizations == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a forward pass");
    const size_t count = take_in(batch, quantizations);
    if (count == 1) work_note(&batch->context, quantizations[0].owner, &quantizations[0].request);
    if (count == 1 && batch->runs[0].params->calibration_draws > 1)
        draw(quantizations[0].owner, &quantizations[0].request);
    else if (count > 0)
        quantize_batch(quantizations, (int64_t)count);
    free(quantizations);
    return STATUS_OK;
}

void quantize_run_batch(struct kind_member *members, size_t count)
{
    struct error error = {0};
    struct run_batch batch = {.runs = calloc(count, sizeof *batch.runs), .count = count};
    if (batch.runs == NULL) {
        (void)error_set(&error, STATUS_NO_MEMORY, "no memory for a forward pass");
        for (size_t i = 0; i < count; i++) kind_member_end(&members[i], STATUS_NO_MEMORY, &error);
        return;
    }
    members_init(&batch.members, &batch, ended);
    for (size_t i = 0; i < count; i++) {
        struct run_member *run = &batch.runs[i];
        *run = (struct run_member){.batch = &batch, .given = &members[i], .params = members[i].params};
        members_enter(&batch.members, &run->member, run, members[i].context.monitor);
    }
    batch.context = members[0].context;
    batch.context.monitor = &batch.members.monitor;
    enum status status = batch_open(&batch, &error);
    if (status == STATUS_OK) status = batch_quantize(&batch, &error);
    if (status != STATUS_OK) members_end_all(&batch.members, status, &error);
    free(batch.baseline);
    dataset_sequences_free(&batch.calibration);
    dataset_sequences_free(&batch.evaluation);
    inputs_reset(&batch.inputs);
    free(batch.runs);
}

static enum status plan_fill(const struct run_batch *batch, const struct quantize_params *params,
                             const struct run_context *context, struct plan_budget *budget, struct run_plan *out,
                             struct error *error)
{
    struct quantize_request request = {
        .model = batch->inputs.model,
        .backend = batch->inputs.backend,
        .method = params->method,
        .calibration = batch->calibration.count > 0 ? &batch->calibration : NULL,
        .evaluation = &batch->evaluation,
        .per_token = params->per_token,
        .directory = context->work_directory,
    };
    struct run_plan one;
    enum status status = quantize_method_complete(&request.method, error);
    *out = (struct run_plan){.flops = 0};
    *budget = backend_budget(request.backend, context->work_directory);
    if (status == STATUS_OK) status = quantize_plan(&request, 1, budget, &one, error);
    if (status != STATUS_OK) return status;
    plan_add(out, &one, params->calibration_draws);
    if (params->export_as != EXPORT_NONE) {
        out->written_bytes += weights_bytes(request.model->weights);
        out->peak[PLAN_DISK] += weights_bytes(request.model->weights);
    }
    return STATUS_OK;
}

enum status quantize_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                              struct run_plan *out, struct error *error)
{
    const struct quantize_params *params = filled;
    struct run_batch batch = {.context = *context};
    enum status status = inputs_open(context, params->checkpoint, params->precision, &batch.inputs, error);
    if (status == STATUS_OK) status = data_open(&batch, params, error);
    if (status == STATUS_OK) status = plan_fill(&batch, params, context, budget, out, error);
    dataset_sequences_free(&batch.calibration);
    dataset_sequences_free(&batch.evaluation);
    inputs_reset(&batch.inputs);
    return status;
}
