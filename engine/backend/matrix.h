/* matrix.h: a matrix in memory of a backend. */
#ifndef BACKEND_MATRIX_H
#define BACKEND_MATRIX_H

#include <stddef.h>
#include <stdint.h>

struct matrix {
    void *data; /* NULL: absent (such as a missing bias) */
    int64_t rows, columns;
    int64_t stride; /* elements from a row to the next, >= columns */
    size_t element; /* bytes of an element: 4 (float) or 8 (double) */
};

static inline struct matrix matrix_of(void *data, int64_t rows, int64_t columns, size_t element)
{
    return (struct matrix){data, rows, columns, columns, element};
}

/* Rows (columns) [first, first + count) of the same memory. */
static inline struct matrix matrix_rows(struct matrix m, int64_t first, int64_t count)
{
    m.data = (char *)m.data + (size_t)(first * m.stride) * m.element;
    m.rows = count;
    return m;
}

static inline struct matrix matrix_columns(struct matrix m, int64_t first, int64_t count)
{
    m.data = (char *)m.data + (size_t)first * m.element;
    m.columns = count;
    return m;
}

/* The diagonal of a square matrix, as a column. */
static inline struct matrix matrix_diagonal(struct matrix m)
{
    return (struct matrix){m.data, m.rows, 1, m.stride + 1, m.element};
}

#endif
