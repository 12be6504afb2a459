#include "jobs/quantize_draws.h"

#include <inttypes.h>
#include <math.h>

/* One draw's progress among all. */
struct relay {
    const struct monitor *outer;
    int64_t draw, count;
};

static void relay_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct relay *relay = owner;
    monitor_progress(relay->outer, relay->draw * total + done, relay->count * total, unit);
}

static void relay_log(void *owner, const char *line)
{
    monitor_log(((const struct relay *)owner)->outer, "%s", line);
}

static enum status relay_check(void *owner, struct error *error)
{
    return monitor_check(((const struct relay *)owner)->outer, error);
}

static void summarise(struct quantize_draws *draws)
{
    double squares = 0;
    draws->mean = 0;
    for (int64_t i = 0; i < draws->count; i++) draws->mean += draws->deltas[i] / (double)draws->count;
    for (int64_t i = 0; i < draws->count; i++) squares += (draws->deltas[i] - draws->mean) * (draws->deltas[i] - draws->mean);
    draws->deviation = draws->count > 1 ? sqrt(squares / (double)(draws->count - 1)) : NAN;
}

enum status quantize_draws_run(const struct quantize_request *request, int64_t count, struct quantize_result *first,
                               struct quantize_draws *out, struct error *error)
{
    struct relay relay = {.outer = request->monitor, .count = count};
    const struct monitor monitor = {&relay, relay_progress, relay_log, relay_check};
    const int64_t given = request->calibration == NULL ? 0 : request->calibration->count, part = given / count;
    *out = (struct quantize_draws){.count = count};
    *first = (struct quantize_result){0};
    if (count > 1 && part == 0)
        return error_set_at(error, STATUS_INVALID, "/calibration_draws",
                            "%" PRId64 " draws of %" PRId64 " calibration sequences; ask for fewer", count, given);
    for (relay.draw = 0; relay.draw < count; relay.draw++) {
        struct quantize_request draw = *request;
        struct quantize_result found, *result = relay.draw == 0 ? first : &found;
        struct sequences sample = {0};
        if (request->calibration != NULL) {
            sample = (struct sequences){part, request->calibration->starts + relay.draw * part, request->calibration->tokens};
            draw.calibration = &sample;
        }
        draw.monitor = &monitor;
        if (relay.draw > 0) draw.hook = (struct sequential_hook){0}; /* what is kept is the first draw's */
        const enum status status = quantize_run(&draw, result, error);
        if (status != STATUS_OK) {
            if (relay.draw > 0) quantize_result_reset(first);
            return status;
        }
        out->deltas[relay.draw] = result->delta;
        out->losses[relay.draw] = result->q.loss;
        if (relay.draw > 0) quantize_result_reset(&found);
    }
    summarise(out);
    return STATUS_OK;
}
