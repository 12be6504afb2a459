/* quantizer.h: what every quantizer is: one row of a table, a parameter schema, and one function from the weights of the linears
 * that share an input (and the second moment of that input) to codes. A new quantizer is a new file with its row, a struct in
 * `struct quantize_method`, and one line in each of registry.c and QUANTIZE_METHOD_VARIANTS.
 *
 * All grids act on rows of a weight [rows = outputs, columns = inputs]; a group is `group_size` columns of one row with one scale
 * and one zero point, the last one of a row may be shorter, and -1 makes the whole row one group. value = (code - zero) * scale. */
#ifndef QUANT_QUANTIZER_H
#define QUANT_QUANTIZER_H

#include "backend/backend.h"
#include "base/error.h"
#include "base/param.h"
#include "quant/quantized_layer.h"

/* Filled by the tables `rtn_params` (rtn.c) and `gptq_params` (gptq.c); see their help lines. */
struct rtn_params {
    int64_t bits, group_size;
    bool sym;
};

struct gptq_params {
    int64_t bits, group_size;
    bool sym, desc_act, act_group_aware;
    double damp_percent;
};

enum quantizer_id { QUANTIZER_RTN, QUANTIZER_GPTQ, QUANTIZER_COUNT };

/* Which quantizer and its parameters; the structs of the others are not read. */
struct quantize_method {
    int quantizer; /* enum quantizer_id */
    struct rtn_params rtn;
    struct gptq_params gptq;
};

/* Linears that read the same activations (q, k and v; gate and up). */
struct quantize_task {
    const struct quantize_linear {
        const char *name;     /* lent, for errors */
        struct matrix weight; /* float, host: original in, dequantized out */
    } * linears;
    int64_t count;
    /* [columns, columns] of 2/N XᵀX over the N calibration tokens, lower triangle; the upper one is overwritten with its mirror.
     * `data` NULL: none was collected; errors are then measured as if the inputs were white (H = I). */
    struct matrix hessian;
};

/* What a quantizer must be given. */
enum { NEED_INPUT_HESSIAN = 1 };

struct quantizer {
    const char *name; /* as in the API */
    const struct param *params;
    unsigned needs;
    /* Cross-field rules; writes back the values that will be in effect. Pointers in errors are relative to the method object.
     * STATUS_INVALID. */
    enum status (*settle)(struct quantize_method *method, struct error *error);
    /* Quantizes every linear of the task into out[0 … count) (the caller resets them, also after a failure) and replaces its weight
     * by the dequantized one. STATUS_NOT_FINITE (a weight, the Hessian), STATUS_INVALID (damping exhausted), STATUS_UNSUPPORTED (a
     * backend of doubles or a device), STATUS_NO_MEMORY. Weights are untouched unless STATUS_OK. */
    enum status (*quantize)(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                            struct quantized_layer *out, struct error *error);
};

extern const struct quantizer quantizer_rtn, quantizer_gptq;
extern const struct param rtn_params[], gptq_params[];

/* The row for a method; `id` is in [0, QUANTIZER_COUNT). */
const struct quantizer *quantizer_by_id(int id);

/* Rows for a PARAM_VARIANT whose struct quantize_method lies `base` bytes into the struct that is filled; end the table with {0}.
 */
#define QUANTIZE_METHOD_VARIANTS(base)                                                                                             \
    {"rtn", rtn_params, (base) + offsetof(struct quantize_method, rtn)},                                                           \
    {                                                                                                                              \
        "gptq", gptq_params, (base) + offsetof(struct quantize_method, gptq)                                                       \
    }

/* Checks what a table cannot say and writes back what will be in effect: desc_act, or a group of a whole row, turns act_group_aware
 * off. Call once after a method was
 * filled. STATUS_INVALID with a pointer relative to the method ("/group_size"). */
MUST_CHECK enum status quantize_method_settle(struct quantize_method *method, struct error *error);

#endif
