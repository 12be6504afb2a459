/* attribution_requests.h: the attribution that tests begin with: GPTQ of 4 bits in groups of 16, units alone and left
 * out, at two more widths. */
#ifndef UNIT_ATTRIBUTION_REQUESTS_H
#define UNIT_ATTRIBUTION_REQUESTS_H

#include "engine/jobs/tiny_fixture.h"
#include "jobs/attribution/attribution.h"

static const int64_t two_and_eight[] = {8, 2};

static inline struct attribution_request request_of(const struct fixture *f)
{
    return (struct attribution_request){
        .model = f->model,
        .backend = f->backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
        .left_out = true,
        .width_count = 2,
        .widths = two_and_eight,
    };
}

#endif
