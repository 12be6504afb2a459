#include "base/plan.h"

#include <inttypes.h>

const char *const plan_room_names[PLAN_ROOMS] = {"host memory", "device memory", "disk"};

void plan_take(struct run_plan *plan, enum plan_room room, int64_t bytes)
{
    plan->live[room] += bytes;
    if (plan->live[room] > plan->peak[room]) plan->peak[room] = plan->live[room];
}

void plan_give(struct run_plan *plan, enum plan_room room, int64_t bytes)
{
    plan->live[room] -= bytes;
}

void plan_add(struct run_plan *plan, const struct run_plan *other, int64_t times)
{
    for (int room = 0; room < PLAN_ROOMS; room++) {
        const int64_t peak = plan->live[room] + other->peak[room];
        if (peak > plan->peak[room]) plan->peak[room] = peak;
    }
    plan->read_bytes += times * other->read_bytes;
    plan->written_bytes += times * other->written_bytes;
    plan->fetched_bytes += times * other->fetched_bytes;
    plan->tokens += times * other->tokens;
    plan->flops += (double)times * other->flops;
    plan->at_most = plan->at_most || other->at_most;
    if (other->stream_tokens > plan->stream_tokens) plan->stream_tokens = other->stream_tokens;
    if (other->spilled_tokens > plan->spilled_tokens) plan->spilled_tokens = other->spilled_tokens;
}

double plan_work(const struct run_plan *plan)
{
    return plan->flops > 0 ? plan->flops : (double)(plan->read_bytes + plan->written_bytes + plan->fetched_bytes);
}

bool plan_fits(const struct run_plan *plan, const struct plan_budget *budget)
{
    for (int room = 0; room < PLAN_ROOMS; room++)
        if (plan->peak[room] > budget->bytes[room]) return false;
    return true;
}

enum status plan_refuse(const struct run_plan *plan, const struct plan_budget *budget, const char *advice,
                        struct error *error)
{
    int room = 0;
    while (room + 1 < PLAN_ROOMS && plan->peak[room] <= budget->bytes[room]) room++;
    const bool words = room == PLAN_DEVICE && budget->device[0] != '\0';
    return error_set(error, STATUS_TOO_LARGE,
                     "the smallest plan of the run needs %" PRId64 " bytes of %s, %" PRId64 " are available%s%s%s: %s",
                     plan->peak[room], plan_room_names[room], budget->bytes[room], words ? " (" : "",
                     words ? budget->device : "", words ? ")" : "", advice);
}
