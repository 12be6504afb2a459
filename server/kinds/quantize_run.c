#include "kinds/quantize_run.h"

#include "base/checksum.h"
#include "kinds/baselines.h"
#include "kinds/method.h"
#include "kinds/quantize_export.h"
#include "kinds/quantize_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct party;

/* A run on the walk. */
struct guest {
    struct party *party;
    struct kind_member *member;
    const struct quantize_params *params;
    struct export_job *export;
    char *keep;
    struct quantize_identity identity;
    struct quantize_findings found;
    bool live;
};

/* What runs that are executed together have in common. */
struct party {
    struct guest *guests;
    size_t count, live;
    struct monitor monitor; /* everybody's */
    struct kind_context context;
    struct inputs inputs;
    struct sequences calibration, evaluation;
    struct overlap overlap;
    char dataset[128], protocol[PROTOCOL_TEXT];
    char *baseline;
};

/* ---- Who is there ---- */

static void guest_end(struct guest *guest, enum status status, const struct error *error)
{
    guest->live = false;
    guest->party->live--;
    export_close(guest->export);
    free(guest->keep);
    quantize_result_reset(&guest->found.result);
    json_decref(guest->found.exported);
    kind_member_end(guest->member, status, error);
}

static void party_end(struct party *party, enum status status, const struct error *error)
{
    for (size_t i = 0; i < party->count; i++)
        if (party->guests[i].live) guest_end(&party->guests[i], status, error);
}

/* Those who are stopped while something is done for all leave; only when nobody is left is it stopped too. */
static enum status party_check(void *owner, struct error *error)
{
    struct party *party = owner;
    enum status last = STATUS_OK;
    for (size_t i = 0; i < party->count; i++) {
        struct guest *guest = &party->guests[i];
        if (!guest->live) continue;
        const enum status status = monitor_check(guest->member->context.monitor, error);
        if (status == STATUS_OK) continue;
        last = status;
        guest_end(guest, status, error);
    }
    return party->live == 0 ? last : STATUS_OK;
}

static void party_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct party *party = owner;
    for (size_t i = 0; i < party->count; i++)
        if (party->guests[i].live) monitor_progress(party->guests[i].member->context.monitor, done, total, unit);
}

static void party_log(void *owner, const char *line)
{
    const struct party *party = owner;
    for (size_t i = 0; i < party->count; i++)
        if (party->guests[i].live) monitor_log(party->guests[i].member->context.monitor, "%s", line);
}

/* ---- What they have in common ------------------------------------------------------------------------------------ */

static enum status data_open(struct party *party, const struct quantize_params *params, struct error *error)
{
    struct data_use use = params->calibration;
    enum status status =
        inputs_sequences(&party->context, &party->inputs, &params->evaluation, false, &party->evaluation, party->dataset, error);
    if (status != STATUS_OK || params->calibration.dataset == NULL) return status;
    use.max_sequences *= params->calibration_draws;
    if ((status = inputs_sequences(&party->context, &party->inputs, &use, true, &party->calibration, NULL, error)) != STATUS_OK)
        return status;
    if (params->calibration_draws > 1 && party->calibration.count < use.max_sequences)
        return error_set_at(error, STATUS_INVALID, "/params/calibration_draws",
                            "%lld draws of %lld sequences; the dataset has %lld in all", (long long)params->calibration_draws,
                            (long long)params->calibration.max_sequences, (long long)party->calibration.count);
    status = overlap_find(&party->evaluation, &party->calibration, &party->overlap, error);
    if (status == STATUS_OK && party->overlap.overlapping > 0)
        monitor_log(&party->monitor, "%lld of %lld windows of %lld evaluation tokens stand in the calibration data too",
                    (long long)party->overlap.overlapping, (long long)party->overlap.windows, (long long)party->overlap.window);
    return status;
}

static enum status party_open(struct party *party, struct error *error)
{
    const struct quantize_params *params = party->guests[0].params;
    enum status status;
    if ((status = inputs_open(&party->context, params->checkpoint, params->precision, &party->inputs, error)) != STATUS_OK)
        return status;
    if ((status = data_open(party, params, error)) != STATUS_OK) return status;
    if ((status = protocol_id(&party->evaluation, inputs_precisions[params->precision], party->protocol, error)) != STATUS_OK)
        return status;
    return baselines_path(&party->context, &party->inputs, &party->evaluation, &party->baseline, error);
}

