/* attribution_table.h: the result of an attribution as a struct, and its table. */
#ifndef KINDS_ATTRIBUTION_TABLE_H
#define KINDS_ATTRIBUTION_TABLE_H

#include "base/result.h"
#include "inputs/recipes.h"
#include "jobs/attribution/attribution.h"

struct quantization {
    struct attribution_number number;
    double bits_per_weight;
};

/* One unit, or the whole model, at one width. */
struct width_report {
    struct quantization quantization;
    struct attribution_additive sums; /* for the whole model only */
    int64_t bits;
    bool has_bits; /* false for methods that have no bits to choose */
};

struct unit_report {
    const char *name;
    int64_t layer, weights, width_count, picked; /* picked: bits under a budget */
    struct quantization alone, left_out;
    bool was_left_out;
    double share, marginal, interaction;
    struct width_report widths[ATTRIBUTION_WIDTHS];
};

struct prediction {
    double bits_per_weight, loss, delta, kl;
};

struct frontier_report {
    struct prediction prediction;
    const char *unit; /* NULL: none yet */
    int64_t bits;
};

struct allocation_report {
    double budget;
    struct prediction predicted;
    struct quantization measured;
    struct unit_report *units; /* [unit_count], lent */
    int64_t unit_count, override_count;
    const struct quantize_override *overrides; /* lent */
    char recipe[RECIPE_TEXT];
    json_t *method; /* owned */
};

struct attribution_report {
    struct quantization whole;
    double loss_fp;
    int64_t sequences, tokens, calibration_sequences, calibration_tokens;
    struct attribution_additive sums;
    double interaction;
    struct unit_report *units; /* [unit_count]; owned, like the frontier */
    struct width_report widths[ATTRIBUTION_WIDTHS];
    struct frontier_report *frontier;
    int64_t unit_count, width_count, frontier_count;
    bool allocated;
    struct allocation_report allocation;
    const char *recipe_id, *recipe, *protocol_id, *note; /* recipe, note: NULL: none */
    char why[120];
};

/* The table of struct attribution_report. */
extern const struct result_shape attribution_table_shape;

#endif
