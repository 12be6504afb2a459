/* tasks_list.h: the questions of a run of tasks to its models, in order: groups of items, the texts of each group, and
 * which models answer them together. Two drivers go through the list from its first group to its last: tasks.c asks the
 * models, tasks_plan.c adds up the resources. */
#ifndef TASKS_TASKS_LIST_H
#define TASKS_TASKS_LIST_H

#include "eval/likelihood.h"
#include "jobs/quantize/quantized_copy.h"
#include "jobs/tasks/tasks.h"
#include "tasks/encode.h"

/* A row of the saved table, one per item: TASK_CHOICES log-likelihoods of each model, then these. */
enum {
    TASKS_ROW_ALONE,    /* tokens that feeding each choice by itself would take */
    TASKS_ROW_COMPUTED, /* tokens that were fed; the first item of a group has those of the group */
    TASKS_ROW_CUT,      /* choices whose beginning did not fit the model's positions */
    TASKS_ROW_EXTRAS
};

struct tasks_item_index {
    int64_t set, item;
};

/* Models [first, end) answer a group's texts over one forest, or (apart) text by text. */
struct tasks_asking {
    bool apart;
    int first, end;
};

struct tasks_list {
    const struct tasks_request *request; /* lent */
    int models;
    int64_t item_count;
    struct tasks_item_index *indices;  /* [item_count] of every item, in order; owned */
    struct quantized_copy_plan copied; /* of the quantized model; zeros without a method */
    bool across_text;                  /* a token's values in the quantized model depend on its whole text */
    struct encode encode;
    /* The group that was collected last: items [first, first + count). Its arrays are owned. */
    int64_t first, count;
    struct token_list tokens;
    struct phrase context, continuation;
    int64_t text_capacity;
    struct likelihood_texts texts; /* its arrays are those here: */
    int64_t *starts, *targets;
    double *rows; /* [count, tasks_list_row_width], without answers */
    int64_t row_capacity;
};

/* Lists all items. The caller resets *out, also after a failure. Statuses of encode_init; STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_list_new(const struct tasks_request *request, struct tasks_list *out, struct error *error);
void tasks_list_reset(struct tasks_list *list); /* {0} is fine */

int tasks_list_row_width(const struct tasks_list *list);
const struct prompt *tasks_list_prompt(const struct tasks_list *list, const struct tasks_item_index *index); /* lent */

/* The request of the quantized copy; the list has a method. */
struct quantized_copy_request tasks_list_copy(const struct tasks_list *list);
/* Fills `copied` and `across_text`; without a method there is nothing to fill. Statuses of quantized_copy_plan. */
MUST_CHECK enum status tasks_list_plan_copy(struct tasks_list *list, const struct plan_budget *budget,
                                            struct error *error);

/* Collects the group that begins with item `first`, at least that one: list->count, texts and rows. Statuses of
 * task_set_context, encode_pair (with the task and the item named) and monitor_check; STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_list_group(struct tasks_list *list, int64_t first, struct error *error);

/* How the models are asked about a group: full precision and the quantized model over one forest, unless across_text.
 * Returns the number of askings. */
int tasks_list_askings(const struct tasks_list *list, struct tasks_asking out[TASKS_MODELS]);

#endif
