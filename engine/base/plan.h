/* plan.h: what some work needs, known before it starts: the most memory that it has at once, what it reads and
 * writes, what it computes. Whoever allocates keeps a ledger of the same sizes in the same order: a plan is filled by
 * the functions that the work itself chooses its memory by. */
#ifndef BASE_PLAN_H
#define BASE_PLAN_H

#include "base/error.h"

#include <stdint.h>

/* Where bytes lie. Matrices of a backend lie on the device, or in the host's memory where that is the backend's. */
enum plan_room { PLAN_HOST, PLAN_DEVICE, PLAN_DISK, PLAN_ROOMS };
extern const char *const plan_room_names[PLAN_ROOMS]; /* "host memory", … */

struct run_plan {
    int64_t live[PLAN_ROOMS]; /* while it is filled */
    /* bytes at once; of the disk: what the run itself keeps there while it works, and what it leaves */
    int64_t peak[PLAN_ROOMS];
    int64_t read_bytes, written_bytes; /* of files */
    int64_t fetched_bytes;             /* that come over the network */
    int64_t tokens;                    /* that go through the blocks of the model, each as often as it does */
    double flops;                      /* multiplications and additions of its matrix products and scans */
    bool at_most;                      /* it may end earlier: tokens and flops are bounds */
    int64_t stream_tokens;             /* whose hidden states stand between blocks */
    int64_t spilled_tokens;            /* of these, those kept elsewhere than where the work is done */
};

/* Bytes that a run may take. */
struct plan_budget {
    int64_t bytes[PLAN_ROOMS];
    char device[240]; /* what those of a device are made of, for a refusal; "": nothing is known */
};

/* Lists, summaries, sums of a slice: what no plan counts one by one. Part of every plan. */
#define PLAN_SMALL_BYTES (1LL << 20)

void plan_take(struct run_plan *plan, enum plan_room room, int64_t bytes);
void plan_give(struct run_plan *plan, enum plan_room room, int64_t bytes);

/* What is done after the other, with nothing left of the first but what is live: peaks side by side, the rest added up,
 * `times`. */
void plan_add(struct run_plan *plan, const struct run_plan *other, int64_t times);

/* What the time goes by, for rates of earlier runs: flops, or where there are none, bytes. The same unit for all runs
 * of a kind. */
double plan_work(const struct run_plan *plan);

bool plan_fits(const struct run_plan *plan, const struct plan_budget *budget);
/* The refusal of a plan that does not: STATUS_TOO_LARGE with what it needs and what there is, in bytes, and
 * `advice`. */
enum status plan_refuse(const struct run_plan *plan, const struct plan_budget *budget, const char *advice,
                        struct error *error);

#endif
