/* tasks_score.h: from log-likelihoods to what is said of models: accuracies as lm-evaluation-harness counts them, and
 * the paired statistics of a quantized model beside its original on the same items. */
#ifndef TASKS_TASKS_SCORE_H
#define TASKS_TASKS_SCORE_H

#include "tasks/prompt.h"

#include <stdbool.h>
#include <stdint.h>

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
    double low, high;    /* 95 % interval: Wilson's of an accuracy, paired_change of a difference */
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
    struct tasks_measure plain;
    struct tasks_measure normalised;
    bool harness_normalises; /* the harness has an accuracy by character too: only then it counts for the mean */
};

/* Scores `count` outcomes, at least one, of `models` models. */
void tasks_score_make(const struct tasks_outcome *outcomes, int64_t count, int models, bool normalised,
                      struct tasks_score *out);

/* The mean over tasks, each weighing the same (of accuracies by character over those for which the harness has one).
 * Its interval is made of those of the tasks, which are independent (Zou and Donner, Statistics in Medicine 27, 2008):
 * an end lies as far out as the root of the sum of the squares of how far theirs lie out, over the number of tasks;
 * that of one task is its own. Flips are summed. */
void tasks_score_mean(const struct tasks_score *scores, int64_t tasks, int models, struct tasks_score *out);

#endif
