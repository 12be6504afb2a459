#include "curvature/vector.h"

#include "base/random.h"

#include <math.h>

enum { CHUNK = 1024 }; /* numbers drawn at a time */

static int64_t rows_of(const struct vector_space *space)
{
    return (space->elements + VECTOR_COLUMNS - 1) / VECTOR_COLUMNS;
}

enum status vector_new(const struct vector_space *space, const char *what, struct matrix *out, struct error *error)
{
    void *data = NULL;
    const enum status status =
        space->backend->ops->allocate(space->backend, rows_of(space) * VECTOR_COLUMNS, what, &data, error);
    *out = status != STATUS_OK ? (struct matrix){0}
                               : matrix_of(data, rows_of(space), VECTOR_COLUMNS, space->backend->ops->element);
    return status;
}

int64_t vector_bytes(const struct vector_space *space)
{
    return rows_of(space) * VECTOR_COLUMNS * (int64_t)space->backend->ops->element;
}

struct matrix vector_part(struct matrix vector, int64_t first, int64_t count)
{
    return matrix_of((char *)vector.data + (size_t)first * vector.element, 1, count, vector.element);
}

struct draw {
    uint64_t seed, stream;
    double (*element)(const struct draw *draw, uint64_t place);
};

static double rademacher(const struct draw *draw, uint64_t place)
{
    return (random_bits(draw->seed, draw->stream, place / 64) >> (place % 64) & 1) != 0 ? 1 : -1;
}

static double normal(const struct draw *draw, uint64_t place)
{
    return random_normal(draw->seed, draw->stream, place);
}

static void fill(const struct vector_space *space, const struct draw *draw, struct matrix vector)
{
    struct backend *backend = space->backend;
    double chunk[CHUNK];
    backend->ops->fill(backend, vector, 0);
    for (int64_t s = 0; s < space->span_count; s++) {
        const struct vector_span span = space->spans[s];
        for (int64_t done = 0, count; done < span.count; done += count) {
            count = span.count - done < CHUNK ? span.count - done : CHUNK;
            for (int64_t i = 0; i < count; i++) chunk[i] = draw->element(draw, (uint64_t)(span.first + done + i));
            backend->ops->upload(backend, vector_part(vector, span.first + done, count), chunk, DTYPE_F64);
        }
    }
}

void vector_rademacher(const struct vector_space *space, uint64_t seed, uint64_t stream, struct matrix vector)
{
    fill(space, &(struct draw){seed, stream, rademacher}, vector);
}

void vector_normal(const struct vector_space *space, uint64_t seed, uint64_t stream, struct matrix vector)
{
    fill(space, &(struct draw){seed, stream, normal}, vector);
}

void vector_basis(const struct vector_space *space, int64_t number, struct matrix vector)
{
    struct backend *backend = space->backend;
    backend->ops->fill(backend, vector, 0);
    for (int64_t s = 0; s < space->span_count; s++) {
        if (number < space->spans[s].count) {
            backend->ops->fill(backend, vector_part(vector, space->spans[s].first + number, 1), 1);
            return;
        }
        number -= space->spans[s].count;
    }
}

void vector_restrict(const struct vector_space *space, struct matrix vector)
{
    int64_t from = 0;
    for (int64_t s = 0; s <= space->span_count; s++) {
        const int64_t to = s < space->span_count ? space->spans[s].first : space->elements;
        if (to > from) space->backend->ops->fill(space->backend, vector_part(vector, from, to - from), 0);
        if (s < space->span_count) from = space->spans[s].first + space->spans[s].count;
    }
}

double vector_normalise(const struct vector_space *space, struct matrix vector)
{
    struct backend *backend = space->backend;
    const double norm = sqrt(backend->ops->dot(backend, vector, vector));
    if (norm > 0 && isfinite(norm)) backend->ops->add(backend, vector, vector, 0, 1 / norm);
    return norm;
}
