/* quantize_member.h: the state of one member of a batch of quantizations: its streams, its quantizer, what it finds.
 * For quantize.c. */
#ifndef QUANTIZE_QUANTIZE_MEMBER_H
#define QUANTIZE_QUANTIZE_MEMBER_H

#include "base/members.h"
#include "jobs/quantize/quantize.h"
#include "model/embed.h"
#include "model/head.h"
#include "model/hidden.h"

#define QUANTIZE_SLACK_BYTES \
    (220LL << 20) /* a run takes two blocks, hidden states, an embedding, and so much at most */

/* The forward pass that the members of a batch share; lent to each. */
struct quantize_pass {
    const struct model *model;
    struct backend *backend;
    struct chunks evaluation;
    struct hidden_place place,
        calibration; /* of the streams of evaluation tokens, and of those of calibration tokens */
    struct walk walk;
    struct sequential_room room;
};

struct quantize_member_state {
    struct member member; /* of the batch; a plan has none */
    struct quantize_pass *pass;
    const struct quantize_request *request; /* lent */
    struct quantize_member *given;          /* lent: what is asked for, and filled at the end; a plan has none */
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

/* The evaluation's tokens, refused where they do not fit the model. The caller resets pass->evaluation. */
MUST_CHECK enum status quantize_member_evaluation(struct quantize_pass *pass, const struct sequences *evaluation,
                                                  struct error *error);
/* First of all: calibration tokens in their order, which a plan needs too. */
MUST_CHECK enum status quantize_member_calibration(struct quantize_member_state *state, struct error *error);
/* Then room for results. On failure quantize_member_reset is still due. */
MUST_CHECK enum status quantize_member_prepare(struct quantize_member_state *state, struct error *error);

/* Where its streams begin: at request->start, or behind the block that `keep` was left at; else at the embeddings. */
MUST_CHECK enum status quantize_member_begin(struct quantize_member_state *state, struct error *error);
/* The streams at the first block's input. Where the method says so the embeddings become the quantized model's:
 * *changed. */
MUST_CHECK enum status quantize_member_embed(struct quantize_member_state *state, struct embed *embed, bool *changed,
                                             struct error *error);

/* Bytes that may be held between cuts, with chunks of `walk_tokens` tokens: what is left of a run's bound. */
int64_t quantize_member_hold_bytes(const struct quantize_member_state *state, int64_t walk_tokens);
/* Its quantizer, when the pass has its walk and room; streams that were embedded enter the quantized model. */
MUST_CHECK enum status quantize_member_open(struct quantize_member_state *state, struct error *error);

/* Takes it past the block, whose numbers it changes. */
MUST_CHECK enum status quantize_member_block(struct quantize_member_state *state, struct block *block,
                                             struct error *error);
/* Shows the streams to the visitor. */
MUST_CHECK enum status quantize_member_visit(const struct quantize_member_state *state, struct error *error);

/* After the last block: its streams leave, and what only blocks needed is given back. */
MUST_CHECK enum status quantize_member_leave(struct quantize_member_state *state, struct error *error);
/* Its side of head_compare, once the head is there. */
MUST_CHECK enum status quantize_member_head(struct quantize_member_state *state, const struct head *head,
                                            struct error *error);
MUST_CHECK enum status quantize_member_other(struct quantize_member_state *state, const struct chunk *chunk,
                                             struct head_other *out, struct error *error);
MUST_CHECK enum status quantize_member_summarise(struct quantize_member_state *state, const double *losses_fp,
                                                 struct error *error);

/* Keeps its streams in a file (request->keep). */
MUST_CHECK enum status quantize_member_keep(struct quantize_member_state *state, struct error *error);

/* Everything but `result`. */
void quantize_member_reset(struct quantize_member_state *state);

/* Of the checkpoint's content, the backend, the evaluation's tokens and (calibrated) the calibration's. */
uint64_t quantize_member_fingerprint(const struct quantize_member_state *state, bool calibrated);

#endif