/* ---- What is each one's own -------------------------------------------------------------------------------------- */

/* The work directory is the run's own; what its checkpoint holds may have been replaced all the same. */
static uint64_t content_of(const struct inputs *inputs)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, inputs->row.id.text, strlen(inputs->row.id.text));
    checksum_add(&sum, inputs->row.sha256, strlen(inputs->row.sha256));
    return checksum_value(&sum);
}

/* Streams stay in the work directory between two attempts, and so does what was exported of the blocks behind them. */
static enum status guest_open(struct guest *guest, struct quantize_request *request, struct error *error)
{
    struct party *party = guest->party;
    const struct kind_context *context = &guest->member->context;
    const int format = guest->params->export_as;
    enum status status;
    *request = (struct quantize_request){
        .model = party->inputs.model,
        .backend = party->inputs.backend,
        .method = guest->params->method,
        .calibration = party->calibration.count > 0 ? &party->calibration : NULL,
        .evaluation = &party->evaluation,
        .baseline = party->baseline,
        .seed = (uint64_t)guest->params->seed,
        .monitor = context->monitor,
        .content = content_of(&party->inputs),
        .directory = context->work_directory,
    };
    guest->found = (struct quantize_findings){.draws = {.count = 1, .deviation = NAN}, .overlap = party->overlap};
    memcpy(guest->identity.dataset, party->dataset, sizeof party->dataset);
    memcpy(guest->identity.protocol, party->protocol, sizeof party->protocol);
    if ((status = quantize_method_settle(&request->method, error)) != STATUS_OK) return status;
    if ((status = recipes_id(&request->method, guest->identity.recipe, error)) != STATUS_OK) return status;
    if (asprintf(&guest->keep, "%s/streams", context->work_directory) < 0) guest->keep = NULL;
    if (guest->keep == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    request->keep = guest->keep;
    if (format == EXPORT_NONE) return STATUS_OK;
    if ((status = quantize_export_open(context, format, &request->method, &party->inputs, &guest->export, error)) != STATUS_OK)
        return status;
    request->hook = export_hook(guest->export, party->inputs.backend);
    request->keeper = export_keeper(guest->export);
    return STATUS_OK;
}

/* From what was found to what is told. */
static enum status guest_report(struct guest *guest, const struct quantize_request *request, struct error *error)
{
    const struct party *party = guest->party;
    const int format = guest->params->export_as;
    enum status status = STATUS_OK;
    if (guest->export != NULL)
        status = quantize_export_publish(&guest->member->context, format, &request->method, &party->inputs, guest->export,
                                         &guest->found.exported, error);
    if (status == STATUS_OK)
        status = quantize_report_measure(guest->params, &party->inputs, &guest->identity, &guest->found,
                                         guest->member->measurements, error);
    if (status != STATUS_OK) return status;
    guest->member->result = quantize_report_render(&guest->found, &guest->identity);
    return guest->member->result != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a result");
}

static void walked(struct quantize_member *walker)
{
    struct guest *guest = walker->owner;
    struct error error = walker->error;
    enum status status = walker->status;
    guest->found.result = walker->result;
    if (status == STATUS_OK) status = guest_report(guest, &walker->request, &error);
    guest_end(guest, status, &error);
}

/* ---- The walk ---------------------------------------------------------------------------------------------------- */

static void draw(struct guest *guest, const struct quantize_request *request)
{
    struct error error = {0};
    enum status status =
        quantize_draws_run(request, guest->params->calibration_draws, &guest->found.result, &guest->found.draws, &error);
    if (status == STATUS_OK) status = guest_report(guest, request, &error);
    guest_end(guest, status, &error);
}

/* What a run computes that is alone on its walk: of several the time does not tell. Nothing where a baseline spares it a part. */
static void work_note(const struct kind_context *context, const struct guest *guest, const struct quantize_request *request)
{
    const struct plan_budget budget = backend_budget(request->backend, request->directory);
    const bool spared = request->baseline != NULL && access(request->baseline, F_OK) == 0;
    struct run_plan plan;
    struct error unused;
    if (context->work == NULL || guest->party->count > 1 || spared) return;
    if (quantize_plan(request, 1, &budget, &plan, &unused) == STATUS_OK)
        *context->work = plan.flops * (double)guest->params->calibration_draws;
}

/* Puts as many on the walk as memory has room for; the others go back. */
static size_t seat_guests(struct party *party, struct quantize_member *walkers)
{
    size_t count = 0;
    int64_t most = INT64_MAX;
    for (size_t i = 0; i < party->count; i++) {
        struct guest *guest = &party->guests[i];
        struct error error = {0};
        if (!guest->live) continue;
        walkers[count] = (struct quantize_member){.owner = guest, .ended = walked};
        const enum status status = guest_open(guest, &walkers[count].request, &error);
        if (status != STATUS_OK) {
            guest_end(guest, status, &error);
            continue;
        }
        const int64_t room = quantize_batch_most(&walkers[count].request, 0);
        most = room < most ? room : most;
        if ((int64_t)count < most) {
            count++;
            continue;
        }
        guest->member->given_back = true;
        guest_end(guest, STATUS_LEASE_LOST, &error);
    }
    return count;
}

static void party_walk(struct party *party, struct error *error)
{
    struct quantize_member *walkers = calloc(party->count, sizeof *walkers);
    if (walkers == NULL) {
        party_end(party, error_set(error, STATUS_NO_MEMORY, "no memory for a walk"), error);
        return;
    }
    const size_t count = seat_guests(party, walkers);
    if (count == 1) work_note(&party->context, walkers[0].owner, &walkers[0].request);
    if (count == 1 && party->guests[0].params->calibration_draws > 1)
        draw(walkers[0].owner, &walkers[0].request);
    else if (count > 0)
        quantize_batch(walkers, (int64_t)count);
    free(walkers);
}

void quantize_run_members(struct kind_member *members, size_t count)
{
    struct error error = {0};
    struct party party = {.guests = calloc(count, sizeof *party.guests), .count = count, .live = count};
    if (party.guests == NULL) {
        (void)error_set(&error, STATUS_NO_MEMORY, "no memory for a walk");
        for (size_t i = 0; i < count; i++) kind_member_end(&members[i], STATUS_NO_MEMORY, &error);
        return;
    }
    for (size_t i = 0; i < count; i++)
        party.guests[i] = (struct guest){.party = &party, .member = &members[i], .params = members[i].params, .live = true};
    party.monitor = (struct monitor){.owner = &party, .progress = party_progress, .log = party_log, .check = party_check};
    party.context = members[0].context;
    party.context.monitor = &party.monitor;
    const enum status status = party_open(&party, &error);
    if (status == STATUS_OK && party.live > 0) party_walk(&party, &error);
    if (status != STATUS_OK) party_end(&party, status, &error);
    free(party.baseline);
    dataset_sequences_free(&party.calibration);
    dataset_sequences_free(&party.evaluation);
    inputs_reset(&party.inputs);
    free(party.guests);
}

static enum status plan_fill(const struct party *party, const struct quantize_params *params, const struct kind_context *context,
                             struct plan_budget *budget, struct run_plan *out, struct error *error)
{
    struct quantize_request request = {
        .model = party->inputs.model,
        .backend = party->inputs.backend,
        .method = params->method,
        .calibration = party->calibration.count > 0 ? &party->calibration : NULL,
        .evaluation = &party->evaluation,
        .directory = context->work_directory,
    };
    struct run_plan one;
    enum status status = quantize_method_settle(&request.method, error);
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

enum status quantize_run_forecast(const struct kind_context *context, const void *filled, struct plan_budget *budget,
                                  struct run_plan *out, struct error *error)
{
    const struct quantize_params *params = filled;
    struct party party = {.context = *context};
    enum status status = inputs_open(context, params->checkpoint, params->precision, &party.inputs, error);
    if (status == STATUS_OK) status = data_open(&party, params, error);
    if (status == STATUS_OK) status = plan_fill(&party, params, context, budget, out, error);
    dataset_sequences_free(&party.calibration);
    dataset_sequences_free(&party.evaluation);
    inputs_reset(&party.inputs);
    return status;
}
