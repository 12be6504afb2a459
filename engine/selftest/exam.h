/* exam.h: one run of a check on one backend. A check makes its inputs from a seed (values are floats, so that every
 * backend starts from the same numbers), calls slots, and records the outputs, each with a bound on the error of a
 * backend of floats: roundings times a norm, justified in the check. The same check then runs on the plain loops and on
 * a device, and the records are compared.
 *
 * All matrices lie in one arena of the backend's memory. Gaps between rows and the GUARD behind each matrix hold a
 * special number; if it changed, a kernel wrote outside the matrix. */
#ifndef SELFTEST_EXAM_H
#define SELFTEST_EXAM_H

#include "backend/backend.h"

enum {
    EXAM_ARENA = 1 << 19,  /* elements */
    EXAM_VALUES = 1 << 18, /* values of all outputs of a run */
    EXAM_OUTPUTS = 40,
    EXAM_TOKENS = 512,
    EXAM_SEQUENCES = 8
};
#define EXAM_ROUNDOFF 0x1p-24 /* of a float */

struct exam_output {
    const char *name;
    int64_t first, count; /* of its values */
    double bound;         /* absolute */
};

struct exam {
    struct backend *backend;
    void *arena; /* owned, like `staging` and `values` */
    float *staging;
    double *values;
    int64_t used, value_count;
    uint64_t stream;
    bool coarse; /* random numbers of scale 1 are multiples of 1/32, which bfloat16 has exactly */
    struct exam_output outputs[EXAM_OUTPUTS];
    int output_count;
    const char *outside; /* the first recorded matrix with a write outside; NULL: none */
    enum status status;  /* the first failure of this run: its records are then undefined */
    struct error error;
};

/* The backend is lent. The caller calls exam_reset, also on failure. STATUS_NO_MEMORY. */
MUST_CHECK enum status exam_init(struct exam *exam, struct backend *backend, struct error *error);
void exam_reset(struct exam *exam); /* {0} is fine */
void exam_begin(struct exam *exam); /* a new run: the arena is free, nothing is recorded */
void exam_fail(struct exam *exam, enum status status, const struct error *error); /* STATUS_OK does nothing */

/* Matrices whose rows lie `gap` elements apart: nearly normal numbers times `scale`, one number everywhere, given
 * floats (dense). */
struct matrix exam_random(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, double scale);
struct matrix exam_filled(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, double value);
struct matrix exam_given(struct exam *exam, int64_t rows, int64_t columns, const float *values);
/* An output matrix: NaN, which must be overwritten, or random numbers, to which results are added. */
struct matrix exam_target(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, bool accumulate);
/* Bytes; `from` NULL: zeros. */
void *exam_bytes(struct exam *exam, const void *from, int64_t bytes);

/* Records a matrix made by one of these; its bound is `growth` roundings of `norm` or of its largest element, whichever
 * is larger. */
void exam_record(struct exam *exam, const char *name, struct matrix m, double growth, double norm);
void exam_record_bytes(struct exam *exam, const char *name, const void *bytes, int64_t count); /* must be equal */
void exam_record_doubles(struct exam *exam, const char *name, const double *values, int64_t count, double bound);
void exam_record_number(struct exam *exam, const char *name, double value, double bound);

/* Waits for the backend; a late error fails the run. */
void exam_sync(struct exam *exam);

/* Describes a write outside of a matrix, or the first output of `found` that differs from that of `truth` by more than
 * truth's bound; false: there is none. *worst is raised to the largest error in units of its bound. */
bool exam_differs(const struct exam *truth, const struct exam *found, double *worst, char *text, size_t size);

/* Sequences of the given lengths (ends with 0), with ids and targets below `vocabulary`. */
struct exam_batch {
    struct batch batch;
    int64_t starts[EXAM_SEQUENCES + 1];
    uint32_t ids[EXAM_TOKENS], targets[EXAM_TOKENS];
    int32_t positions[EXAM_TOKENS];
};
void exam_batch_fill(struct exam_batch *batch, const int64_t *lengths, uint32_t vocabulary);

#endif
