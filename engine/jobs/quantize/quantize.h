/* quantize.h: what quantization costs a checkpoint. One forward pass over the blocks quantizes them one by one. Each
 * block is read once: the full-precision evaluation tokens pass it as it is, the calibration tokens determine its
 * quantized weights, and the quantized evaluation tokens pass these; then the block is dropped.
 * Memory: two blocks, the embedding, the hidden states of the three streams, one chunk's activations, the Hessian of
 * one linear and its factor, and what is held between cuts (quant/sequential.h). Several quantizations of one
 * checkpoint share a forward pass; this takes one more block, and two streams of hidden states for each quantization.
 * Where memory is short, less is held between cuts, and then part of the hidden states is spilled; the numbers stay the
 * same. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "base/monitor.h"
#include "eval/evaluate.h"
#include "eval/ratio.h"
#include "quant/quantizer.h"
#include "quant/sequential.h"

/* The streams of the quantized model before a block: hidden states [tokens, d] of the calibration (no data where there
 * is none) and of the evaluation, with tokens in the order in which a run processes them. */
struct quantize_streams {
    int64_t layer;
    struct matrix calibration, evaluation;
};

/* Called with the streams before every block, and once more after the last block, when `layer` is the number of layers.
 * The streams are lent for the call. The call may run other quantizations that start from them. */
struct quantize_visitor {
    void *owner;
    enum status (*streams)(void *owner, const struct quantize_streams *streams, struct error *error);
};

/* Saves what the hook made of the layers, for runs whose streams are saved (`save_path` of the request), so that a
 * later attempt has both from the same block on. */
struct quantize_saver {
    void *owner;
    /* The pass is about to begin at block `layer`. True: everything that the hook made of the blocks before it is
     * there. False: the pass calls this again with 0 and begins there; nothing of an earlier attempt may then be
     * used. */
    bool (*begin)(void *owner, int64_t layer);
    /* Makes everything so far durable. When it fails, the run's streams are not saved either. */
    enum status (*save)(void *owner, struct error *error);
};

struct quantize_request {
    const struct model *model;
    struct backend *backend;
    struct quantize_method method;       /* complete (quantize_method_complete) */
    const struct sequences *calibration; /* NULL: none, for quantizers that need none */
    const struct sequences *evaluation;
    /* file of the full-precision hidden states (eval/baseline.h): read where it exists, else written; NULL: none */
    const char *baseline;
    bool half_scales; /* scales are float16, as an export stores them (export_half_scales) */
    bool per_token;   /* the result has token_losses of both models, and token_kl */
    uint64_t seed;    /* of the bootstrap */
    /* memory for activations that are held between the linears of a block instead of being computed again; 0: what is
     * left of the default bound, or as little as possible where memory is short */
    int64_t hold_bytes;
    const char *directory;           /* where hidden states may be spilled; NULL: nowhere (on a device: host memory) */
    const struct monitor *monitor;   /* progress by "block"; may be NULL */
    struct sequential_hook hook;     /* is called with every layer; {0}: none */
    struct quantize_visitor visitor; /* {0}: none */
    /* The streams of another run of the same data, precision and options: the run copies them and begins at their
     * layer. It then needs fp_hidden. NULL: the run begins at the embeddings. */
    const struct quantize_streams *start;
    /* of the evaluation in full precision after the last block, lent; no data: the run computes them */
    struct matrix fp_hidden;
    /* blocks from this one on have nothing to quantize, so that calibration can end before it; 0: not known */
    int64_t idle_from;
    /* The beginning of the paths of files in which streams are saved between blocks. When the process was killed and
     * the same request is run again, it goes on behind the last block that was saved, and the result is bit-for-bit
     * identical. Only for requests without visitor and start; a request with a hook needs a saver too. NULL: nothing
     * is saved. The caller removes the files (or their directory). */
    const char *save_path;
    struct quantize_saver saver; /* {0}: none */
    uint64_t content;            /* a hash of the checkpoint's content: files saved for another one are not read */
    /* the least time between two savings; 0: a minute, and longer when saving takes long; below 0: every block */
    double save_seconds;
};

