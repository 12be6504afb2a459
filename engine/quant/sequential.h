/* sequential.h: quantizes a block with calibration tokens, subset by subset: linears that share an input are quantized
 * together, and all later inputs, in this block and later ones, are computed with their quantized weights. */
#ifndef QUANT_SEQUENTIAL_H
#define QUANT_SEQUENTIAL_H

#include "base/monitor.h"
#include "model/hidden.h"
#include "model/loader.h"
#include "model/walk.h"
#include "quant/activation.h"
#include "quant/cuts.h"
#include "quant/overrides.h"
#include "quant/quantizer.h"
#include "quant/rotation.h"
#include "quant/sequential_scratch.h"
#include "quant/subset.h"

/* An expert that fewer calibration tokens than one in SEQUENTIAL_LEAST_SHARE visit is rounded to nearest if a method
 * needs to see inputs. One in 200 is also the limit of published quantizers. */
enum { SEQUENTIAL_LEAST_SHARE = 200 };

/* The report on a layer. */
struct layer_summary {
    char name[PARAMETER_NAME];                   /* without ".weight" */
    int64_t rows, columns, dead_columns, tokens; /* calibration tokens that reached it; 0: none, H = I */
    int64_t bits, kept;                          /* quantized_layer_bits; columns that are not quantized */
    bool skipped;                                /* the module was not quantized */
    enum degraded degraded; /* rounded to nearest in place of the method; too few tokens: SEQUENTIAL_LEAST_SHARE */
    int64_t damp_increases;
    double proxy_error, relative_error, damp, alpha; /* as in quantized_layer.h */
};

/* Called with every quantized layer. It may take arrays from it, and change `weight`, the dequantized values that later
 * layers will see. */
struct sequential_hook {
    void *owner;
    enum status (*layer)(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                         struct error *error);
};

struct sequential {
    const struct model *model;
    struct backend *backend;
    const struct quantize_method *method;
    const struct monitor *monitor;
    struct sequential_hook hook;
    bool half_scales; /* as in struct quantize_task */
    /* Calibration: lent by the caller; chunks NULL: none. `hidden` changes from the inputs of a block to its
     * outputs. */
    const struct chunks *chunks;
    struct hidden *hidden;
    struct walk *walk;
    struct sequential_scratch *scratch; /* for calibration; lent, and used by others between blocks */
    /* Owned. */
    struct activations activations;     /* of the latest block; empty if no inputs are treated */
    struct rotation rotation;           /* empty without a rotation */
    struct overrides *overrides, *cold; /* of the method, and of `fallback` */
    struct quantize_method fallback;    /* for experts that too few tokens visit */
};

/* The caller fills the fields from model to scratch first, and calls sequential_reset, also on failure. */
MUST_CHECK enum status sequential_init(struct sequential *sequential, struct error *error);
void sequential_reset(struct sequential *sequential);

/* Transforms, in place, the hidden states of the quantized model between its embedding and its first block, or (leave)
 * between its last block and the final norm. The calibration tokens' and all other states pass through here. Statuses
 * of hidden_lend. */
MUST_CHECK enum status sequential_enter(const struct sequential *sequential, const struct chunks *chunks,
                                        struct hidden *hidden, struct error *error);
MUST_CHECK enum status sequential_leave(const struct sequential *sequential, const struct chunks *chunks,
                                        struct hidden *hidden, struct error *error);

/* For walk->product in passes over the latest block of sequential_block; NULL: ordinary products. */
const struct linear_product *sequential_product(const struct sequential *sequential);

/* The treatment of the inputs of a quantized layer, over all columns: fills `smoothing` and `spared` [columns + kept],
 * which are lent to the result. */
struct activation sequential_treatment(const struct quantized_layer *layer, float *smoothing, bool *spared);

/* Quantizes every linear of the block in place (and, with a rotation, changes its other parameters and its program;
 * read it again afterwards) and describes them in summaries[0 … *count). Moves `hidden` to the block's outputs, unless
 * this is the `last` block, whose outputs no calibration needs. */
MUST_CHECK enum status sequential_block(struct sequential *sequential, struct block *block, bool last,
                                        struct layer_summary *summaries, int64_t *count, struct error *error);
/* Whether overrides skip all linears of a cut, so that no statistics are needed. Experts are counted in any case.
 * Statuses of overrides_find. */
MUST_CHECK enum status sequential_left_alone(const struct overrides *overrides, const struct program *program,
                                             const struct cut *cut, bool *out, struct error *error);
/* Drops the treatment of that block's inputs, when no pass over it follows. */
void sequential_forget(struct sequential *sequential);

#endif
