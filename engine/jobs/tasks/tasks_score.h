/* tasks_score.h: from log-likelihoods to what is said of models: accuracies as lm-evaluation-harness counts them, and
 * the paired statistics of a quantized model beside its original on the same items. */
#ifndef TASKS_TASKS_SCORE_H
#define TASKS_TASKS_SCORE_H

#include "base/error.h"
#include "tasks/prompt.h"

enum { TASKS_FULL, TASKS_QUANTIZED, TASKS_MODELS };

struct tasks_outcome {
    int64_t set, item;                   /* of which task_set, and which of its items */
    const double *log_likelihoods;       /* [models][TASK_CHOICES], lent by the result */
    int choice[TASKS_MODELS];            /* the likeliest (first of equals); -1: none is a number */
    int choice_normalised[TASKS_MODELS]; /* the same by log-likelihood per character */
    int gold;
};

/* Of equals the first. */
int tasks_score_choice(const double *log_likelihoods, const int64_t *characters, int choices);

struct tasks_accuracy {
    double value, error; /* standard error: sample deviation / sqrt(n); NaN for one item */
    double low, high;    /* 95 % bootstrap interval; NaN where none was made */
};

/* Of one way to choose (plain or normalised). */
struct tasks_measure {
    struct tasks_accuracy accuracy[TASKS_MODELS];
    /* quantized less full precision, on the same items */
    struct tasks_accuracy difference;
    int64_t up, down; /* items that only the quantized model gets right, and only the original */
    double mcnemar;   /* paired_mcnemar of the two */
};

struct tasks_score {
    int64_t items;
    struct tasks_measure plain, normalised;
};

/* Scores `count` outcomes. `draws` (may be NULL: no intervals) gets what tasks_score_mean needs of them,
 * [TASKS_SCORE_DRAWS]; they are seeded by (seed, stream). STATUS_NO_MEMORY. */
enum { TASKS_SCORE_COLUMNS = 6 };
#define TASKS_SCORE_DRAWS (TASKS_SCORE_COLUMNS * BOOTSTRAP_DRAWS)
MUST_CHECK enum status tasks_score_make(const struct tasks_outcome *outcomes, int64_t count, int models, uint64_t seed,
                                        uint32_t stream, double *draws, struct tasks_score *out, struct error *error);

/* The mean over tasks, each weighing the same, with intervals from the draws of each ([tasks][TASKS_SCORE_DRAWS],
 * changed). Flips are summed. */
void tasks_score_mean(const struct tasks_score *scores, double *draws, int64_t tasks, int models,
                      struct tasks_score *out);

#endif
