/* attribution_units.h: the parts of a model that an attribution quantizes alone and leaves out (linears, or whole
 * blocks), and the overrides (quant/overrides.h) that name them. The experts of one linear step are one unit:
 * "model.layers.0.mlp.experts.*.up_proj". */
#ifndef ATTRIBUTION_ATTRIBUTION_UNITS_H
#define ATTRIBUTION_ATTRIBUTION_UNITS_H

#include "model/model.h"
#include "quant/overrides.h"

enum { ATTRIBUTION_PATTERN = 513 }; /* bytes of an override's pattern, its end included, as the interface takes them */

enum attribution_part { ATTRIBUTION_LINEAR, ATTRIBUTION_BLOCK };

struct attribution_unit {
    char name[PARAMETER_NAME];
    int64_t layer, weights;                                          /* weights: numbers of its matrices */
    char head[2 * PARAMETER_NAME + 8], tail[2 * PARAMETER_NAME + 8]; /* of its pattern, around the layer's number */
};

/* The units of a model, layer after layer, in the order in which a run quantizes them. The caller owns *out
 * (memory_free). STATUS_UNSUPPORTED (a name without the layer's number), STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_units_new(const struct model *model, enum attribution_part part,
                                             struct attribution_unit **out, int64_t *count, struct error *error);

/* A pattern that matches the unit's modules and no others; with `but`, one that matches all other modules. */
void attribution_units_pattern(const struct attribution_unit *unit, bool but, char out[ATTRIBUTION_PATTERN]);

/* Bits for each unit, as overrides of a method: an item for each role (mlp.down_proj) and width. */
struct attribution_overrides {
    int64_t count;
    struct quantize_override items[OVERRIDES_MAXIMUM]; /* their patterns lie below */
    char patterns[OVERRIDES_MAXIMUM][ATTRIBUTION_PATTERN];
};

/* For bits [count]; units that keep the method's own `base` bits take no item. STATUS_UNSUPPORTED when that takes more
 * overrides, or longer ones, than a method may have. */
MUST_CHECK enum status attribution_units_overrides(const struct attribution_unit *units, int64_t count,
                                                   const int64_t *bits, int64_t base, struct attribution_overrides *out,
                                                   struct error *error);

/* Refuses units for which attribution_units_overrides could fail for some choice among `widths` widths. Its status. */
MUST_CHECK enum status attribution_units_check(const struct attribution_unit *units, int64_t count, int64_t widths,
                                               struct error *error);

#endif
