#include "curvature/basis.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>

enum { CHUNK_ROWS = 16 }; /* rows of each vector that are rotated at a time: 64 Ki elements */

enum status basis_init(struct basis *basis, const struct vector_space *space, int64_t capacity, struct error *error)
{
    *basis = (struct basis){.space = space, .capacity = capacity};
    return memory_new(capacity, sizeof *basis->vectors, "basis vectors", &basis->vectors, error);
}

void basis_reset(struct basis *basis)
{
    for (int64_t i = 0; basis->vectors != NULL && i < basis->capacity; i++)
        matrix_release(basis->space->backend, &basis->vectors[i]);
    memory_free(basis->vectors);
    *basis = (struct basis){0};
}

enum status basis_append(struct basis *basis, struct error *error)
{
    struct matrix *vector = &basis->vectors[basis->count];
    enum status status = STATUS_OK;
    assert(basis->count < basis->capacity);
    if (vector->data == NULL) status = vector_new(basis->space, "basis vectors", vector, error);
    if (status == STATUS_OK) basis->count++;
    return status;
}

double basis_orthogonalise(const struct basis *basis, int64_t count, struct matrix vector, double *coefficients)
{
    struct backend *backend = basis->space->backend;
    for (int64_t i = 0; coefficients != NULL && i < count; i++) coefficients[i] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < count; i++) {
            const double part = backend->ops->dot(backend, basis->vectors[i], vector);
            backend->ops->add(backend, vector, basis->vectors[i], -part, 1);
            if (coefficients != NULL) coefficients[i] += part;
        }
    return sqrt(backend->ops->dot(backend, vector, vector));
}

void basis_combine(const struct basis *basis, int64_t count, const double *weights, struct matrix out)
{
    struct backend *backend = basis->space->backend;
    backend->ops->fill(backend, out, 0);
    for (int64_t i = 0; i < count; i++) backend->ops->add(backend, out, basis->vectors[i], weights[i], 1);
}

/* Rows [first, first + rows) of the first `from` vectors are gathered in `before`, and become those of the first
 * `to`. */
static void rotate_chunk(struct basis *basis, int64_t first, int64_t rows, struct matrix weights, struct matrix before,
                         struct matrix after)
{
    struct backend *backend = basis->space->backend;
    const struct gemm_args product = {.a = weights, .b = before, .c = after, .alpha = 1, .exact = true};
    for (int64_t i = 0; i < before.rows; i++) {
        const struct matrix row = matrix_rows(before, i, 1);
        backend->ops->add(backend, matrix_of(row.data, rows, VECTOR_COLUMNS, row.element),
                          matrix_rows(basis->vectors[i], first, rows), 1, 0);
    }
    backend->ops->gemm(backend, &product);
    for (int64_t i = 0; i < after.rows; i++) {
        const struct matrix row = matrix_rows(after, i, 1);
        backend->ops->add(backend, matrix_rows(basis->vectors[i], first, rows),
                          matrix_of(row.data, rows, VECTOR_COLUMNS, row.element), 1, 0);
    }
}

enum status basis_rotate(struct basis *basis, int64_t from, int64_t to, const double *weights, struct error *error)
{
    struct backend *backend = basis->space->backend;
    const int64_t all = basis->vectors[0].rows, most = all < CHUNK_ROWS ? all : CHUNK_ROWS;
    void *memory = NULL;
    const enum status status =
        backend->ops->allocate(backend, from * to + (from + to) * most * VECTOR_COLUMNS, "a rotation", &memory, error);
    if (status != STATUS_OK) return status;
    const struct matrix coefficients = matrix_of(memory, to, from, backend->ops->element);
    char *at = (char *)memory + (size_t)(from * to) * backend->ops->element;
    backend->ops->upload(backend, coefficients, weights, DTYPE_F64);
    for (int64_t first = 0, rows; first < all; first += rows) {
        rows = all - first < most ? all - first : most;
        const int64_t columns = rows * VECTOR_COLUMNS;
        rotate_chunk(
            basis, first, rows, coefficients, matrix_of(at, from, columns, backend->ops->element),
            matrix_of(at + (size_t)(from * columns) * backend->ops->element, to, columns, backend->ops->element));
    }
    backend->ops->release(backend, memory);
    return STATUS_OK;
}
