/* sequential.h: quantizes a block with calibration tokens, subset after subset: linears that share an input are
 * quantized together, and every later input is computed with their quantized weights, within the block and beyond. */
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
#include "quant/sequential_room.h"
#include "quant/subset.h"

/* An expert that fewer calibration tokens than this share of them visit is rounded to nearest where a method needs to
 * see inputs: one in 200, as published quantizers have it. */
enum { SEQUENTIAL_LEAST_SHARE = 200 };

/* What a run says of a layer. */
struct layer_summary {
    char name[PARAMETER_NAME];                   /* without ".weight" */
    int64_t rows, columns, dead_columns, tokens; /* calibration tokens that reached it; 0: none, H = I */
    int64_t bits, kept;                          /* quantized_layer_bits; columns left as they are */
    bool skipped;                                /* the module was left as it is */
    enum degraded degraded; /* rounded to nearest in place of the method; too few tokens: SEQUENTIAL_LEAST_SHARE */
    int64_t damp_increases;
    double proxy_error, relative_error, damp, alpha; /* as in quantized_layer.h */
};

/* Called with every quantized layer. It may take what it needs, and change `weight`, which holds the dequantized values
 * that later layers will see. */
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
    /* Calibration: lent by the caller; chunks NULL: none. `hidden` goes from the inputs of a block to its outputs. */
    const struct chunks *chunks;
    struct hidden *hidden;
    struct walk *walk;
    struct sequential_room *room; /* for calibration; lent, and used by others between blocks */
    /* Owned. */
    struct activations activations;     /* of the block before; empty where no inputs are treated */
    struct rotation rotation;           /* empty where there is none */
    struct overrides *overrides, *cold; /* of the method, and of `fallback` */
    struct quantize_method fallback;    /* for experts that too few tokens visit */
};

/* Fill model … room first. On failure sequential_reset is still due. */
MUST_CHECK enum status sequential_init(struct sequential *sequential, struct error *error);
void sequential_reset(struct sequential *sequential);

/* Hidden states of the quantized model between its embedding and its first block, or (leave) between its last block and
 * the final norm: the calibration tokens' and any other's pass here, in place. Statuses of hidden_lend. */
MUST_CHECK enum status sequential_enter(const struct sequential *sequential, const struct chunks *chunks,
                                        struct hidden *hidden, struct error *error);
MUST_CHECK enum status sequential_leave(const struct sequential *sequential, const struct chunks *chunks,
                                        struct hidden *hidden, struct error *error);

/* For walk->product of walks over the block that sequential_block was given last; NULL: products are as they are. */
const struct linear_product *sequential_product(const struct sequential *sequential);

/* What the method makes of the inputs of a layer that it quantized, over all columns: `smoothing` and `spared` [columns
 * + kept] are filled and lent to it. */
struct activation sequential_treatment(const struct quantize_method *method, const struct quantized_layer *layer,
                                       float *smoothing, bool *spared);

/* Quantizes every linear of the block in place (and, with a rotation, changes its other parameters and its program;
 * read it anew afterwards) and describes them in summaries[0 … *count). Unless it is the `last` block (whose
 * outputs nobody calibrates on) moves `hidden` to the block's outputs. */
MUST_CHECK enum status sequential_block(struct sequential *sequential, struct block *block, bool last,
                                        struct layer_summary *summaries, int64_t *count, struct error *error);
/* Gives back what the walk over that block needed. */
/* Whether overrides leave all linears of a cut as they are, so that nobody asks for statistics. Experts are counted in
 * any case. Statuses of overrides_find. */
MUST_CHECK enum status sequential_left_alone(const struct overrides *overrides, const struct program *program,
                                             const struct cut *cut, bool *out, struct error *error);
void sequential_forget(struct sequential *sequential);

#endif
