/* attribution.h: where in a model the cost of quantizing it comes from. Each unit (a linear, or a block) is quantized
 * alone, and each is left out while all others are quantized. Units alone at several widths give a frontier of bits and
 * loss, and under a budget a width for each unit.
 *
 * A number is bit-for-bit what quantize_run gives for the same method with `overrides` that skip all other units, or
 * skip the unit. It costs less than that run, because units of one block share the streams before it
 * (docs/quantization.md, "Attribution"). Memory: two quantize_run at once, and the evaluation's hidden states once
 * more. */
#ifndef ATTRIBUTION_ATTRIBUTION_H
#define ATTRIBUTION_ATTRIBUTION_H

#include "jobs/attribution/attribution_allocation.h"
#include "jobs/attribution/attribution_units.h"
#include "jobs/quantize/quantize.h"

enum { ATTRIBUTION_WIDTHS = 4 };

/* The quantity that an allocation minimizes. */
enum attribution_objective { ATTRIBUTION_LOSS, ATTRIBUTION_KL };

struct attribution_request {
    const struct model *model;
    struct backend *backend;
    /* of the whole model, complete (quantize_method_complete); without overrides and quantized embeddings or output */
    struct quantize_method method;
    const struct sequences *calibration, *evaluation; /* as for quantize_run */
    const char *baseline;                             /* likewise */
    uint64_t seed;                                    /* of the bootstrap */
    enum attribution_part part;
    bool left_out; /* also measure the whole model with each unit left out */
    int64_t width_count;
    /* units are also measured alone at these (of quantize_method_bits); the method's own width is always measured */
    const int64_t *widths;
    double budget; /* bits per weight of an allocation over them; 0: none */
    enum attribution_objective objective;
    const char *work_directory; /* where finished measurements are kept between attempts; NULL: nowhere */
    /* progress by "block": passes of the evaluation tokens, or work worth one; may be NULL */
    const struct monitor *monitor;
};

/* The measurement of one quantization. */
struct attribution_number {
    double loss, delta, delta_low, delta_high, kl, top1_agreement; /* as in struct quantize_result */
    int64_t bits, weights; /* storage and count of the quantized weights; left out: of the whole less the unit's */
};

struct attribution_additive {
    double delta_alone, kl_alone; /* sums over the units alone, at one width */
    double share;                 /* delta_alone / delta of the whole; the rest is interaction */
    double delta_marginal;        /* sum over units of what the whole gains without them; NaN unless left out */
};

/* A point of the frontier: after unit `unit` (-1: none yet, all at the least width) went to `bits`. */
struct attribution_point {
    int64_t unit, bits;
    double bits_per_weight, loss, kl; /* loss and kl as predicted: full precision plus what each unit adds alone */
};

struct attribution_result {
    double flops; /* of its plan */
    double loss_fp;
    int64_t calibration_tokens;
    int64_t unit_count, width_count, own; /* own: the width that is the method's */
    struct attribution_unit *units;       /* [units]; owned, as all below */
    int64_t widths[ATTRIBUTION_WIDTHS];   /* ascending; one of 0 bits for methods that have none to choose */
    struct attribution_number *alone;     /* [units, widths] */
    struct attribution_number *left_out;  /* [units]; NULL unless asked for */
    struct attribution_number whole[ATTRIBUTION_WIDTHS]; /* everything quantized, by width */
    struct attribution_additive additive[ATTRIBUTION_WIDTHS];
    struct attribution_point *frontier; /* [frontier_count], by ascending bits; 0 for one width */
    int64_t frontier_count;
    /* Under a budget. */
    bool allocated; /* false with a budget: the least widths take more than it, `least` bits per weight */
    double least;
    int64_t *picked;                         /* [units] bits */
    struct attribution_overrides *overrides; /* the same for a quantization; its patterns are in it */
    struct attribution_point predicted;
    struct attribution_number measured;
};
void attribution_result_reset(struct attribution_result *result); /* {0} is fine */

/* Into *out: the widths asked for and the method's own, ascending, and which of them is its own. STATUS_INVALID as
 * below. */
MUST_CHECK enum status attribution_widths(const struct attribution_request *request, struct attribution_result *out,
                                          struct error *error);

/* Refuses method, widths and budget that need no model to be refused. STATUS_INVALID: a method with overrides or
 * quantized ends ("/method/overrides"), impossible widths or widths for a method without bits ("/bits"), a budget
 * without two widths or below the least ("/budget"). */
MUST_CHECK enum status attribution_check(const struct attribution_request *request, struct error *error);

/* The plan of attribution_run from the first measurement on: the first plan that fits the budget, otherwise the
 * smallest. All plans give the same numbers. STATUS_INVALID and STATUS_UNSUPPORTED as from attribution_run,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_plan(const struct attribution_request *request, const struct plan_budget *budget,
                                        struct run_plan *out, struct error *error);

/* STATUS_TOO_LARGE when no plan fits the available memory (backend_budget), before any work is done; statuses of
 * quantize_run and attribution_check; STATUS_UNSUPPORTED for models that overrides cannot name. */
MUST_CHECK enum status attribution_run(const struct attribution_request *request, struct attribution_result *out,
                                       struct error *error);

#endif
