/* integrity_report.h: what was found of a trajectory's weights, a struct and its table. */
#ifndef KINDS_INTEGRITY_REPORT_H
#define KINDS_INTEGRITY_REPORT_H

#include "base/result.h"

#include <jansson.h>

enum { INTEGRITY_REPORT_FLAGS = 4 };
/* The name of flag i, whose bit is 1 << i in enum integrity_flag (health/integrity.h); ends with NULL. */
extern const char *const integrity_report_flags[];

/* Texts of all these structs are lent by the rows of store/health.h; NULL: none. */
struct integrity_reference {
    const char *checkpoint, *name;
    int64_t step;
    bool has_step;
};

struct integrity_report_point {
    struct integrity_reference reference;
    int64_t tokens, not_finite;
    int64_t flag_count;
    int flags[INTEGRITY_REPORT_FLAGS]; /* [flag_count], indexes into integrity_report_flags */
    const char *sha256, *identical_to, *previous;
    double relative, cosine; /* NAN: not known */
    bool has_tokens, measured;
};

struct integrity_report_group {
    const char *sha256;
    int64_t count;
    struct integrity_reference *members; /* [count], lent */
};

struct integrity_report_share {
    struct integrity_reference reference, with;
    const char *file, *example;
    int64_t matrices, of;
};

struct integrity_report_jump {
    struct integrity_reference reference;
    const char *file;
    double relative, expected, score;
};

struct integrity_report_gap {
    struct integrity_reference after, before;
    int64_t missing;
};

struct integrity_report {
    const char *trajectory; /* lent */
    int64_t checkpoints, measured, marked, constant_matrices;
    bool clean, clean_known;
    int64_t point_count, group_count, share_count, jump_count, gap_count;
    struct integrity_report_point *points; /* all of these are owned */
    struct integrity_report_group *groups;
    struct integrity_report_share *shares;
    struct integrity_report_jump *jumps;
    struct integrity_report_gap *gaps;
    struct integrity_reference *members; /* those of all groups */
    json_t *examples;                    /* names that shares lend */
    json_t *not_finite;                  /* as health_not_finite makes it */
};
extern const struct result_shape integrity_report_shape;

void integrity_report_reset(struct integrity_report *report); /* {0} is fine */

#endif
