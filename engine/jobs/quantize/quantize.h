/* quantize.h: what quantization costs a checkpoint. One forward pass over the blocks that quantizes as it goes: each
 * block is read once; the full-precision evaluation tokens pass it as it is, the calibration tokens make its quantized
 * weights, the quantized evaluation tokens pass those; and it is dropped. Memory: two blocks, the embedding, the hidden
 * states of the three streams, one chunk's activations, the Hessian of one linear and its factor, and what is held
 * between cuts (quant/sequential.h). Several quantizations of one checkpoint share a forward pass: one more block, and
 * two streams of hidden states for each. Where that does not fit less is held between cuts, and then part of the hidden
 * states is spilled; the numbers are the same. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "base/monitor.h"
#include "eval/evaluate.h"
#include "quant/quantizer.h"
#include "quant/sequential.h"

/* The streams of the quantized model before a block: hidden states [tokens, d] of the calibration (no data without one)
 * and of the evaluation, in the order that a run visits them. */
struct quantize_streams {
    int64_t layer;
    struct matrix calibration, evaluation;
};

/* Called with the streams before every block, and with `layer` the number of layers after the last one. They are lent
 * for the call, which may run other quantizations from them. */
struct quantize_visitor {
    void *owner;
    enum status (*streams)(void *owner, const struct quantize_streams *streams, struct error *error);
};

/* Whoever keeps what the hook made of the layers, for runs that are kept themselves. */
struct quantize_keeper {
    void *owner;
    /* The pass begins at block `layer`: whether all that the layers before it came to is there. If not it begins at 0,
     * and asks again; then nothing of an earlier attempt may be used. */
    bool (*begin)(void *owner, int64_t layer);
    /* Makes all that came by so far durable; on failure the run's streams are not kept either. */
    enum status (*keep)(void *owner, struct error *error);
};

struct quantize_request {
    const struct model *model;
    struct backend *backend;
    struct quantize_method method;       /* settled (quantize_method_settle) */
    const struct sequences *calibration; /* NULL: none, for quantizers that need none */
    const struct sequences *evaluation;
    /* file of the full-precision hidden states (eval/baseline.h), read or else written; NULL: none */
    const char *baseline;
    uint64_t seed;         /* of the bootstrap */
    int64_t hold_bytes;    /* memory for activations held between the linears of a block instead of computed again;
                              0: what is left of the default bound, or as little as can be where memory is short */
    const char *directory; /* where hidden states may be spilled to; NULL: nowhere (a device: into host memory) */
    const struct monitor *monitor;   /* progress by "block"; may be NULL */
    struct sequential_hook hook;     /* sees every layer; {0}: nobody */
    struct quantize_visitor visitor; /* {0}: nobody */
    const struct quantize_streams
        *start;              /* copied: the run begins here, with what another run of the same data, precision and
                                             options came to; it needs fp_hidden. NULL: at the embeddings */
    struct matrix fp_hidden; /* of the evaluation in full precision after the last block, lent; no data: found out */
    /* blocks from this one on have nothing to quantize, so that calibration ends before; 0: none are known */
    int64_t settled_from;
    /* How paths of files begin in which streams are kept between blocks, so that the same request, asked again after
     * its process was killed, goes on behind the last block that was kept, with the same bits. Only for requests
     * without visitor and start, and with a hook only beside a keeper. NULL: nothing is kept. The caller removes the
     * files (or their directory). */
    const char *keep;
    struct quantize_keeper keeper; /* {0}: nobody */
    uint64_t content;              /* a hash of the checkpoint's content: what was kept of another one is not read */
    /* between two savings, at least; 0: a minute, and longer when saving takes long; below 0: every block */
    double save_seconds;
};

struct quantize_result {
    struct evaluate_result fp, q; /* by sequence, in the order given */
    double delta;                 /* loss_q / loss_fp - 1 */
    double delta_low, delta_high; /* 95 % percentile interval of a paired bootstrap over sequences */
    double kl;                    /* mean over predictions of KL(fp || q), nats */
    double top1_agreement;        /* share of predictions with the same likeliest token */
    double bits_per_weight; /* of the quantized matrices, scales and zero points included (quantized_layer_bits) */
    int64_t calibration_sequences, calibration_tokens; /* 0 without calibration */
    int64_t layer_count;
    struct layer_summary *layers; /* owned */
};
void quantize_result_reset(struct quantize_result *result); /* {0} is fine */

/* Calibration sequences are cut to the model's positions (head kept) and visited by descending length, without padding;
 * those with 10 tokens or fewer are left to the dataset's packing to drop. Evaluation sequences longer than the model's
 * positions are refused. STATUS_INVALID (tokens outside the vocabulary, no calibration for a quantizer that needs it,
 * overrides that cannot be, more columns to keep than there are), STATUS_NOT_FINITE (weights, activations),
 * STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_TOO_LARGE when no plan fits what there is (backend_budget), before
 * anything is done, STATUS_DISK_FULL, STATUS_INPUT_CHANGED, STATUS_IO, STATUS_NO_MEMORY. Losses that are not finite are
 * no error: they are in the result as they are. */
MUST_CHECK enum status quantize_run(const struct quantize_request *request, struct quantize_result *out,
                                    struct error *error);

/* A member of a batch: one of several quantizations that share a forward pass, and what came of it. */
struct quantize_member {
    struct quantize_request request;
    void *owner;
    /* Called when nothing more will be done for this member, with `status`, `error` and `result` filled: at its end, or
     * earlier when it failed or its monitor stopped it, while the others go on. May be NULL. */
    void (*ended)(struct quantize_member *member);
    enum status status;
    struct error error;
    struct quantize_result result; /* owned by the caller when `status` is STATUS_OK */
};

/* Runs them over one forward pass: a block is read once and the full-precision stream passes it once. Each has the
 * result that it would have alone, to the bit, and fails or is stopped alone. They have model, backend, evaluation,
 * baseline, content and fp_hidden in common; fp_hidden and hold_bytes are taken from the first. */
void quantize_batch(struct quantize_member *members, int64_t count);

/* What quantize_batch will need for these: of the plans that give their numbers the first that fits the budget, or else
 * the smallest of all (plan_fits). STATUS_INVALID as above, STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_plan(const struct quantize_request *requests, int64_t count,
                                     const struct plan_budget *budget, struct run_plan *out, struct error *error);

/* How many quantizations like this one fit a forward pass within `memory` bytes (0: what there is) with nothing
 * spilled; at least 1. */
int64_t quantize_batch_most(const struct quantize_request *request, int64_t memory);

#endif
