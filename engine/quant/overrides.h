/* overrides.h: exceptions of a method for some modules: the first of its `overrides` whose pattern (PCRE2, found
 * anywhere in the module's name, "model.layers.0.mlp.down_proj") matches sets other bits, another group size, or skips
 * the module. */
#ifndef QUANT_OVERRIDES_H
#define QUANT_OVERRIDES_H

#include "model/program.h"
#include "quant/quantize_method.h"

enum { OVERRIDES_MAXIMUM = 64, OVERRIDES_NONE = -1 };

struct overrides; /* compiled */

/* Compiles the overrides and checks them against the method's own parameters; the method is lent. STATUS_INVALID with a
 * pointer relative to the method ("/overrides/0/pattern"), STATUS_NO_MEMORY. */
MUST_CHECK enum status overrides_new(const struct quantize_method *method, struct overrides **out, struct error *error);
void overrides_free(struct overrides *overrides); /* NULL is fine */

/* The first one that matches a module's name (that of its weight, ".weight" left out), into *index, or OVERRIDES_NONE.
 * STATUS_INVALID: a pattern that takes too long. */
MUST_CHECK enum status overrides_find(const struct overrides *overrides, const char *name, int64_t *index,
                                      struct error *error);

/* Refuses an override that matches no linear of the `layers` blocks: a misspelt pattern would leave a method that is
 * named otherwise and changes nothing. STATUS_INVALID as above, with the name of a linear. */
MUST_CHECK enum status overrides_check(const struct overrides *overrides, const struct program *programs,
                                       int64_t layers, struct error *error);

/* Applies override `index` to *out, the method; true when the module is skipped. */
bool overrides_apply(const struct overrides *overrides, int64_t index, struct quantize_method *out);

#endif
