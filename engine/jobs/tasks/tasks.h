/* tasks.h: multiple-choice tasks for a checkpoint and, in the same run, for a quantization of it. Items go through the
 * models in groups; memory and the work between two saves limit their size. Within a group everything that texts share
 * is computed once (eval/likelihood.h). After each group its outcomes are saved, so that a killed run goes on with the
 * next one. */
#ifndef TASKS_TASKS_H
#define TASKS_TASKS_H

#include "base/monitor.h"
#include "dataset/dataset.h"
#include "jobs/saved_table.h"
#include "jobs/tasks/tasks_score.h"
#include "model/model.h"
#include "quant/quantizer.h"
#include "tasks/task_set.h"

struct tasks_request {
    const struct model *model;
    struct backend *backend;
    const struct tokenizer *tokenizer;
    const struct task_set *const *sets; /* lent until the result is reset */
    int64_t set_count;
    bool special_tokens;                  /* as the tokenizer adds them by itself */
    const struct quantize_method *method; /* complete; NULL: full precision alone */
    const struct sequences *calibration;  /* or NULL */
    const char *work_directory;    /* existing, kept between attempts; NULL only without a method: nothing is saved */
    uint64_t fingerprint;          /* of the checkpoint, the tasks and all that decides the numbers */
    int64_t group_tokens;          /* rows of a group; 0: by the model's size */
    const struct monitor *monitor; /* progress by "item" */
};

struct tasks_result {
    int models;
    int64_t item_count, set_count;
    struct tasks_outcome *outcomes; /* [item_count] set by set; owned */
    struct tasks_score *scores;     /* [set_count]; owned */
    struct tasks_score mean;        /* over the sets */
    int64_t tokens_alone;           /* tokens that feeding every choice by itself would take, for one model */
    int64_t tokens_computed;        /* tokens that were fed */
    int64_t cut;                    /* choices whose beginning did not fit the model's positions */
    double bits_per_weight;
    double flops;             /* that this attempt computed, by its plans */
    struct saved_table table; /* holds the log-likelihoods */
};
void tasks_result_reset(struct tasks_result *result); /* {0} is fine */

/* The plan of a run from its first item on; like the run, it encodes every prompt. Statuses as below. */
MUST_CHECK enum status tasks_plan(const struct tasks_request *request, const struct plan_budget *budget,
                                  struct run_plan *out, struct error *error);

/* STATUS_TOO_LARGE when a group of items does not fit the available memory (backend_budget); STATUS_INVALID (a choice
 * longer than the model's positions, another model's tokenizer; names the task and the item), statuses of
 * quantized_copy_open, likelihood_run and saved_table_open. */
MUST_CHECK enum status tasks_run(const struct tasks_request *request, struct tasks_result *out, struct error *error);

#endif
