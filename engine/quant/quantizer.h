/* quantizer.h: a quantizer is one row of a table, a parameter schema, and one function from the weights of the linears
 * that share an input (and the second moment of that input) to codes. A new quantizer is a new file with its row, a
 * struct in `struct quantize_method`, and one line in QUANTIZERS (quantize_method.h). One that treats linears one by
 * one, from grids alone, hands them to quantize_each (quantize_each.h).
 *
 * All grids act on rows of a weight [rows = outputs, columns = inputs]; a group is `group_size` columns of one row with
 * one scale and one zero point, the last one of a row may be shorter, and -1 makes the whole row one group:
 *
 *   value = (code - zero) * scale */
#ifndef QUANT_QUANTIZER_H
#define QUANT_QUANTIZER_H

#include "backend/backend.h"
#include "base/error.h"
#include "quant/quantize_method.h"
#include "quant/quantized_layer.h"
#include "quant/statistics.h"

/* Weights that may replace those of a task, to be tried one after the other. */
struct quantize_candidates {
    void *owner;
    int64_t count;
    /* Installs the weights of candidate `number`; -1: the original ones. */
    enum status (*put)(void *owner, int64_t number, struct error *error);
};

/* Tries candidates in the block of the linears. */
struct quantize_judge {
    void *owner;
    /* errors[count]: for each candidate the sum over the calibration tokens of the squared change of the block's
     * outputs from those with the original weights. The block's other linears are in their present state: quantized
     * before this task, in full precision behind it. Leaves the last candidate's weights installed. Statuses of put and
     * of hidden_lend, STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
    enum status (*errors)(void *owner, const struct quantize_candidates *candidates, double *errors,
                          struct error *error);
};

/* Linears that read the same activations (q, k and v; gate and up). */
struct quantize_task {
    const struct quantize_linear {
        const char *name;     /* lent, for errors */
        struct matrix weight; /* float: original in, dequantized out */
    } * linears;
    int64_t count;
    /* [count] each linear's method with its override, which changes bits and groups only (`scales_columns` below);
     * lent; NULL: the quantizer's argument is the method of all */
    const struct quantize_method *methods;
    /* Statistics of the N calibration tokens; the Hessian's upper triangle is overwritten with the mirror of its lower
     * one. Without a Hessian errors are measured as if the inputs were white (H = I). */
    struct statistics inputs;
    /* The inputs are values that attention heads share: scales of columns fit no packed format (FOLD_SHARED). */
    bool shared_values;
    bool half_scales; /* scales of grids are rounded to float16 after the codes were computed, as files store them */
    const struct quantize_judge *judge; /* lent; NULL: there are no tokens, or no block */
};

struct export_grid; /* export_format.h */

struct quantizer {
    const char *name; /* as in the API */
    const struct param *params;
    unsigned needs;     /* NEED_… (statistics.h) */
    bool treats_inputs; /* its layers define a treatment of their inputs */
    /* Its layers have scales of columns, which are of the input: all linears of one input share them. Overrides give
     * linears of a task their own grids (quantize_task_method) and do not split it. */
    bool scales_columns;
    /* Turns a method of this quantizer into its replacement for experts that too few calibration tokens visit; NULL:
     * none is needed. */
    void (*fallback)(struct quantize_method *method);
    /* The uniform grid of its codes, which packed formats store, without the fields that depend on the model; NULL: its
     * codes have none. */
    struct export_grid (*grid)(const struct quantize_method *method);
    int bits; /* of a code if no parameter sets it; 0: the parameter "bits" does */
    /* Cross-field rules; writes back the values that will be in effect. Pointers in errors are relative to the method
     * object. STATUS_INVALID. */
    enum status (*complete)(struct quantize_method *method, struct error *error);
    /* Quantizes every linear of the task into out[0 … count) (the caller resets them, also after a failure) and
     * replaces its weight by the dequantized one. STATUS_NOT_FINITE (a weight, the Hessian), STATUS_UNSUPPORTED (a
     * backend of doubles), STATUS_NO_MEMORY. Weights are untouched unless STATUS_OK. */
    enum status (*quantize)(struct backend *backend, const struct quantize_method *method,
                            const struct quantize_task *task, struct quantized_layer *out, struct error *error);
};

/* The method of linear `index` of a task. */
static inline const struct quantize_method *quantize_task_method(const struct quantize_task *task,
                                                                 const struct quantize_method *method, int64_t index)
{
    return task->methods == NULL ? method : &task->methods[index];
}

#define QUANTIZER_ROW(id, name) extern const struct quantizer quantizer_##name;
QUANTIZERS(QUANTIZER_ROW)
#undef QUANTIZER_ROW
/* The row for a method; `id` is in [0, QUANTIZER_COUNT). */
const struct quantizer *quantizer_by_id(int id);

#endif
