/* probe.h: parameters, checks and data shared by the kinds that measure points between checkpoints (interpolate,
 * landscape, the search of average): a dataset, and a quantizer when losses of quantized points are wanted too. */
#ifndef KINDS_PROBE_H
#define KINDS_PROBE_H

#include "inputs/checkpoint_set.h"
#include "inputs/recipes.h"
#include "jobs/point.h"

/* Rows for a method at `at`, and the calibration beside it. */
/* clang-format off */
#define PROBE_METHOD_PARAMS(at, calibration_at) \
    {.name = "method", .type = PARAM_VARIANT, .schema = "Method", \
     .offset = (at) + offsetof(struct quantize_method, quantizer), \
     .variants = quantize_method_variants, .recipes = recipes_table, \
     .fallback = "null", .nullable = true, .help = "Quantizer of the quantized losses; null: full precision only"}, \
    INPUTS_CALIBRATION_PARAM(calibration_at)
#define PROBE_SEED_PARAM(at) INPUTS_SEED_PARAM(at, "Seed of the bootstrap behind intervals")
/* clang-format on */

/* For check: method and calibration fit, and `checkpoint`'s tokenizer can read the datasets. `object`: where the
 * evaluation is in the parameters, as for inputs_check_use. */
MUST_CHECK enum status probe_check(struct run_request *request, const char *checkpoint,
                                   const struct quantize_method *method, const struct data_use *evaluation,
                                   const char *object, const struct data_use *calibration, struct error *error);

struct probe {
    struct sequences evaluation, calibration;
    struct quantize_method method;
    struct point_request request; /* lends all of the members above, and the set */
    char dataset[STORE_NAME];
};

/* Opens data and method for points of `set`. The caller resets *out, which must not move. */
MUST_CHECK enum status probe_open(const struct run_context *context, struct checkpoint_set *set,
                                  const struct quantize_method *method, const struct data_use *evaluation,
                                  const struct data_use *calibration, int64_t seed, struct probe *out,
                                  struct error *error);
void probe_reset(struct probe *probe); /* {0} is fine */

/* A probe and the checkpoints whose points it measures. */
struct probe_set {
    struct checkpoint_set set;
    struct probe probe;
};
/* Opens both, as checkpoint_set_open and probe_open do. The caller resets *out, which must not move. */
MUST_CHECK enum status probe_set_open(const struct run_context *context, const char *const *ids, int64_t count,
                                      int precision, const struct quantize_method *method,
                                      const struct data_use *evaluation, const struct data_use *calibration,
                                      int64_t seed, struct probe_set *out, struct error *error);
void probe_set_reset(struct probe_set *probe); /* {0} is fine */

/* Writes a note into `text` when a loss is not finite, and returns it; NULL when all losses are finite. */
enum { PROBE_NOTE = 120 };
const char *probe_note_text(const struct point *points, int64_t count, char text[PROBE_NOTE]);

#endif