/* The means over the evaluation's predictions that have intervals of their own. */
enum quantize_mean { QUANTIZE_LOSS_FP, QUANTIZE_LOSS_Q, QUANTIZE_KL, QUANTIZE_TOP1, QUANTIZE_MEANS };

struct quantize_result {
    struct evaluate_result fp, q; /* by sequence, in the order given */
    double delta;                 /* loss_q / loss_fp - 1 */
    double delta_low, delta_high; /* 95 % interval over sequences (ratio_interval); NAN: none */
    enum ratio_method delta_method;
    double *sequence_kl;   /* [fp.sequences] mean over each one's predictions of KL(fp || q), nats; owned */
    double *sequence_top1; /* [fp.sequences] share of each one's predictions with the same likeliest token; owned */
    float *token_kl;       /* as fp.token_losses; owned */
    double kl;             /* mean over predictions of KL(fp || q), nats */
    double top1_agreement; /* share of predictions with the same likeliest token */
    struct ratio_interval intervals[QUANTIZE_MEANS]; /* 95 %, over sequences (quantize_intervals.h) */
    double bits_per_weight; /* of the quantized matrices, scales and zero points included (quantized_layer_bits) */
    double model_bits_per_weight;                      /* of all parameters (quantize_bits.h) */
    int64_t calibration_sequences, calibration_tokens; /* 0 without calibration */
    int64_t layer_count;
    struct layer_summary *layers; /* owned */
};
void quantize_result_reset(struct quantize_result *result); /* {0} is fine */

/* Calibration sequences are cut to their first tokens where they are longer than the model's positions, and processed
 * by descending length, without padding; short ones (10 tokens or fewer) are dropped by the dataset's packing, not
 * here. Evaluation sequences longer than the model's positions are refused. STATUS_INVALID (tokens outside the
 * vocabulary, no calibration for a quantizer that needs it, overrides that cannot be, more columns to keep than there
 * are), STATUS_NOT_FINITE (weights, activations), STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_TOO_LARGE before any work
 * is done, when no plan fits the available memory (backend_budget), STATUS_DISK_FULL, STATUS_INPUT_CHANGED, STATUS_IO,
 * STATUS_NO_MEMORY. A loss that is not finite is no error: the result contains it. */
MUST_CHECK enum status quantize_run(const struct quantize_request *request, struct quantize_result *out,
                                    struct error *error);

/* A member of a batch: one of several quantizations that share a forward pass, and its result. */
struct quantize_member {
    struct quantize_request request;
    void *owner;
    /* Called when this member is done, with `status`, `error` and `result` filled. A member that fails, or that its
     * monitor stops, is done before the others, which go on. May be NULL. */
    void (*ended)(struct quantize_member *member);
    enum status status;
    struct error error;
    struct quantize_result result; /* owned by the caller when `status` is STATUS_OK */
};

/* Runs the members over one forward pass: each block is read once, and the full-precision stream passes it once. Each
 * member's result is bit-for-bit identical to that of running it alone, and each fails or is stopped by itself. Members
 * have model, backend, evaluation, baseline, content and fp_hidden in common; fp_hidden and hold_bytes are taken from
 * the first. */
void quantize_batch(struct quantize_member *members, int64_t count);

/* The plan of quantize_batch for these requests: the first plan that fits the budget, otherwise the smallest
 * (plan_fits). All plans give the same numbers. STATUS_INVALID as above, STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_plan(const struct quantize_request *requests, int64_t count,
                                     const struct plan_budget *budget, struct run_plan *out, struct error *error);

/* Number of quantizations like this one that can share a forward pass within `memory` bytes (0: all available) without
 * spilling; at least 1. */
int64_t quantize_batch_most(const struct quantize_request *request, int64_t memory);

#endif
