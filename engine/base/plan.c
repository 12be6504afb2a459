#include "base/plan.h"

#include "base/integer.h"

#include <inttypes.h>

const char *const plan_space_names[PLAN_SPACES] = {"host memory", "device memory", "disk"};

void plan_take(struct run_plan *plan, enum plan_space space, int64_t bytes)
{
    plan->live[space] = saturating_add(plan->live[space], bytes);
    if (plan->live[space] > plan->peak[space]) plan->peak[space] = plan->live[space];
}

void plan_give(struct run_plan *plan, enum plan_space space, int64_t bytes)
{
    plan->live[space] -= bytes;
}

void plan_add(struct run_plan *plan, const struct run_plan *other, int64_t times)
{
    for (int space = 0; space < PLAN_SPACES; space++) {
        const int64_t peak = saturating_add(plan->live[space], other->peak[space]);
        if (peak > plan->peak[space]) plan->peak[space] = peak;
    }
    plan->read_bytes = saturating_add(plan->read_bytes, saturating_multiply(times, other->read_bytes));
    plan->written_bytes = saturating_add(plan->written_bytes, saturating_multiply(times, other->written_bytes));
    plan->fetched_bytes = saturating_add(plan->fetched_bytes, saturating_multiply(times, other->fetched_bytes));
    plan->tokens = saturating_add(plan->tokens, saturating_multiply(times, other->tokens));
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
    for (int space = 0; space < PLAN_SPACES; space++)
        if (plan->peak[space] > budget->bytes[space]) return false;
    return true;
}

enum status plan_refuse(const struct run_plan *plan, const struct plan_budget *budget, const char *advice,
                        struct error *error)
{
    int space = 0;
    while (space + 1 < PLAN_SPACES && plan->peak[space] <= budget->bytes[space]) space++;
    const bool words = space == PLAN_DEVICE && budget->device[0] != '\0';
    (void)error_set(error, STATUS_TOO_LARGE,
                    "the smallest plan of the run needs %" PRId64 " bytes of %s, %" PRId64 " are available%s%s%s: %s",
                    plan->peak[space], plan_space_names[space], budget->bytes[space], words ? " (" : "",
                    words ? budget->device : "", words ? ")" : "", advice);
    error->of_device = space == PLAN_DEVICE;
    return error->status;
}
