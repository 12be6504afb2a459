/* tally.h: numbers that a long run computes one row after another, kept in its work directory, so that the attempt that
 * follows a killed one goes on where that one stood. */
#ifndef JOBS_TALLY_H
#define JOBS_TALLY_H

#include "base/error.h"
#include "base/plan.h"

#include <limits.h>
#include <stdint.h>

struct tally {
    int64_t rows, width, done; /* done: rows that are there */
    int64_t saved;             /* of them, those in the file */
    double *values;            /* [rows, width], NaN where not there; owned */
    char path[PATH_MAX];       /* "": kept nowhere */
    uint64_t fingerprint;
    double saved_at; /* seconds */
};

/* Takes up what `directory`/`name` holds if it was left by the same work: same `fingerprint` (of everything that
 * decides the numbers), size and engine revision. Anything else there is ignored. `directory` NULL: nothing is kept.
 * The caller resets *out. STATUS_NO_MEMORY, STATUS_IO. */
MUST_CHECK enum status tally_open(const char *directory, const char *name, uint64_t fingerprint, int64_t rows,
                                  int64_t width, struct tally *out, struct error *error);
/* Onto a plan: what an open tally takes of memory, and of the disk if it is saved up to `saves` times (0: kept
 * nowhere). */
void tally_plan(int64_t rows, int64_t width, int64_t saves, struct run_plan *plan);
void tally_reset(struct tally *tally); /* {0} is fine */

/* Adds row `done`, and writes all rows if the last time is a second ago. STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status tally_add(struct tally *tally, const double *row, struct error *error);
/* Writes all rows now: the last of them took long. */
MUST_CHECK enum status tally_save(struct tally *tally, struct error *error);

#endif
