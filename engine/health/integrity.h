/* integrity.h: what the readings of a trajectory's checkpoints say when they are laid side by side: which hold the same
 * weights, which hold a file or matrices of another one, where the weights jump, where steps are missing. Pure
 * arithmetic on a few numbers a checkpoint: a thousand of them take milliseconds. */
#ifndef HEALTH_INTEGRITY_H
#define HEALTH_INTEGRITY_H

#include "base/error.h"

#include <stdint.h>

struct integrity_file {
    uint64_t key;    /* the same for the same tensors with the same numbers, and practically for no others */
    double relative; /* |theta - theta'| / |theta'| over its tensors, to the checkpoint compared with; NaN: not known */
};

/* One checkpoint, in the order of training. Everything is lent. */
struct integrity_point {
    bool measured; /* there is a reading; the fields below mean nothing else */
    int64_t step;  /* -1: not known; meant also without a reading */
    uint64_t content;
    int64_t file_count;
    const struct integrity_file *files; /* in the order of the files' names */
    int64_t matrix_count;
    const uint64_t *matrices; /* keys of the tensors of rank 2 and more, in ascending order of names */
    const int32_t *homes;     /* [matrix_count]: the file that each lies in */
    int64_t not_finite;       /* numbers that are NaN or infinite */
    int64_t previous;         /* index of the checkpoint it was compared with; -1: none */
    double relative;          /* to that one; NaN: not known */
};

enum integrity_flag {
    INTEGRITY_IDENTICAL = 1,  /* another checkpoint holds the same weights */
    INTEGRITY_MIXED = 2,      /* some of its files or matrices are another checkpoint's, others are not */
    INTEGRITY_JUMP = 4,       /* far from its neighbours, compared with how far those are from theirs */
    INTEGRITY_NOT_FINITE = 8, /* holds NaN or infinity */
};

/* A checkpoint that shares part of its weights with another. Where one of the two jumps, it alone is `point` of a
 * share; else each is of one. */
struct integrity_share {
    int64_t point, with;
    int32_t file; /* index of the file of `point` that is whole in the other; -1: single matrices of several files */
    int64_t matrices; /* how many of them */
    int64_t example;  /* place of one of them in point's matrices */
};

struct integrity_jump {
    int64_t point;
    int32_t file;    /* -1: the checkpoint as a whole */
    double relative; /* what was found */
    double expected; /* at most, from its neighbours and the steps between */
    double score;    /* robust standard deviations above it */
};

struct integrity_gap {
    int64_t after, before; /* indexes */
    int64_t missing;       /* checkpoints that the spacing around would have had here */
};

struct integrity {
    int64_t count;
    unsigned *flags; /* [count], of enum integrity_flag */
    int64_t *groups; /* [count]: index of the first checkpoint with the same weights when there are several, else -1 */
    /* matrices that are the same in every checkpoint with a reading, when these are not all identical */
    int64_t constant;
    int64_t share_count, jump_count, gap_count;
    struct integrity_share *shares; /* by point */
    struct integrity_jump *jumps;   /* by point */
    struct integrity_gap *gaps;
};

/* What counts as what:
 * - A file or matrix that is the same in all measured checkpoints is constant (frozen, or a table) and shared by
 *   nobody. Of each checkpoint the first other one that shares most is reported.
 * - A jump: x = ln(relative) - p ln(steps between), compared with the median of up to 8 such numbers on each side (4 at
 *   least in all): more than 5 times their scaled median absolute deviation, and more than twice what is expected, for
 *   p = 1/2 (weights walk at random) and for p = 1 (they go straight). Distances of zero do not count. Of two jumps in
 *   a row the first checkpoint is to blame: it lies between them. Files are looked at in the same way.
 * - A gap: a spacing of at least 1.75 times the medians of up to 4 spacings on both sides.
 * STATUS_NO_MEMORY. The caller resets *out. */
MUST_CHECK enum status integrity_find(const struct integrity_point *points, int64_t count, struct integrity *out,
                                      struct error *error);
void integrity_reset(struct integrity *integrity); /* {0} is fine */

#endif
