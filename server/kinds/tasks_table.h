/* tasks_table.h: the result table of a tasks run, and the structs that it describes. */
#ifndef KINDS_TASKS_TABLE_H
#define KINDS_TASKS_TABLE_H

#include "base/result.h"
#include "jobs/tasks/tasks.h"

/* The scores of one way to choose an answer (plain or normalised). */
struct tasks_table_measure {
    struct tasks_measure found;
    bool quantized; /* a quantized model was scored as well */
};

struct tasks_table_score {
    char name[128];
    int64_t items;
    struct tasks_table_measure plain, normalised;
};

struct tasks_table_task {
    struct tasks_table_score score;
    const char *const *metrics; /* [metric_count] */
    int64_t metric_count, shots, group_count, subject_count;
    const char *sha256, *fewshot_sha256;         /* fewshot_sha256 is NULL without shots */
    struct tasks_table_score *groups, *subjects; /* owned; NULL: the task has none */
};

struct tasks_table {
    struct tasks_table_task *tasks; /* owned */
    struct tasks_table_score mean;
    int64_t task_count, item_count, tokens_computed, tokens_alone, truncated;
    const char *protocol;
    double bits_per_weight;
    bool quantized;
};

extern const struct result_shape tasks_table_shape;
/* The metrics of one task's score; the means over tasks are in tasks_table_shape. */
extern const struct result_shape tasks_table_score_shape;
/* Only tasks_table_score_shape, ends with NULL. */
extern const struct result_shape *const tasks_table_measured[];

#endif
