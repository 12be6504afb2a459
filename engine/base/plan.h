/* plan.h: resources of some work, known before it starts: its peak memory, the bytes it reads and writes, its
 * arithmetic. The functions that fill a plan also choose the memory of the real work, and the allocators keep a ledger
 * of the same sizes in the same order. */
#ifndef BASE_PLAN_H
#define BASE_PLAN_H

#include "base/error.h"

#include <stdint.h>

/* Where bytes lie. A backend's matrices lie on its device, or in host memory when the backend has none of its own. */
enum plan_space { PLAN_HOST, PLAN_DEVICE, PLAN_DISK, PLAN_SPACES };
extern const char *const plan_space_names[PLAN_SPACES]; /* "host memory", … */

struct run_plan {
    int64_t live[PLAN_SPACES]; /* while the plan is filled */
    /* most bytes at one time; on disk: the run's own working files and what it leaves */
    int64_t peak[PLAN_SPACES];
    int64_t read_bytes, written_bytes; /* of files */
    int64_t fetched_bytes;             /* over the network */
    int64_t tokens;                    /* that go through the model's blocks, counted once per pass */
    double flops;                      /* multiplications and additions of matrix products and scans */
    bool at_most;                      /* the run may end earlier: tokens and flops are upper bounds */
    int64_t stream_tokens;             /* whose hidden states are kept between blocks */
    int64_t spilled_tokens;            /* of these, those spilled away from where the work is done */
};

/* Bytes that a run may take. */
struct plan_budget {
    int64_t bytes[PLAN_SPACES];
    char device[240]; /* how the device's bytes are computed, for a refusal; "": unknown */
};

/* Lists, summaries, sums of a slice: small allocations that no plan counts one by one. Every plan includes this
 * constant. */
#define PLAN_SMALL_BYTES (1LL << 20)

void plan_take(struct run_plan *plan, enum plan_space space, int64_t bytes);
void plan_give(struct run_plan *plan, enum plan_space space, int64_t bytes);

/* Adds `other`, done `times` times after the work planned so far: only live bytes of the earlier work remain, so the
 * larger peak counts; everything else adds up. */
void plan_add(struct run_plan *plan, const struct run_plan *other, int64_t times);

/* The amount of work that predicts the run's duration from the rates of earlier runs: flops, or bytes for kinds of runs
 * without flops. All runs of a kind use the same unit. */
double plan_work(const struct run_plan *plan);

bool plan_fits(const struct run_plan *plan, const struct plan_budget *budget);
/* Refuses a plan that does not fit: STATUS_TOO_LARGE with the bytes needed, the bytes available and `advice`. */
enum status plan_refuse(const struct run_plan *plan, const struct plan_budget *budget, const char *advice,
                        struct error *error);

#endif
