/* train.h: training from scratch, or on from a checkpoint of an earlier run, with checkpoints along the way.
 *
 * All lengths are in tokens and are rounded up to whole steps of batch_sequences * sequence_length. A run with `from`
 * continues the step count, the optimizer's state and the order of data of that checkpoint; `tokens` and the schedule
 * count from the very first step, so the branch has the bits of one run with its schedule from the start
 * (docs/training.md, "A branch").
 *
 * A killed run goes on from the state in its work directory, and its result is bit-for-bit identical. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "base/monitor.h"
#include "base/param.h"
#include "dataset/dataset.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/state.h"

enum train_tokenizer { TRAIN_TOKENIZER_NONE, TRAIN_TOKENIZER_BYTES, TRAIN_TOKENIZER_FILE, TRAIN_TOKENIZER_LEARNED };
enum train_dtype { TRAIN_DTYPE_F32, TRAIN_DTYPE_BF16 };

struct train_ema {
    double decay; /* 0: no average */
};

/* Filled by train_params. Text is lent. */
struct train_params {
    const char *trajectory;
    const char *model; /* text of a config.json; NULL with `from` */
    const char *from;  /* NULL: fresh weights */
    const char *dataset;
    const char *validation; /* NULL: none */
    int64_t validation_sequences;
    struct {
        int name; /* enum train_tokenizer */
        const char *path;
        int64_t vocabulary_size;
    } tokenizer;
    int64_t tokens, batch_sequences, sequence_length;
    struct {
        int name; /* enum optimizer_id */
        struct optimizer_settings settings;
    } optimizer;
    struct train_ema ema;
    struct {
        int name; /* enum schedule_kind */
        double peak, final;
        int64_t warmup, decay, start, period; /* tokens */
        double growth;
        int shape;
    } schedule;
    int64_t checkpoint_every; /* tokens; 0: only the last */
    int dtype;                /* enum train_dtype */
    int precision;            /* of the backend that it is given: 0 f32, 1 bf16 */
    bool keep_state;
    int64_t seed;
};
extern const struct param train_params[];

/* Checks that the table cannot express; blames the field with a pointer below "/params". Needs no files.
 * STATUS_INVALID, STATUS_UNSUPPORTED. */
MUST_CHECK enum status train_check(const struct train_params *params, struct error *error);

/* Checks that a branch has steps to make after its checkpoint, and that its learning rate does not jump there. `step`
 * is the checkpoint's; `trunk` has the parameters of the run that made it: the branch must begin with the rate of the
 * trunk's last step or of the one that would follow. NULL if they are not known: the schedule must then be at its peak
 * from its warm-up to the checkpoint. STATUS_INVALID. */
MUST_CHECK enum status train_check_branch(const struct train_params *params, int64_t step,
                                          const struct train_params *trunk, struct error *error);

#define TRAIN_NO_STATE \
    "the checkpoint has no training state; only checkpoints that a train run wrote with keep_state can be continued"

/* Checks what the header of the training state says that a branch continues: its batches, its optimizer, the decay of
 * its average, and that it has not made all of the branch's steps. STATUS_INVALID. */
MUST_CHECK enum status train_check_state(const struct train_params *params, const struct state_about *state,
                                         struct error *error);

/* A checkpoint that is durable on disk. All lent for the call. */
struct train_written {
    const char *directory; /* in the request's directory */
    const char *name;      /* "step0001000"; of the average, which comes after it: "step0001000-ema" */
    struct state_checkpoint reached;
    const struct ema *ema; /* of an average: its decay; else NULL */
};

/* All lent for the call. */
struct train_request {
    const struct train_params *params;
    const char *from;       /* directory of the checkpoint to continue from, NULL: none */
    const char *from_state; /* path of its training.state, NULL: it lies in `from` */
    bool step_unknown;      /* that of `from` was not known when the request was checked: the state tells it */
    const char *tokenizer;  /* path of its tokenizer.json for TRAIN_TOKENIZER_FILE */
    const struct dataset_source *dataset, *validation; /* validation NULL: none */
    const char *directory;                             /* existing; checkpoints appear in it */
    const char *work_directory;                        /* existing, the run's own, kept between its attempts */
    int64_t memory_limit; /* bytes for parameters, gradients, moments, activations; 0: what the backend has for a run */
    double save_seconds;  /* the state to resume from is saved this often, besides at checkpoints; 0: 60 */
    struct backend *backend;
    const struct monitor *monitor;
    /* Called once, before any step and any `written`, with the sequences that validation losses are means over, lent
     * for the call; not without validation. Not OK ends the run with that status. May be NULL. */
    enum status (*validated_on)(void *owner, const struct sequences *sequences, struct error *error);
    /* Called for each checkpoint once it is durable, in order of steps; after a resumption those written before come
     * first, again. Not OK stops the run with that status. May be NULL. */
    enum status (*written)(void *owner, const struct train_written *written, struct error *error);
    void *owner;
};

struct train_result {
    struct state_checkpoint *checkpoints; /* [checkpoint_count], owned (train_result_reset) */
    int64_t checkpoint_count;
    struct state_point *curve; /* [curve_count], owned; which steps have one: train_curve.h. Also of a run that is cut
                                * short: up to its last step */
    int64_t curve_count;
    double final_loss;        /* of the last update's batch */
    double validation_loss;   /* at the last step; NAN without validation */
    double ema_loss;          /* of the average on the validation data at the last step; NAN without either */
    int64_t steps, tokens;    /* in all, those before a branch included */
    double tokens_per_second; /* of this attempt */
};
void train_result_reset(struct train_result *result); /* {0} is fine */

/* STATUS_NOT_FINITE (names step and learning rate; checkpoints so far stay), STATUS_INVALID (fields that do not fit
 * each other or the data), STATUS_TOO_LARGE (memory), STATUS_INPUT_CHANGED (the data or request is not what the saved
 * state began with), STATUS_CANCELLED and STATUS_LEASE_LOST from the monitor, statuses of dataset_load_tokens,
 * checkpoint_write and state_read. */
MUST_CHECK enum status train_run(const struct train_request *request, struct train_result *out, struct error *error);

/* Name of the checkpoint at `step`, or of the average there, into `out`. */
void train_checkpoint_name(int64_t step, bool averaged, char *out, size_t size);

#endif
