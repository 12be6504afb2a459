/* integrity.h: compares the readings of a trajectory's checkpoints: finds checkpoints with the same weights,
 * checkpoints that contain files or matrices of another one, jumps of the weights, and missing steps. It computes on a
 * few numbers per checkpoint, so a thousand checkpoints take milliseconds. */
#ifndef HEALTH_INTEGRITY_H
#define HEALTH_INTEGRITY_H

#include "base/error.h"

#include <stdint.h>

struct integrity_file {
    uint64_t key;    /* equal for tensors with equal names and numbers, and practically for no others */
    double relative; /* |theta - theta'| / |theta'| over its tensors, to the checkpoint compared with; NaN: unknown */
};

/* One checkpoint, in the order of training. Everything is lent. */
struct integrity_point {
    bool measured; /* it has a reading; otherwise the fields below `step` are undefined */
    int64_t step;  /* -1: unknown; valid also without a reading */
    uint64_t content;
    int64_t file_count;
    const struct integrity_file *files; /* in the order of the files' names */
    int64_t matrix_count;
    const uint64_t *matrices; /* keys of the tensors of rank 2 and more, in ascending order of names */
    const int32_t *homes;     /* [matrix_count]: index of each one's file */
    int64_t not_finite;       /* numbers that are NaN or infinite */
    int64_t previous;         /* index of the checkpoint it was compared with; -1: none */
    double relative;          /* distance to that checkpoint; NaN: unknown */
};

enum integrity_flag {
    INTEGRITY_IDENTICAL = 1,  /* another checkpoint holds the same weights */
    INTEGRITY_MIXED = 2,      /* some of its files or matrices equal another checkpoint's, others do not */
    INTEGRITY_JUMP = 4,       /* farther from its neighbours than they are from theirs */
    INTEGRITY_NOT_FINITE = 8, /* holds NaN or infinity */
};

/* A checkpoint that shares part of its weights with another. If exactly one of the two jumps, only that one is the
 * `point` of a share; otherwise each is the `point` of one. */
struct integrity_share {
    int64_t point, with;
    int32_t file; /* index of a file of `point` that is also complete in `with`; -1: single matrices of several files */
    int64_t matrices; /* number of shared matrices */
    int64_t example;  /* index of one of them in point's matrices */
};

struct integrity_jump {
    int64_t point;
    int32_t file;    /* -1: the checkpoint as a whole */
    double relative; /* measured distance */
    double expected; /* largest distance to expect, from its neighbours and the steps between */
    double score;    /* robust standard deviations above that */
};

struct integrity_gap {
    int64_t after, before; /* indexes */
    int64_t missing;       /* number of checkpoints missing at the spacing of the neighbours */
};

struct integrity {
    int64_t count;
    unsigned *flags; /* [count], of enum integrity_flag */
    int64_t *groups; /* [count]: index of the first checkpoint with the same weights when there are several, else -1 */
    /* number of matrices that are equal in every measured checkpoint, unless these are all identical */
    int64_t constant;
    int64_t share_count, jump_count, gap_count;
    struct integrity_share *shares; /* by point */
    struct integrity_jump *jumps;   /* by point */
    struct integrity_gap *gaps;
};

/* Definitions:
 * - A file or matrix that is the same in all measured checkpoints is constant (frozen, or a table) and not a share. For
 *   each checkpoint, the first other one that shares most is reported.
 * - A jump: x = ln(relative) - p ln(steps between), compared with the median of up to 8 such numbers on each side (4 at
 *   least in all): more than 5 times their scaled median absolute deviation, and more than twice what is expected, for
 *   p = 1/2 (weights walk at random) and for p = 1 (they go straight). Distances of zero do not count. Of two jumps in
 *   a row only the first checkpoint is reported: one jump leads to it, the other away from it. Files are treated
 *   likewise.
 * - A gap: a spacing of at least 1.75 times the medians of up to 4 spacings on both sides.
 * STATUS_NO_MEMORY. The caller resets *out. */
MUST_CHECK enum status integrity_find(const struct integrity_point *points, int64_t count, struct integrity *out,
                                      struct error *error);
void integrity_reset(struct integrity *integrity); /* {0} is fine */

#endif
