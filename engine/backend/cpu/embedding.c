/* embedding.c: rows of a table by token id. The sum into the table is cut by columns: each task goes through all tokens
 * in order, so equal ids add up in the same order with any number of threads. */
#include "backend/cpu/cpu.h"

#include <string.h>

enum { STRIP = 64 }; /* columns a task */

struct lookup {
    const struct kernels *kernels;
    struct matrix rows, table;
    const uint32_t *ids;
};

static void gather_rows(void *context, int64_t first, int64_t end)
{
    const struct lookup *lookup = context;
    for (int64_t t = first; t < end; t++)
        memcpy(float_row(lookup->rows, t), float_row(lookup->table, lookup->ids[t]),
               (size_t)lookup->rows.columns * sizeof(float));
}

void cpu_gather(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids)
{
    struct lookup lookup = {.rows = to, .table = table, .ids = ids};
    cpu_for_rows(backend->team, to.rows, to.columns, gather_rows, &lookup);
}

static void scatter_strip(void *context, int64_t strip, int thread)
{
    (void)thread;
    const struct lookup *lookup = context;
    const int64_t first = strip * STRIP, count = smaller(STRIP, lookup->rows.columns - first);
    for (int64_t t = 0; t < lookup->rows.rows; t++)
        lookup->kernels->add(float_row(lookup->table, lookup->ids[t]) + first, float_row(lookup->rows, t) + first,
                             count, 1, 1);
}

void cpu_scatter_add(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids)
{
    struct lookup lookup = {cpu_of(backend)->kernels, from, table, ids};
    struct team *team = from.rows * from.columns < CPU_TASK_ELEMENTS ? NULL : backend->team;
    team_run(team, ceil_divide(from.columns, STRIP), scatter_strip, &lookup);
}
