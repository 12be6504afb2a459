/* task_items.h: the answer that a run of kind tasks chose for each item, and the items whose answer changes. A run
 * lists its items beside its result; they are committed in the transaction that ends the run. */
#ifndef STORE_TASK_ITEMS_H
#define STORE_TASK_ITEMS_H

#include "store/store.h"

struct task_items { /* start with {0} */
    struct store_id checkpoint;
    char label[128]; /* of the quantized model; "" when there was none */
    int shots;
    json_t *rows; /* owned */
};

struct task_item {
    const char *sha256;   /* of the file of records */
    const char *task;     /* "mmlu_anatomy" */
    int64_t doc;          /* the item's number in the task */
    const char *question; /* text that people see */
    size_t question_size;
    int gold, choice, choice_norm;
    bool quantized;
    int choice_q, choice_norm_q;
};

/* Copies *item. STATUS_NO_MEMORY (also for a question that is not UTF-8). */
MUST_CHECK enum status task_items_add(struct task_items *items, const struct task_item *item, struct error *error);
void task_items_reset(struct task_items *items);

/* Inserts all items for (run, epoch) inside the caller's transaction. */
MUST_CHECK enum status task_items_insert(struct connection *connection, const char *run, int64_t epoch,
                                         const struct task_items *items, struct error *error);

struct task_flips_query {
    const char *trajectory;                     /* reference */
    const char *task;                           /* NULL: all */
    const char *label, *protocol, *calibration; /* of the series; NULL: any */
    int64_t shots;                              /* negative: any */
    int64_t limit;
};

/* Whether any run had questions of the task, or of a subject of it. */
MUST_CHECK enum status task_items_known(struct connection *connection, const char *task, bool *known,
                                        struct error *error);

/* Whether anything was measured under the label; "" is full precision's. */
MUST_CHECK enum status task_items_label_known(struct connection *connection, const char *label, bool *known,
                                              struct error *error);

/* {"trajectory", "series": {"label", "dataset", "shots", "protocol_id", "calibration_id", "calibrated_on"}, "items":
 * [{"task", "doc", "question", "gold", "checkpoints", "changes", "up", "down", "course": [{"checkpoint", "name",
 * "step", "right", "right_q"}]}], "checkpoints": [{"checkpoint", "name", "step", "items", "right", "right_q", "up",
 * "down"}]}: the questions that quantization flips most over the trajectory's checkpoints, then those whose answer
 * changes most from one checkpoint to the next. All are of one series of the accuracy of `task`, or of the mean over
 * all tasks: that of the newest run that the query admits, one with a method before full precision; null when there is
 * none. Of each checkpoint the newest run of that series counts. STATUS_NOT_FOUND. */
MUST_CHECK enum status task_items_flips(struct connection *connection, const struct task_flips_query *query,
                                        json_t **document, struct error *error);

#endif
