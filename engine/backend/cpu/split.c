/* split.c: cuts rows, or runs of elements, into tasks for the team. */
#include "backend/cpu/cpu.h"

struct rows_split {
    int64_t rows, step;
    void (*body)(void *context, int64_t first, int64_t end);
    void *context;
};

static void rows_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct rows_split *split = context;
    split->body(split->context, i * split->step, smaller((i + 1) * split->step, split->rows));
}

void cpu_for_rows(struct team *team, int64_t rows, int64_t columns,
                  void (*body)(void *context, int64_t first, int64_t end), void *context)
{
    const int64_t step = larger(1, CPU_TASK_ELEMENTS / larger(1, columns));
    struct rows_split split = {rows, step, body, context};
    team_run(team, ceil_divide(rows, step), rows_task, &split);
}

struct runs_split {
    int64_t rows, columns;
    int64_t step;   /* rows per task, or columns per task if a row has several chunks */
    int64_t chunks; /* tasks per row; 1: a task has whole rows */
    void (*body)(void *context, int64_t t, int64_t column, int64_t count);
    void *context;
};

static void runs_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct runs_split *split = context;
    if (split->chunks > 1) {
        const int64_t first = i % split->chunks * split->step;
        split->body(split->context, i / split->chunks, first, smaller(split->step, split->columns - first));
        return;
    }
    for (int64_t t = i * split->step; t < smaller((i + 1) * split->step, split->rows); t++)
        split->body(split->context, t, 0, split->columns);
}

void cpu_for_runs(struct team *team, int64_t rows, int64_t columns, bool dense,
                  void (*body)(void *context, int64_t t, int64_t column, int64_t count), void *context)
{
    if (rows == 0 || columns == 0) return;
    struct runs_split split = {
        .rows = dense ? 1 : rows, .columns = dense ? rows * columns : columns, .body = body, .context = context};
    split.chunks = ceil_divide(split.columns, CPU_TASK_ELEMENTS);
    split.step = split.chunks > 1 ? CPU_TASK_ELEMENTS : larger(1, CPU_TASK_ELEMENTS / split.columns);
    const int64_t tasks = split.chunks > 1 ? split.rows * split.chunks : ceil_divide(split.rows, split.step);
    team_run(team, tasks, runs_task, &split);
}
