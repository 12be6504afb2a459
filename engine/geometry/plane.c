#include "geometry/plane.h"

#include "base/memory.h"
#include "geometry/jacobi.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 8192 };   /* numbers of each member at a time */
#define LINE_SHARE 1e-12 /* below this share of the first direction's variance the second one is rounding */

/* One pass over the family. */
struct plane_pass {
    const struct family *family;
    struct team *team;
    const struct monitor *monitor;
    int64_t passes_before; /* for the progress */
    float *values;         /* [CHUNK] */
    double *chunk;         /* [count, CHUNK]: the members, centred */
    void (*visit)(struct plane_pass *pass, int64_t size);
    double *gram; /* [count, count] */
    /* direction_visit: */
    const double *axes;
    double extreme[2]; /* entry of largest magnitude of each direction */
};

static void centre(struct plane_pass *pass, int64_t size)
{
    const int64_t count = pass->family->count;
    for (int64_t i = 0; i < size; i++) {
        double mean = 0;
        for (int64_t k = 0; k < count; k++) mean += pass->chunk[k * CHUNK + i];
        mean /= (double)count;
        for (int64_t k = 0; k < count; k++) pass->chunk[k * CHUNK + i] -= mean;
    }
}

static enum status walk(struct plane_pass *pass, struct error *error)
{
    const struct family *family = pass->family;
    enum status status;
    for (int64_t t = 0; t < family->tensors; t++) {
        for (int64_t first = 0; first < family->elements[t]; first += CHUNK) {
            const int64_t size = family->elements[t] - first < CHUNK ? family->elements[t] - first : CHUNK;
            for (int64_t k = 0; k < family->count; k++) {
                if ((status = family_read(family, k, t, first, size, pass->values, error)) != STATUS_OK) return status;
                for (int64_t i = 0; i < size; i++) pass->chunk[k * CHUNK + i] = (double)pass->values[i];
            }
            centre(pass, size);
            pass->visit(pass, size);
            if ((status = monitor_check(pass->monitor, error)) != STATUS_OK) return status;
        }
        monitor_progress(pass->monitor, pass->passes_before * family->tensors + t + 1, 2 * family->tensors, "tensor");
    }
    return STATUS_OK;
}

struct products {
    struct plane_pass *pass;
    int64_t size;
};

/* Row i of the lower triangle. */
static void products_row(void *context, int64_t i, int thread)
{
    const struct products *products = context;
    struct plane_pass *pass = products->pass;
    const int64_t count = pass->family->count;
    const double *a = pass->chunk + i * CHUNK;
    (void)thread;
    for (int64_t j = 0; j <= i; j++) {
        const double *b = pass->chunk + j * CHUNK;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t e = 0; e < products->size; e++) sum += a[e] * b[e];
        pass->gram[i * count + j] += sum;
    }
}

static void gram_visit(struct plane_pass *pass, int64_t size)
{
    struct products products = {pass, size};
    team_run(pass->team, pass->family->count, products_row, &products);
}

static void direction_visit(struct plane_pass *pass, int64_t size)
{
    const int64_t count = pass->family->count;
    for (int axis = 0; axis < 2; axis++)
        for (int64_t i = 0; i < size; i++) {
            double entry = 0;
            for (int64_t k = 0; k < count; k++) entry += pass->axes[axis * count + k] * pass->chunk[k * CHUNK + i];
            if (fabs(entry) > fabs(pass->extreme[axis])) pass->extreme[axis] = entry;
        }
}

