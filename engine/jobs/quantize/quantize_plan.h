/* quantize_plan.h: where the streams of a batch lie and what is held between cuts, by what memory there is. For
 * quantize.c. */
#ifndef QUANTIZE_QUANTIZE_PLAN_H
#define QUANTIZE_QUANTIZE_PLAN_H

#include "jobs/quantize/quantize_member.h"

/* What a plan decides; none of it shows in the numbers. */
struct quantize_choice {
    struct hidden_place place,
        calibration;           /* of the streams of evaluation tokens, and of those of calibration tokens */
    int64_t hold_bytes;        /* as in struct quantize_request */
    int64_t shown[PLAN_ROOMS]; /* bytes that are live while a visitor looks at the streams */
};

/* For members whose calibrations are prepared, over pass->evaluation: the first plan that fits the budget, or else the
 * smallest: all streams in memory, then little held between cuts, then ever more of the streams spilled (not those that
 * are shown to a visitor, or begin at another run's). *out is what it needs. */
void quantize_plan_choose(const struct quantize_member_state *const *members, int64_t count,
                          const struct plan_budget *budget, struct quantize_choice *choice, struct run_plan *out);

#endif
