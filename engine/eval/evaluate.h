/* evaluate.h: the loss of a checkpoint on token sequences. Blocks are streamed: each is read once, every sequence
 * passes through it, and it is dropped. Memory: two blocks, the embedding, the hidden states of all tokens (some of
 * them spilled where they do not fit), one chunk's activations. */
#ifndef EVAL_EVALUATE_H
#define EVAL_EVALUATE_H

#include "base/monitor.h"
#include "dataset/dataset.h"
#include "model/chunks.h"
#include "model/model.h"

struct evaluate_result {
    double loss; /* mean over all predictions, nats */
    /* standard error of that mean over sequences, weighted by their predictions; NAN for one sequence */
    double loss_stderr;
    double loss_degrees; /* of freedom of that error (leverage.h); 0 for one sequence */
    int64_t sequences, tokens, predictions;
    double flops;                  /* of its plan; set by evaluate_asked and evaluate_run */
    double *sequence_losses;       /* [sequences] mean over each one's predictions; owned (evaluate_result_reset) */
    int64_t *sequence_predictions; /* [sequences]; owned */
    float *token_losses;           /* [predictions] in the order of the sequences; owned; NULL unless asked for */
};
void evaluate_result_reset(struct evaluate_result *result); /* {0} is fine */

struct evaluate_request {
    const struct model *model;
    struct backend *backend;
    const struct sequences *sequences;
    /* where hidden states may be spilled; NULL: nowhere (on a device: host memory) */
    const char *directory;
    const struct monitor *monitor; /* may be NULL */
    bool per_token;                /* the result has token_losses */
};

/* The plan of the run: the first plan that fits the budget among those that give its numbers, otherwise the smallest of
 * them (plan_fits). STATUS_INVALID as below, STATUS_NO_MEMORY. */
MUST_CHECK enum status evaluate_plan(const struct evaluate_request *request, const struct plan_budget *budget,
                                     struct run_plan *out, struct error *error);

/* Losses of `sequences` (at least one, each of two tokens or more). STATUS_INVALID when an id is not in the model's
 * vocabulary or a sequence is longer than its positions; STATUS_NOT_FINITE for weights; STATUS_CANCELLED,
 * STATUS_LEASE_LOST from the monitor; STATUS_IO, STATUS_INPUT_CHANGED, STATUS_NO_MEMORY. A loss that is not finite is
 * no error: the result contains it. */
MUST_CHECK enum status evaluate_run(const struct model *model, struct backend *backend,
                                    const struct sequences *sequences, const struct monitor *monitor,
                                    struct evaluate_result *out, struct error *error);

/* evaluate_run for a request. STATUS_TOO_LARGE when no plan fits the available memory (backend_budget), before any work
 * is done; STATUS_DISK_FULL. */
MUST_CHECK enum status evaluate_asked(const struct evaluate_request *request, struct evaluate_result *out,
                                      struct error *error);

/* Checks ids and lengths of sequences with the same statuses, for other code that runs sequences through a model. */
MUST_CHECK enum status evaluate_check(const struct model_config *config, const struct sequences *sequences,
                                      const char *what, struct error *error);

/* means[s] (lent, [chunks->sequences]): the mean of `values`, one per token of `chunks`, over the predictions of
 * sequence s. The last token of a sequence predicts nothing; its value is 0. */
void evaluate_sequence_means(const struct chunks *chunks, const double *values, double *means);

/* The values of the tokens that are predictions, in the order of the sequences, rounded to float32. The caller owns
 * *out (memory_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status evaluate_token_values(const struct chunks *chunks, const double *values, float **out,
                                             struct error *error);

/* Fills loss, loss_stderr, counts and the arrays from the losses of every token of `chunks`. */
MUST_CHECK enum status evaluate_summarise(const struct chunks *chunks, const double *token_losses,
                                          struct evaluate_result *out, struct error *error);

#endif
