#include "jobs/quantize/quantize_draws.h"

#include "base/memory.h"

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
    char keep[PATH_MAX];
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

static void summarise(struct quantize_draws *draws)
{
    double squares = 0;
    draws->mean = 0;
    for (int64_t i = 0; i < draws->count; i++) draws->mean += draws->deltas[i] / (double)draws->count;
    for (int64_t i = 0; i < draws->count; i++)
        squares += (draws->deltas[i] - draws->mean) * (draws->deltas[i] - draws->mean);
    draws->deviation = draws->count > 1 ? sqrt(squares / (double)(draws->count - 1)) : NAN;
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
        member->request.keeper = (struct quantize_keeper){0};
    }
    if (request->calibration != NULL) {
        draw->sample =
            (struct sequences){part, request->calibration->starts + number * part, request->calibration->tokens};
        member->request.calibration = &draw->sample;
    }
    if (request->keep == NULL || relay->count == 1) return;
    (void)snprintf(draw->keep, sizeof draw->keep, "%s-%" PRId64, request->keep, number);
    member->request.keep = draw->keep;
}

/* Takes the numbers of each draw, and the whole result of the first. */
static enum status draws_take(struct quantize_member *members, int64_t from, int64_t count,
                              struct quantize_result *first, struct quantize_draws *out, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < count; i++) {
        struct quantize_member *member = &members[i];
        if (member->status != STATUS_OK) {
            *error = status == STATUS_OK ? member->error : *error;
            status = status == STATUS_OK ? member->status : status;
            continue;
        }
        out->deltas[from + i] = member->result.delta;
        out->losses[from + i] = member->result.q.loss;
        if (from + i == 0)
            *first = member->result;
        else
            quantize_result_reset(&member->result);
    }
    return status;
}

enum status quantize_draws_run(const struct quantize_request *request, int64_t count, struct quantize_result *first,
                               struct quantize_draws *out, struct error *error)
{
    struct relay relay = {.outer = request->monitor, .count = count};
    struct quantize_member *members = NULL;
    struct draw *draws = NULL;
    const int64_t given = request->calibration == NULL ? 0 : request->calibration->count;
    int64_t at_once = 1;
    enum status status;
    *out = (struct quantize_draws){.count = count};
    *first = (struct quantize_result){0};
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
        status = draws_take(members, from, some, first, out, error);
    }
    if (status == STATUS_OK) summarise(out);
done:
    if (status != STATUS_OK) quantize_result_reset(first);
    memory_free(members);
    memory_free(draws);
    return status;
}
