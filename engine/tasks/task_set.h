/* task_set.h: a task over files of records: the prompts of each item and their examples, exactly as in
 * lm-evaluation-harness. Files are JSON lines in the dataset's own schema. Sub-tasks (mmlu's subjects) follow one
 * another in the order in which the file first names them. */
#ifndef TASKS_TASK_SET_H
#define TASKS_TASK_SET_H

#include "tasks/prompt.h"

#define TASK_SET_FILE_LIMIT (INT64_C(1) << 30)

struct task_set_item {
    struct prompt prompt;
    int64_t subject;       /* number of its subject; 0 without */
    int64_t doc;           /* index in its subject (task), as in the harness */
    uint32_t examples[64]; /* [shots] indices in the pool, in the order of the prompt */
};

struct task_set_subject {
    char name[64]; /* as the record has it; "" without subjects */
    int64_t items;
};

struct task_set {
    const struct task *task;
    int shots;
    int64_t item_count, pool_count, subject_count;
    struct task_set_item *items;       /* owned */
    struct prompt *pool;               /* owned; empty without shots */
    struct task_set_subject *subjects; /* owned */
};

struct task_set_source {
    const struct task *task;
    const char *path, *fewshot; /* fewshot may be NULL without shots */
    int shots;
    int64_t limit; /* number of items (of each subject); 0: all */
};

/* Reads the files. The caller owns *out (task_set_close). STATUS_INVALID (an unsuitable record, named by file and line;
 * too few examples; no records), STATUS_MALFORMED (no JSON), STATUS_UNSUPPORTED (a Parquet file), STATUS_NOT_FOUND,
 * STATUS_TOO_LARGE, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status task_set_open(const struct task_set_source *source, struct task_set **out, struct error *error);
void task_set_close(struct task_set *set); /* NULL is fine */

/* Appends to `out` the text before an item's continuation: description, solved examples, the context of `choice`. */
MUST_CHECK enum status task_set_context(const struct task_set *set, int64_t item, int choice, struct phrase *out,
                                        struct error *error);
/* Appends the continuation with its delimiter. */
MUST_CHECK enum status task_set_continuation(const struct task_set *set, int64_t item, int choice, struct phrase *out,
                                             struct error *error);

/* "arc_easy", "mmlu_anatomy" into `name`. */
void task_set_name(const struct task_set *set, int64_t subject, char *name, size_t size);

#endif
