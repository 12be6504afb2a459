/* method.h: a quantization method in the parameters of a run: {"name": "gptq", "bits": 4, …}. */
#ifndef KINDS_METHOD_H
#define KINDS_METHOD_H

#include "inputs/recipes.h"
#include "kinds/kind.h"
#include "quant/quantizer.h"

/* The row of a quantizer, a struct quantize_method at `at`. `text`: its help. */
#define METHOD_PARAM(at, text)                                                                              \
    {                                                                                                       \
        .name = "method", .type = PARAM_VARIANT, .schema = "Method",                                        \
        .offset = (at) + offsetof(struct quantize_method, quantizer), .variants = quantize_method_variants, \
        .recipes = recipes_table, .help = text                                                              \
    }

/* For check, of the "method" and "calibration" in `object` of the parameters ("direction"; NULL: the parameters
 * themselves). Refuses (at the calibration) a quantizer without the calibration it needs, and asks its cross-field
 * rules; the values that they complete are written back into the document. */
MUST_CHECK enum status method_check(const struct run_request *request, const char *object,
                                    const struct quantize_method *method, bool calibrated, struct error *error);

/* The method's parameter of that name, 0 when it has none. */
int64_t method_integer(const struct quantize_method *method, const char *name);

/* Bits of a code. */
int method_bits(const struct quantize_method *method);

/* "gptq 4-bit g128", with what else differs from the method's defaults. */
void method_label(const struct quantize_method *method, char *out, size_t size);

#endif
