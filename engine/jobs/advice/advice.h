/* advice.h: what to do next with a training run whose learning rate is constant, for a model that will be quantized:
 * decay the rate over so many tokens, average the last checkpoints, or go on. In the API this is the kind `plan`; in
 * the code a plan is what a run needs (base/plan.h).
 *
 * Branches of the run's last checkpoint are really trained within a budget of tokens, quantized and measured. An option
 * that the budget can train is measured; of a longer one the losses are extrapolated from the branches
 * (eval/extrapolate.h): of a decay from ADVICE_DECAYS decays of lengths 1 : 2 : 4 : … : 32, over their length; of going
 * on from the run's last checkpoints and ADVICE_STOPS more on a branch of a constant rate, over all tokens seen. An
 * average is measured as it is.
 *
 * All options are measured on the same sequences from the same calibration, so intervals of forecasts hold what is not
 * known of the trend and how single training runs scatter around it, and not how sequences vary. Where options are
 * compared with each other, how their differences vary between sequences comes to it. */
#ifndef ADVICE_ADVICE_H
#define ADVICE_ADVICE_H

#include "eval/extrapolate.h"
#include "geometry/family.h"
#include "jobs/train/train.h"
#include "quant/quantizer.h"

enum {
    ADVICE_OPTIONS = 16, /* at most */
    ADVICE_DECAYS = 6,
    ADVICE_STOPS = 4,
    ADVICE_HISTORY = 8, /* checkpoints of the run itself that a trend of going on is fitted to, at most */
    ADVICE_REACH = 4    /* an option is at most so many times as long as the longest branch */
};

/* One of the three is above 0. */
struct advice_option {
    int64_t decay;     /* tokens over which the rate falls to its final value */
    int64_t average;   /* last checkpoints */
    int64_t continue_; /* tokens at the constant rate */
};

/* All lent for the call. */
struct advice_request {
    const struct train_params *train; /* of the run that wrote the last checkpoint */
    const struct dataset_source *dataset;
    const struct family *family; /* the run's last checkpoints by step; the last one is what branches continue */
    const int64_t *steps;        /* [family->count], of each */
    const char *from;            /* the last one's directory */
    const char *from_state;      /* path of its training.state, NULL: it lies in `from` */
    int64_t steady; /* so many of the last were written by this run after its warm-up: 1 to family->count */
    const struct advice_option *options;
    int64_t option_count;
    int64_t budget; /* tokens that all branches together may train; 0: none */
    int shape;      /* of decays, enum schedule_shape */
    double final;   /* rate at their end, as a share of the peak */
    struct backend *backend;
    const struct quantize_method *method;             /* complete */
    const struct sequences *evaluation, *calibration; /* calibration NULL: none */
    uint64_t seed;                                    /* of the bootstrap, which no forecast reads */
    const char *work_directory;                       /* the run's own, kept between its attempts */
    const struct monitor *monitor; /* progress by "token": through the model, trained ones count three times */
};

struct advice_losses {
    double fp, q, delta; /* nats; delta = q / fp - 1. NAN: not finite */
};

/* Something that was measured. */
struct advice_point {
    struct advice_option option; /* all 0: a checkpoint of the run as it is */
    int64_t member;              /* of the family: the checkpoint, or the last that is averaged; else -1 */
    int64_t tokens;              /* seen in all; of an average those of its last checkpoint */
    struct advice_losses losses;
};

struct advice_forecast {
    struct advice_option option;
    bool measured; /* not extrapolated: low and high are the value */
    int64_t tokens;
    struct extrapolation fp, q, delta;
    /* difference of q to the lowest option's q: 95 %, with its variation between sequences; NAN if either is unknown */
    struct extrapolation behind;
};

struct advice_result {
    struct advice_point *points; /* [point_count], the last checkpoint first; owned (advice_result_reset) */
    int64_t point_count;
    struct advice_forecast forecasts[ADVICE_OPTIONS];
    int64_t forecast_count;
    int64_t lowest;  /* option with the lowest q; -1: no q is known */
    int64_t next;    /* the option that is least surely above it; options of unknown q come first; -1: none */
    bool told_apart; /* every other option's q is above it, its interval included */
    int64_t trained; /* tokens, by the branches */
};
void advice_result_reset(struct advice_result *result); /* {0} is fine */

/* Refuses a request, with a pointer below "/params": a schedule whose rate is not constant up to the last checkpoint,
 * an optimizer that keeps its rate, an average of more checkpoints than exist, a missing or too small budget (the
 * detail says what would be enough). Of the request train, family->count by `members`, steps, steady, options and
 * budget are read. STATUS_INVALID. */
MUST_CHECK enum status advice_check(const struct advice_request *request, int64_t members, struct error *error);

/* The same request gives the same numbers, also in an attempt that follows a killed one. Statuses of advice_check,
 * train_run, average_write and quantize_run. */
MUST_CHECK enum status advice_run(const struct advice_request *request, struct advice_result *out, struct error *error);

/* The plan of advice_run if the training data are at most `token_count` tokens. */
MUST_CHECK enum status advice_plan(const struct advice_request *request, int64_t token_count,
                                   const struct plan_budget *budget, struct run_plan *out, struct error *error);

#endif
