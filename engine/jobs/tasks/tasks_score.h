/* tasks_score.h: scores from log-likelihoods: accuracies as lm-evaluation-harness counts them, and the paired
 * statistics of a quantized model and its original on the same items. */
#ifndef TASKS_TASKS_SCORE_H
#define TASKS_TASKS_SCORE_H

#include "tasks/prompt.h"

#include <stdbool.h>
#include <stdint.h>

enum { TASKS_FULL, TASKS_QUANTIZED, TASKS_MODELS };

struct tasks_outcome {
    int64_t set, item;                   /* the task_set, and the item in it */
    const double *log_likelihoods;       /* [models][TASK_CHOICES], lent by the result */
    int choice[TASKS_MODELS];            /* the likeliest (first of equals); -1: none is a number */
    int choice_normalised[TASKS_MODELS]; /* likewise by log-likelihood per character */
    int gold;
};

/* Index of the likeliest choice; the first of equals. */
int tasks_score_choice(const double *log_likelihoods, const int64_t *characters, int choices);

struct tasks_accuracy {
    double value, error; /* standard error: sample deviation / sqrt(n); NaN for one item */
    double low, high;    /* 95 % interval: Wilson's of an accuracy, paired_change of a difference */
};

/* The scores of one way to choose (plain or normalised). */
struct tasks_measure {
    struct tasks_accuracy accuracy[TASKS_MODELS];
    /* quantized minus full precision, on the same items */
    struct tasks_accuracy difference;
    int64_t up, down; /* items that only the quantized model gets right, and only the original */
    double mcnemar;   /* paired_mcnemar of the two; NAN for a mean over tasks */
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

/* The mean over tasks with equal weights (for accuracies by character over those for which the harness has one). Its
 * interval comes from the intervals of the tasks, which are independent (Zou and Donner, Statistics in Medicine 27,
 * 2008): the distance of an end is the root of the sum of the tasks' squared distances, divided by the number of tasks;
 * for one task it is the task's own interval. Flips are summed. */
void tasks_score_mean(const struct tasks_score *scores, int64_t tasks, struct tasks_score *out);

#endif
