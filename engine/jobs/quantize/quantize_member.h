/* quantize_member.h: the state of one member of a batch of quantizations: its streams, its quantizer, its results. For
 * quantize.c. */
#ifndef QUANTIZE_QUANTIZE_MEMBER_H
#define QUANTIZE_QUANTIZE_MEMBER_H

#include "base/members.h"
#include "jobs/quantize/quantize.h"
#include "model/embed.h"
#include "model/head.h"
#include "model/hidden.h"

/* most bytes of a run beside two blocks, hidden states and an embedding */
#define QUANTIZE_SLACK_BYTES (220LL << 20)

/* The forward pass that the members of a batch share; lent to each. */
struct quantize_pass {
    const struct model *model;
    struct backend *backend;
    struct chunks evaluation;
    /* of the streams of evaluation tokens, and of those of calibration tokens */
    struct hidden_place place, calibration;
    struct walk walk;
    struct sequential_scratch scratch;
};

struct quantize_member_state {
    struct member member; /* of the batch; a plan has none */
    struct quantize_pass *pass;
    const struct quantize_request *request; /* lent */
    struct quantize_member *given;          /* lent: the caller's, filled at the end; a plan has none */
    bool embedded;                          /* its streams begin at the embeddings */
    int64_t layer;                          /* the block that comes next */
    struct chunks calibration;
    struct hidden calibration_hidden, hidden; /* the second: evaluation tokens, on quantized weights */
    struct sequential sequential;
    struct matrix output;          /* the quantized model's output matrix, where it has its own */
    int64_t end_bits, end_weights; /* of embeddings and output, where they are quantized */
    double *losses, *kl;           /* [evaluation tokens] */
    uint8_t *agree;
    struct quantize_result result;
};

/* Cuts the evaluation into chunks. Refuses tokens that do not fit the model. The caller resets pass->evaluation. */
MUST_CHECK enum status quantize_member_evaluation(struct quantize_pass *pass, const struct sequences *evaluation,
                                                  struct error *error);
/* Cuts the calibration, in its order, into chunks. A plan needs them too, so this comes before anything else. */
MUST_CHECK enum status quantize_member_calibration(struct quantize_member_state *state, struct error *error);
/* Allocates the results. After a failure the caller still calls quantize_member_reset. */
MUST_CHECK enum status quantize_member_prepare(struct quantize_member_state *state, struct error *error);

/* Allocates its streams and fills them if they do not begin at the embeddings: from request->start, or from the file
 * that an earlier attempt saved (request->save_path). */
MUST_CHECK enum status quantize_member_begin(struct quantize_member_state *state, struct error *error);
/* Fills the streams from the embeddings. Where the method quantizes embeddings, it rounds those in `embed`, and
 * *changed is true. */
MUST_CHECK enum status quantize_member_embed(struct quantize_member_state *state, struct embed *embed, bool *changed,
                                             struct error *error);

/* Bytes that may be held between cuts, with chunks of `walk_tokens` tokens: what is left of QUANTIZE_SLACK_BYTES. */
int64_t quantize_member_hold_bytes(const struct quantize_member_state *state, int64_t walk_tokens);
/* Opens its quantizer; the pass has its walk and scratch. Streams that begin at the embeddings are brought into the
 * quantized model's basis (sequential_enter). */
MUST_CHECK enum status quantize_member_open(struct quantize_member_state *state, struct error *error);

/* Quantizes the block in place and takes the member's streams through it. */
MUST_CHECK enum status quantize_member_block(struct quantize_member_state *state, struct block *block,
                                             struct error *error);
/* Shows the streams to the visitor. */
MUST_CHECK enum status quantize_member_visit(const struct quantize_member_state *state, struct error *error);

/* After the last block: takes the evaluation stream back to the model's basis (sequential_leave) and releases what only
 * blocks needed. */
MUST_CHECK enum status quantize_member_leave(struct quantize_member_state *state, struct error *error);
/* Prepares the member's output matrix, once the head is loaded; then what head_compare needs of it for each chunk; then
 * its results. */
MUST_CHECK enum status quantize_member_head(struct quantize_member_state *state, const struct head *head,
                                            struct error *error);
MUST_CHECK enum status quantize_member_other(struct quantize_member_state *state, const struct chunk *chunk,
                                             struct head_other *out, struct error *error);
MUST_CHECK enum status quantize_member_summarise(struct quantize_member_state *state, const double *losses_fp,
                                                 struct error *error);

/* Saves its streams in a file (request->save_path). */
MUST_CHECK enum status quantize_member_save(struct quantize_member_state *state, struct error *error);

/* Everything but `result`. */
void quantize_member_reset(struct quantize_member_state *state);

/* Fingerprint of the checkpoint's content, the backend, the evaluation's tokens and (calibrated) the calibration's. */
uint64_t quantize_member_fingerprint(const struct quantize_member_state *state, bool calibrated);

#endif
