/* quantize_plan.h: the plan of a batch decides where its streams lie and how much is held between cuts, so that it fits
 * the available memory. For quantize.c, and for jobs made of quantizations. */
#ifndef QUANTIZE_QUANTIZE_PLAN_H
#define QUANTIZE_QUANTIZE_PLAN_H

#include "jobs/quantize/quantize_member.h"

/* The decisions of a plan. The numbers of a run do not depend on them. */
struct quantize_choice {
    /* of the streams of evaluation tokens, and of those of calibration tokens */
    struct hidden_place place, calibration;
    int64_t hold_bytes;         /* as in struct quantize_request */
    int64_t shown[PLAN_SPACES]; /* bytes that are live while the streams are shown to a visitor */
};

/* The first plan that fits the budget, or else the smallest, for members whose calibrations are prepared, over
 * pass->evaluation. Plans are tried in this order: all streams in memory; little held between cuts; more and more of
 * the streams spilled. Streams that other runs hand over or read are never spilled. *out is what the plan needs. */
void quantize_plan_choose(const struct quantize_member_state *const *members, int64_t count,
                          const struct plan_budget *budget, struct quantize_choice *choice, struct run_plan *out);

/* The streams that a quantization receives from other runs, and whether others read its own. A plan depends on these
 * facts and not on the streams, so that a quantization can be planned before the run that makes its streams. */
struct quantize_handover {
    bool lent;     /* the full-precision hidden states are there (fp_hidden) */
    bool shown;    /* its streams are shown to a visitor */
    int64_t start; /* the block before which it takes over another run's streams; -1: it begins at the embeddings */
};

/* Plans of quantizations that are parts of one job: they share model, backend and texts, and the texts are cut into
 * chunks once. Stays where it is. */
struct quantize_planner {
    struct quantize_pass pass;
    struct quantize_member_state calibrated, uncalibrated;
};

/* Cuts the texts of `request` into chunks. The caller resets *out, also after a failure. Statuses of quantize_plan. */
MUST_CHECK enum status quantize_planner_init(const struct quantize_request *request, struct quantize_planner *out,
                                             struct error *error);

/* The plan of one part, like quantize_plan_choose: `request` has the planner's texts, or no calibration. `handover`
 * replaces its start, fp_hidden and visitor, which are not read. */
void quantize_planner_plan(struct quantize_planner *planner, const struct quantize_request *request,
                           const struct quantize_handover *handover, const struct plan_budget *budget,
                           struct quantize_choice *choice, struct run_plan *out);
void quantize_planner_reset(struct quantize_planner *planner); /* {0} is fine */

#endif
