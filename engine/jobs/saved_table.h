/* saved_table.h: numbers that a long run computes row by row. They are saved in a file of its work directory, so that
 * the attempt after a killed one goes on with the next row. */
#ifndef JOBS_SAVED_TABLE_H
#define JOBS_SAVED_TABLE_H

#include "base/error.h"
#include "base/plan.h"

#include <limits.h>
#include <stdint.h>

struct saved_table {
    int64_t rows, width, done; /* done: rows that are computed */
    int64_t saved;             /* number of rows in the file */
    double *values;            /* [rows, width], NaN if not computed; owned */
    char path[PATH_MAX];       /* "": not saved */
    uint64_t fingerprint;
    double saved_at; /* seconds */
};

/* Reads the rows that `directory`/`name` holds if the same work left it: same `fingerprint` (of everything that decides
 * the numbers), size and engine revision. Any other file is ignored. `directory` NULL: nothing is kept. The caller
 * resets *out. STATUS_NO_MEMORY, STATUS_IO. */
MUST_CHECK enum status saved_table_open(const char *directory, const char *name, uint64_t fingerprint, int64_t rows,
                                        int64_t width, struct saved_table *out, struct error *error);
/* Adds to a plan the memory of an open table, and the disk that it takes when it is saved up to `saves` times (0: never
 * saved). */
void saved_table_plan(int64_t rows, int64_t width, int64_t saves, struct run_plan *plan);
void saved_table_reset(struct saved_table *table); /* {0} is fine */

/* Adds row `done` without writing it, for rows that were computed together: an attempt that finds only some of them
 * would compute the rest apart, which may give other bits. saved_table_save follows the last of them. */
void saved_table_put(struct saved_table *table, const double *row);
/* Adds a row that does not depend on those beside it, and writes all rows if the last write is a second ago.
 * STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status saved_table_add(struct saved_table *table, const double *row, struct error *error);
/* Writes all rows now, for rows that take long to compute. */
MUST_CHECK enum status saved_table_save(struct saved_table *table, struct error *error);

#endif
