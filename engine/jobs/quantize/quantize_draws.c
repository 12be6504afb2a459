#include "jobs/quantize/quantize_draws.h"

#include "base/memory.h"
#include "eval/leverage.h"
#include "jobs/quantize/quantize_intervals.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

/* Adds up the progress of all draws, and passes on what they log and check. */
struct relay {
    const struct monitor *outer;
    int64_t count;
    int64_t done[QUANTIZE_DRAWS_MAXIMUM];
};

struct draw {
    struct relay *relay;
    int64_t number;
    struct monitor monitor;
    struct sequences sample;
    char save_path[PATH_MAX];
};

static void relay_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct draw *draw = owner;
    int64_t all = 0;
    draw->relay->done[draw->number] = done;
    for (int64_t i = 0; i < draw->relay->count; i++) all += draw->relay->done[i];
    monitor_progress(draw->relay->outer, all, draw->relay->count * total, unit);
}

static void relay_log(void *owner, const char *line)
{
    monitor_log(((const struct draw *)owner)->relay->outer, "%s", line);
}

static enum status relay_check(void *owner, struct error *error)
{
    return monitor_check(((const struct draw *)owner)->relay->outer, error);
}

static double mean_of(const double *values, int64_t count)
{
    double mean = 0;
    for (int64_t i = 0; i < count; i++) mean += values[i] / (double)count;
    return mean;
}

double quantize_draws_deviation(const double *values, int64_t count)
{
    const double mean = mean_of(values, count);
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? sqrt(squares / (double)(count - 1)) : NAN;
}

/* `out` is the first draw's, but for the values of its sequences, which are sums over all draws. */
static void average(const struct quantize_draws *draws, struct quantize_result *out)
{
    const int64_t count = draws->count;
    for (int64_t i = 0; i < out->q.sequences; i++) {
        out->q.sequence_losses[i] /= (double)count;
        out->sequence_kl[i] /= (double)count;
        out->sequence_top1[i] /= (double)count;
    }
    out->q.loss = mean_of(draws->losses, count);
    out->q.loss_stderr = NAN;
    out->kl = mean_of(draws->kls, count);
    out->top1_agreement = mean_of(draws->agreements, count);
    out->delta = draws->mean;
    const double evaluation = ratio_variance(out->fp.sequence_losses, out->q.sequence_losses,
                                             out->fp.sequence_predictions, out->fp.sequences);
    const double degrees = leverage_degrees(out->fp.sequence_predictions, out->fp.sequences);
    const struct ratio_interval interval =
        ratio_interval_draws(draws->mean, evaluation, degrees, draws->deviation * draws->deviation, count);
    out->delta_low = interval.low;
    out->delta_high = interval.high;
    out->delta_method = interval.method;
    quantize_intervals_draws(draws, out);
}

static void draw_take(const struct quantize_request *request, struct relay *relay, int64_t number, struct draw *draw,
                      struct quantize_member *member)
{
    const int64_t part = request->calibration == NULL ? 0 : request->calibration->count / relay->count;
    *member = (struct quantize_member){.request = *request};
    draw->relay = relay;
    draw->number = number;
    draw->monitor = (struct monitor){draw, relay_progress, relay_log, relay_check};
    member->request.monitor = &draw->monitor;
    if (number > 0) { /* only the first draw is exported */
        member->request.hook = (struct sequential_hook){0};
        member->request.saver = (struct quantize_saver){0};
    }
    if (request->calibration != NULL) {
        draw->sample =
            (struct sequences){part, request->calibration->starts + number * part, request->calibration->tokens};
        member->request.calibration = &draw->sample;
    }
    if (request->save_path == NULL || relay->count == 1) return;
    (void)snprintf(draw->save_path, sizeof draw->save_path, "%s-%" PRId64, request->save_path, number);
    member->request.save_path = draw->save_path;
}

/* Takes the numbers of each draw, the sums over its sequences, and the whole result of the first. */
static enum status draws_take(struct quantize_member *members, int64_t from, int64_t count, struct quantize_result *out,
                              struct quantize_draws *draws, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < count; i++) {
        struct quantize_member *member = &members[i];
        if (member->status != STATUS_OK) {
            *error = status == STATUS_OK ? member->error : *error;
            status = status == STATUS_OK ? member->status : status;
            continue;
        }
        draws->deltas[from + i] = member->result.delta;
        draws->losses[from + i] = member->result.q.loss;
        draws->kls[from + i] = member->result.kl;
        draws->agreements[from + i] = member->result.top1_agreement;
        if (from + i == 0) {
            *out = member->result;
            continue;
        }
        for (int64_t s = 0; s < out->q.sequences; s++) {
            out->q.sequence_losses[s] += member->result.q.sequence_losses[s];
            out->sequence_kl[s] += member->result.sequence_kl[s];
            out->sequence_top1[s] += member->result.sequence_top1[s];
        }
        quantize_result_reset(&member->result);
    }
    return status;
}

enum status quantize_draws_run(const struct quantize_request *request, int64_t count, struct quantize_result *out,
                               struct quantize_draws *found, struct error *error)
{
    struct relay relay = {.outer = request->monitor, .count = count};
    struct quantize_member *members = NULL;
    struct draw *draws = NULL;
    const int64_t given = request->calibration == NULL ? 0 : request->calibration->count;
    int64_t at_once = 1;
    enum status status;
    *found = (struct quantize_draws){.count = count};
    *out = (struct quantize_result){0};
    if (count > 1 && given / count == 0)
        return error_set_at(error, STATUS_INVALID, "/calibration_draws",
                            "%" PRId64 " draws of %" PRId64 " calibration sequences; ask for fewer", count, given);
    if (count > 1) at_once = quantize_batch_most(request, 0);
    if ((status = memory_new(count, sizeof *members, "draws", &members, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *draws, "draws", &draws, error)) != STATUS_OK) goto done;
    for (int64_t from = 0, some; from < count && status == STATUS_OK; from += some) {
        some = count - from < at_once ? count - from : at_once;
        for (int64_t i = 0; i < some; i++) draw_take(request, &relay, from + i, &draws[from + i], &members[i]);
        quantize_batch(members, some);
        status = draws_take(members, from, some, out, found, error);
    }
    found->mean = mean_of(found->deltas, count);
    found->deviation = quantize_draws_deviation(found->deltas, count);
    if (status == STATUS_OK && count > 1) average(found, out);
done:
    if (status != STATUS_OK) quantize_result_reset(out);
    memory_free(members);
    memory_free(draws);
    return status;
}
