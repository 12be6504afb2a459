#include "jobs/attribution/attribution_allocation.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { CELLS = 65536 }; /* of storage that the dynamic programming tells apart */
#define BEYOND 1e30     /* for harms that are not finite: worse than any sum of others */

static double harm_of(const struct attribution_choice *choice)
{
    return isfinite(choice->harm) ? choice->harm : BEYOND;
}

/* A step and how much it lowers the harm for each bit. */
struct rated {
    struct attribution_step step;
    double rate;
};

/* Best rate first. Steps of equal rates keep the order of units, and within a unit that of widths. */
static int rated_compare(const void *left, const void *right)
{
    const struct rated *a = left, *b = right;
    if (a->rate != b->rate) return a->rate > b->rate ? -1 : 1;
    if (a->step.unit != b->step.unit) return a->step.unit < b->step.unit ? -1 : 1;
    return a->step.width < b->step.width ? -1 : a->step.width > b->step.width;
}

/* The lower convex hull of a unit's choices. It starts at the least width and goes on to the width of the best rate (to
 * the widest of equal ones), so that rates fall. */
static void hull(const struct attribution_choice *choices, int64_t unit, int64_t widths, struct rated *out,
                 int64_t *count)
{
    for (int64_t at = 0; at < widths;) {
        int64_t next = -1;
        double best = 0;
        for (int64_t i = at + 1; i < widths; i++) {
            const double rate =
                (harm_of(&choices[at]) - harm_of(&choices[i])) / (double)(choices[i].bits - choices[at].bits);
            if (rate <= 0 || rate < best) continue;
            best = rate;
            next = i;
        }
        if (next < 0) return;
        out[(*count)++] = (struct rated){{unit, next}, best};
        at = next;
    }
}

enum status attribution_allocation_frontier(const struct attribution_choice *choices, int64_t units, int64_t widths,
                                            struct attribution_step *steps, int64_t *count, struct error *error)
{
    struct rated *rated = NULL;
    *count = 0;
    const enum status status = memory_new(units * widths, sizeof *rated, "a frontier", &rated, error);
    if (status != STATUS_OK) return status;
    for (int64_t unit = 0; unit < units; unit++) hull(choices + unit * widths, unit, widths, rated, count);
    qsort(rated, (size_t)*count, sizeof *rated, rated_compare);
    for (int64_t i = 0; i < *count; i++) steps[i] = rated[i].step;
    memory_free(rated);
    return STATUS_OK;
}

static int64_t divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct table {
    int64_t cells, grain; /* cells: of `grain` bits each, above the least widths */
    double *best, *next;  /* [cells + 1] least harm of the units so far in at most so many cells */
    uint8_t *picked;      /* [units, cells + 1] */
};

static int64_t cells_of(const struct table *table, const struct attribution_choice *choices, int64_t width)
{
    return (choices[width].bits - choices[0].bits + table->grain - 1) / table->grain;
}

static void table_add(struct table *table, const struct attribution_choice *choices, int64_t widths, uint8_t *picked)
{
    for (int64_t cell = 0; cell <= table->cells; cell++) {
        table->next[cell] = table->best[cell] + harm_of(&choices[0]);
        picked[cell] = 0;
        for (int64_t width = 1; width < widths; width++) {
            const int64_t taken = cells_of(table, choices, width);
            if (taken > cell) break;
            const double harm = table->best[cell - taken] + harm_of(&choices[width]);
            if (harm >= table->next[cell]) continue;
            table->next[cell] = harm;
            picked[cell] = (uint8_t)width;
        }
    }
    double *filled = table->next;
    table->next = table->best;
    table->best = filled;
}

static enum status table_new(const struct attribution_choice *choices, int64_t units, int64_t widths, int64_t budget,
                             struct table *table, struct error *error)
{
    int64_t common = 0, most = 0;
    enum status status;
    for (int64_t unit = 0; unit < units; unit++) {
        const struct attribution_choice *own = choices + unit * widths;
        for (int64_t width = 1; width < widths; width++) common = divisor(common, own[width].bits - own[0].bits);
        most += own[widths - 1].bits - own[0].bits;
    }
    if (budget > most) budget = most;
    *table = (struct table){.grain = common > 0 ? common : 1};
    if (budget / table->grain >= CELLS) table->grain = budget / (CELLS - 1) + 1;
    table->cells = budget / table->grain;
    if ((status = memory_new(table->cells + 1, sizeof *table->best, "an allocation", &table->best, error)) !=
            STATUS_OK ||
        (status = memory_new(table->cells + 1, sizeof *table->next, "an allocation", &table->next, error)) != STATUS_OK)
        return status;
    return memory_new(units * (table->cells + 1), 1, "an allocation", &table->picked, error);
}

enum status attribution_allocation_find(const struct attribution_choice *choices, int64_t units, int64_t widths,
                                        int64_t budget, int64_t *picked, int64_t *least, struct error *error)
{
    struct table table = {0};
    enum status status;
    *least = 0;
    for (int64_t unit = 0; unit < units; unit++) *least += choices[unit * widths].bits;
    if (*least > budget)
        return error_set(error, STATUS_NOT_FOUND,
                         "the least widths take %" PRId64 " bits of storage, the budget is %" PRId64, *least, budget);
    if ((status = table_new(choices, units, widths, budget - *least, &table, error)) != STATUS_OK) goto done;
    for (int64_t unit = 0; unit < units; unit++)
        table_add(&table, choices + unit * widths, widths, table.picked + unit * (table.cells + 1));
    for (int64_t unit = units - 1, cell = table.cells; unit >= 0; unit--) {
        picked[unit] = table.picked[unit * (table.cells + 1) + cell];
        cell -= cells_of(&table, choices + unit * widths, picked[unit]);
    }
done:
    memory_free(table.best);
    memory_free(table.next);
    memory_free(table.picked);
    return status;
}
