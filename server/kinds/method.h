/* method.h: a quantization method in the parameters of a run: {"name": "gptq", "bits": 4, …}. */
#ifndef KINDS_METHOD_H
#define KINDS_METHOD_H

#include "inputs/recipes.h"
#include "kinds/kind.h"
#include "quant/quantizer.h"

/* The parameter row of a quantizer, a struct quantize_method at `at`. `text`: its help. */
#define METHOD_PARAM(at, text)                                                                              \
    {                                                                                                       \
        .name = "method", .type = PARAM_VARIANT, .schema = "Method",                                        \
        .offset = (at) + offsetof(struct quantize_method, quantizer), .variants = quantize_method_variants, \
        .recipes = recipes_table, .help = text                                                              \
    }

/* For check: `object` names the part of the parameters that has "method" and "calibration" ("direction"; NULL: the
 * parameters themselves). Refuses a quantizer that lacks the calibration it needs (at the calibration), and applies the
 * quantizer's cross-field rules; values that these complete are written back into the document. Overrides are held to
 * the names of the checkpoint's linears where its files are here; elsewhere the run does that. */
MUST_CHECK enum status method_check(const struct run_request *request, const char *checkpoint, const char *object,
                                    const struct quantize_method *method, bool calibrated, struct error *error);

/* Whether a quantizer has this name; if not, `known` gets the names that there are: "rtn, gptq, …". */
enum { METHODS_TEXT = 400 };
bool method_known(const char *name, char known[METHODS_TEXT]);

/* The method's parameter of that name; 0 when it has none. */
int64_t method_integer(const struct quantize_method *method, const char *name);

/* The width of a code in bits. */
int method_bits(const struct quantize_method *method);

/* Writes "gptq 4-bit g128", with every other parameter that differs from its default. The label is what tells series
 * apart, so that no two methods have the same one: one that is longer is cut, and ends with a hash of the method. */
enum { METHOD_LABEL = 128 };
void method_label(const struct quantize_method *method, char out[METHOD_LABEL]);
/* The same with `mark` behind it, which starts with a blank and has 20 characters at most: what makes other numbers of
 * the method. */
void method_label_marked(const struct quantize_method *method, const char *mark, char out[METHOD_LABEL]);

#endif
