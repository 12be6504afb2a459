/* vector.h: vectors as long as a model has parameters, and random draws of them. A vector is a dense matrix of
 * VECTOR_COLUMNS columns whose elements, row after row, are those of the flat buffer (model/parameters.h); elements
 * beyond the last one are zero. */
#ifndef CURVATURE_VECTOR_H
#define CURVATURE_VECTOR_H

#include "backend/backend.h"

enum { VECTOR_COLUMNS = 4096 }; /* rows are what backends share among threads */

/* Elements [first, first + count). */
struct vector_span {
    int64_t first, count;
};

/* A space of vectors. Elements outside the spans are zero in every vector of the space. All is lent. */
struct vector_space {
    struct backend *backend;
    int64_t elements; /* of the flat buffer */
    int64_t numbers;  /* elements in the spans: the dimension of the space */
    int64_t span_count;
    const struct vector_span *spans; /* ascending, disjoint */
};

/* Zeroed. The caller owns *out (matrix_release). STATUS_NO_MEMORY. */
MUST_CHECK enum status vector_new(const struct vector_space *space, const char *what, struct matrix *out,
                                  struct error *error);
int64_t vector_bytes(const struct vector_space *space);

/* Overwrite the vector with random numbers: +1 or -1; standard normal. An element depends only on (seed, stream, its
 * index in the buffer). */
void vector_rademacher(const struct vector_space *space, uint64_t seed, uint64_t stream, struct matrix vector);
void vector_normal(const struct vector_space *space, uint64_t seed, uint64_t stream, struct matrix vector);
/* The `number`-th basis vector, number in [0, numbers). */
void vector_basis(const struct vector_space *space, int64_t number, struct matrix vector);

/* Sets elements outside the spans to zero. */
void vector_restrict(const struct vector_space *space, struct matrix vector);

/* Divides by the norm and returns it; a vector whose norm is 0 or not finite is not changed. */
double vector_normalise(const struct vector_space *space, struct matrix vector);

/* Part of the same memory as a row: elements [first, first + count). */
struct matrix vector_part(struct matrix vector, int64_t first, int64_t count);

#endif
