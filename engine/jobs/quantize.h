/* quantize.h: what quantization costs a checkpoint. One forward walk over the blocks that quantizes as it goes: each block is read
 * once; the full-precision evaluation tokens pass it as it is, the calibration tokens make its quantized weights, the quantized
 * evaluation tokens pass those; and it is dropped. Memory: two blocks, the embedding, the hidden states of the three streams, one
 * chunk's activations, the Hessian of one linear and its factor, and what is held between cuts (quant/sequential.h). */
#ifndef JOBS_QUANTIZE_H
#define JOBS_QUANTIZE_H

#include "base/monitor.h"
#include "eval/evaluate.h"
#include "quant/quantizer.h"
#include "quant/sequential.h"

/* The streams of the quantized model before a block: hidden states [tokens, d] of the calibration (no data without one) and of the
 * evaluation, in the order that a run visits them. */
struct quantize_streams {
    int64_t layer;
    struct matrix calibration, evaluation;
};

/* Called with the streams before every block, and with `layer` the number of layers after the last one. They are lent for the call,
 * which may run other quantizations from them. */
struct quantize_visitor {
    void *owner;
    enum status (*streams)(void *owner, const struct quantize_streams *streams, struct error *error);
};

struct quantize_request {
    const struct model *model;
    struct backend *backend;
    struct quantize_method method;       /* settled (quantize_method_settle) */
    const struct sequences *calibration; /* NULL: none, for quantizers that need none */
    const struct sequences *evaluation;
    const char *baseline; /* file of the full-precision hidden states (eval/baseline.h), read or else written; NULL: none */
    uint64_t seed;        /* of the bootstrap */
    int64_t hold_bytes;   /* memory for activations held between the linears of a block instead of computed again;
                             0: what is left of the default bound (see quantize.c) */
    const struct monitor *monitor;        /* progress by "block"; may be NULL */
    struct sequential_hook hook;          /* sees every layer; {0}: nobody */
    struct quantize_visitor visitor;      /* {0}: nobody */
    const struct quantize_streams *start; /* copied: the run begins here, with what another run of the same data, precision and
                                             options came to; it needs fp_hidden. NULL: at the embeddings */
    struct matrix fp_hidden;              /* of the evaluation in full precision after the last block, lent; no data: found out */
    int64_t settled_from; /* blocks from this one on have nothing to quantize, so that calibration ends before; 0: none are known */
};

struct quantize_result {
    struct evaluate_result fp, q; /* by sequence, in the order given */
    double delta;                 /* loss_q / loss_fp - 1 */
    double delta_low, delta_high; /* 95 % percentile interval of a paired bootstrap over sequences */
    double kl;                    /* mean over predictions of KL(fp || q), nats */
    double top1_agreement;        /* share of predictions with the same likeliest token */
    double bits_per_weight;       /* of the quantized matrices, scales and zero points included (quantized_layer_bits) */
    int64_t calibration_sequences, calibration_tokens; /* 0 without calibration */
    int64_t layer_count;
    struct layer_summary *layers; /* owned */
};
void quantize_result_reset(struct quantize_result *result); /* {0} is fine */

/* Calibration sequences are cut to the model's positions (head kept) and visited by descending length, without padding; those with
 * 10 tokens or fewer are left to the dataset's packing to drop. Evaluation sequences longer than the model's positions are refused.
 * STATUS_INVALID (tokens outside the vocabulary, no calibration for a quantizer that needs it, overrides that cannot be, more
 * columns to keep than there are), STATUS_NOT_FINITE (weights, activations), STATUS_CANCELLED, STATUS_LEASE_LOST,
 * STATUS_INPUT_CHANGED, STATUS_IO, STATUS_NO_MEMORY. Losses that are not finite are no error: they are in the result as they are.
 */
MUST_CHECK enum status quantize_run(const struct quantize_request *request, struct quantize_result *out, struct error *error);

#endif