/* Computes coefficients and points from the Gram matrix (destroyed), without fixing signs. */
static enum status solve(double *gram, int64_t n, struct plane *out, struct error *error)
{
    double *values = NULL, *vectors = NULL, total = 0;
    enum status status;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) gram[j * n + i] = gram[i * n + j];
    if ((status = memory_new(n, sizeof *values, "eigenvalues", &values, error)) != STATUS_OK) goto done;
    if ((status = memory_new(n * n, sizeof *vectors, "eigenvectors", &vectors, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < n; i++) total += gram[i * n + i];
    if ((status = jacobi_solve(gram, n, values, vectors, error)) != STATUS_OK) goto done;
    if (!(values[0] > 0) || values[1] <= LINE_SHARE * values[0]) {
        status = error_set(error, STATUS_INVALID,
                           values[0] > 0 ? "the checkpoints lie on one line: a plane needs three that do not"
                                         : "the checkpoints are all the same: a plane needs three different ones");
        goto done;
    }
    for (int axis = 0; axis < 2; axis++) {
        const double length = sqrt(values[axis]);
        double mean = 0;
        for (int64_t k = 0; k < n; k++) mean += vectors[axis * n + k] / (double)n;
        for (int64_t k = 0; k < n; k++) {
            out->points[2 * k + axis] = length * vectors[axis * n + k];
            out->axes[axis * n + k] =
                (vectors[axis * n + k] - mean) / length; /* sums to 0, so the members need not be centred */
        }
        out->explained[axis] = values[axis] / total;
    }
done:
    memory_free(values);
    memory_free(vectors);
    return status;
}

static void turn(struct plane *plane, const double extreme[2])
{
    for (int axis = 0; axis < 2; axis++)
        for (int64_t k = 0; k < plane->count && extreme[axis] < 0; k++) {
            plane->axes[axis * plane->count + k] *= -1;
            plane->points[2 * k + axis] *= -1;
        }
}

enum status plane_find(const struct family *family, struct team *team, const struct monitor *monitor, struct plane *out,
                       struct error *error)
{
    const int64_t n = family->count;
    struct plane_pass pass = {.family = family, .team = team, .monitor = monitor, .visit = gram_visit};
    enum status status;
    *out = (struct plane){.count = n};
    if (n < 3)
        return error_set(error, STATUS_INVALID, "a plane needs three checkpoints or more, found %lld", (long long)n);
    if ((status = memory_new(2 * n, sizeof(double), "plane", &out->axes, error)) != STATUS_OK ||
        (status = memory_new(2 * n, sizeof(double), "plane", &out->points, error)) != STATUS_OK ||
        (status = memory_new(CHUNK, sizeof(float), "plane", &pass.values, error)) != STATUS_OK ||
        (status = memory_new(n * CHUNK, sizeof(double), "plane", &pass.chunk, error)) != STATUS_OK ||
        (status = memory_new(n * n, sizeof(double), "plane", &pass.gram, error)) != STATUS_OK)
        goto done;
    if ((status = walk(&pass, error)) != STATUS_OK) goto done;
    if ((status = solve(pass.gram, n, out, error)) != STATUS_OK) goto done;
    pass.visit = direction_visit;
    pass.axes = out->axes;
    pass.passes_before = 1;
    if ((status = walk(&pass, error)) != STATUS_OK) goto done;
    turn(out, pass.extreme);
done:
    memory_free(pass.values);
    memory_free(pass.chunk);
    memory_free(pass.gram);
    if (status != STATUS_OK) plane_reset(out);
    return status;
}

void plane_plan(const struct family *family, struct run_plan *plan)
{
    const int64_t n = family->count, element = (int64_t)sizeof(double);
    const int64_t pass = CHUNK * (int64_t)sizeof(float) + n * CHUNK * element + n * n * element,
                  solution = (n + n * n) * element;
    plan_take(plan, PLAN_HOST, 4 * n * element);
    plan_take(plan, PLAN_HOST, pass + solution);
    plan_give(plan, PLAN_HOST, pass + solution);
    plan->read_bytes += 2 * family_stored_bytes(family);
    plan->flops +=
        (double)family->parameters * (double)(n * (n + 1) + 4 * n); /* products of members; entries of two directions */
}

void plane_reset(struct plane *plane)
{
    memory_free(plane->axes);
    memory_free(plane->points);
    *plane = (struct plane){0};
}

void plane_at(const struct plane *plane, double x, double y, double *coefficients)
{
    for (int64_t k = 0; k < plane->count; k++)
        coefficients[k] = 1 / (double)plane->count + x * plane->axes[k] + y * plane->axes[plane->count + k];
}
