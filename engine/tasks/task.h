/* task.h: the multiple-choice tasks as lm-evaluation-harness poses them (its task definitions, 0.4.9 to 0.4.13), a row
 * each. A row has the paths of the texts in a record of the dataset's own schema, and the harness's wording; prompt.c
 * reads records by it.
 *
 * A template is text in which {path} stands for the record's text at that path (record.h), and {path|filter} for that
 * text after a filter: strip, lstrip, capitalise, words (underscores as blanks), lines (an array's items joined by line
 * feeds), before and after (the text before and, stripped, after the first "_"). The delimiter and a choice's
 * continuation are scored after a context. */
#ifndef TASKS_TASK_H
#define TASKS_TASK_H

#include <stdbool.h>
#include <stddef.h>

enum { TASK_CHOICES = 12, TASK_DEFAULT_SHOTS = 5, TASK_SEED = 1234 };

enum task_gold {
    TASK_GOLD_LABEL,   /* the text at gold_path is the item of that number of the array at gold_labels */
    TASK_GOLD_INTEGER, /* the integer at gold_path less gold_base */
    TASK_GOLD_LETTER,  /* the letter at gold_path, in gold_labels */
    TASK_GOLD_CHOICE,  /* the text at gold_path is the choice itself */
    TASK_GOLD_ALWAYS   /* gold_base */
};

enum task_source {
    TASK_CHOICES_TEMPLATES, /* `choices` */
    TASK_CHOICES_ARRAY,     /* the items of the array at choices[0] */
    TASK_CHOICES_MATHQA     /* cut out of the one text at choices[0]: "a ) 38 , b ) 27.675 , ..." */
};

enum task_sampler {
    TASK_SAMPLER_RANDOM, /* sampler.h, seeded once for the task */
    TASK_SAMPLER_FIRST   /* the first records of the pool that have the same subject */
};

struct task {
    const char *name;        /* the harness's own */
    const char *description; /* template, once before everything, or NULL */
    /* One context for all choices, or one for each (then `choices` holds one continuation for all). */
    const char *contexts[2];
    enum task_source source;
    const char *choices[6];
    bool clean; /* contexts and choices pass phrase_clean_wikihow */
    enum task_gold gold;
    const char *gold_path, *gold_labels;
    int gold_base;
    const char *delimiter; /* between a context and the scored text */
    const char *subject;   /* path: records of one subject are a task of their own, NAME_SUBJECT; or NULL */
    enum task_sampler sampler;
    int spare;       /* examples drawn beyond those needed: those equal to the record under test are dropped */
    bool normalised; /* the harness also reports the accuracy normalised by length (acc_norm) */
};

/* NULL when there is no such task. */
const struct task *task_find(const char *name);

extern const struct task task_table[];
extern const size_t task_count;
extern const char *const task_names[]; /* in the same order; ends with NULL */

/* The group of a subject of mmlu ("stem", "other", "social_sciences", "humanities"), NULL for none. */
const char *task_subject_group(const char *subject);

#endif
