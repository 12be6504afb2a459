/* elementwise.c: elementwise work, copies and whole-matrix reductions, cut into tasks. */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

struct operands {
    const struct kernels *kernels;
    struct matrix to, from, by;
    double alpha, beta;
    const void *source; /* upload */
    void *target;       /* download */
    enum dtype dtype;
    const uint32_t *ids;
};

static void fill_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct operands *o = context;
    o->kernels->fill(float_row(o->to, t) + column, count, (float)o->alpha);
}

void cpu_fill(struct backend *backend, struct matrix to, double value)
{
    struct operands o = {.kernels = cpu_of(backend)->kernels, .to = to, .alpha = value};
    cpu_for_runs(backend->team, to.rows, to.columns, cpu_dense(to), fill_run, &o);
}

static void add_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct operands *o = context;
    o->kernels->add(float_row(o->to, t) + column, float_row(o->from, t) + column, count, (float)o->alpha,
                    (float)o->beta);
}

void cpu_add(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta)
{
    struct operands o = {.kernels = cpu_of(backend)->kernels, .to = to, .from = from, .alpha = alpha, .beta = beta};
    cpu_for_runs(backend->team, to.rows, to.columns, cpu_dense(to) && cpu_dense(from), add_run, &o);
}

void cpu_sum(struct backend *backend, struct matrix to, struct matrix a, struct matrix b)
{
    if (to.data != a.data) cpu_add(backend, to, a, 1, 0);
    cpu_add(backend, to, b, 1, 1);
}

static void scale_by_magnitude_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct operands *o = context;
    o->kernels->scale_by_magnitude(float_row(o->to, t) + column, float_row(o->from, t) + column, count,
                                   (float)o->alpha);
}

void cpu_scale_by_magnitude(struct backend *backend, struct matrix to, struct matrix by, double offset)
{
    struct operands o = {.kernels = cpu_of(backend)->kernels, .to = to, .from = by, .alpha = offset};
    cpu_for_runs(backend->team, to.rows, to.columns, cpu_dense(to) && cpu_dense(by), scale_by_magnitude_run, &o);
}

static void clip_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct operands *o = context;
    const float *from = float_row(o->from, t) + column, most = (float)o->alpha;
    float *to = float_row(o->to, t) + column; /* may be `from` */
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = from[i] > most ? most : from[i] < -most ? -most : from[i];
}

void cpu_clip(struct backend *backend, struct matrix to, struct matrix from, double bound)
{
    struct operands o = {.to = to, .from = from, .alpha = bound};
    cpu_for_runs(backend->team, to.rows, to.columns, cpu_dense(to) && cpu_dense(from), clip_run, &o);
}

static void clip_pass_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct operands *o = context;
    const float *from = float_row(o->from, t) + column, *by = float_row(o->by, t) + column, most = (float)o->alpha;
    float *to = float_row(o->to, t) + column;
    if (o->beta == 0)
        for (int64_t i = 0; i < count; i++) to[i] = 0;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += by[i] > most || by[i] < -most ? 0 : from[i];
}

void cpu_clip_pass(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound,
                   bool accumulate)
{
    struct operands o = {.to = to, .from = from, .by = by, .alpha = bound, .beta = accumulate ? 1 : 0};
    cpu_for_runs(backend->team, to.rows, to.columns, cpu_dense(to) && cpu_dense(from) && cpu_dense(by), clip_pass_run,
                 &o);
}

static void add_row_rows(void *context, int64_t first, int64_t end)
{
    const struct operands *o = context;
    for (int64_t t = first; t < end; t++) o->kernels->add(float_row(o->to, t), o->from.data, o->to.columns, 1, 1);
}

void cpu_add_row(struct backend *backend, struct matrix to, struct matrix row)
{
    struct operands o = {.kernels = cpu_of(backend)->kernels, .to = to, .from = row};
    cpu_for_rows(backend->team, to.rows, to.columns, add_row_rows, &o);
}

/* Number of partial sums, one for each group of rows; they are added up in order. */
enum { DOT_PARTS = 64 };

struct dot {
    const struct kernels *kernels;
    struct matrix a, b;
    int64_t rows; /* rows per part */
    double parts[DOT_PARTS];
};

static void dot_part(void *context, int64_t i, int thread)
{
    (void)thread;
    struct dot *dot = context;
    double sum = 0;
    for (int64_t t = i * dot->rows; t < smaller((i + 1) * dot->rows, dot->a.rows); t++)
        sum += dot->kernels->dot(float_row(dot->a, t), float_row(dot->b, t), dot->a.columns);
    dot->parts[i] = sum;
}

/* Views a dense matrix as rows of 4096 columns; the remainder is a small product of its own. */
static double dot_rows(struct backend *backend, struct matrix a, struct matrix b)
{
    struct dot dot = {.kernels = cpu_of(backend)->kernels, .a = a, .b = b};
    const int64_t tasks = ceil_divide(a.rows * a.columns, CPU_TASK_ELEMENTS);
    dot.rows = larger(1, ceil_divide(a.rows, larger(1, smaller(tasks, DOT_PARTS))));
    const int64_t parts = ceil_divide(a.rows, dot.rows);
    team_run(backend->team, parts, dot_part, &dot);
    double sum = 0;
    for (int64_t i = 0; i < parts; i++) sum += dot.parts[i];
    return sum;
}

double cpu_dot(struct backend *backend, struct matrix a, struct matrix b)
{
    const int64_t width = 4096, count = a.rows * a.columns;
    if (!cpu_dense(a) || !cpu_dense(b) || count < 2 * width) return dot_rows(backend, a, b);
    const int64_t rows = count / width, rest = rows * width;
    const struct matrix x = matrix_of(a.data, rows, width, sizeof(float)),
                        y = matrix_of(b.data, rows, width, sizeof(float));
    return dot_rows(backend, x, y) +
           cpu_of(backend)->kernels->dot((float *)a.data + rest, (float *)b.data + rest, count - rest);
}

struct finite {
    const struct kernels *kernels;
    struct matrix a;
    atomic_bool bad;
};

static void finite_run(void *context, int64_t t, int64_t column, int64_t count)
{
    struct finite *finite = context;
    if (atomic_load_explicit(&finite->bad, memory_order_relaxed)) return;
    if (!finite->kernels->finite(float_row(finite->a, t) + column, count))
        atomic_store_explicit(&finite->bad, true, memory_order_relaxed);
}

bool cpu_finite(struct backend *backend, struct matrix a)
{
    struct finite finite = {.kernels = cpu_of(backend)->kernels, .a = a};
    cpu_for_runs(backend->team, a.rows, a.columns, cpu_dense(a), finite_run, &finite);
    return !atomic_load(&finite.bad);
}

static void upload_rows(void *context, int64_t first, int64_t end)
{
    const struct operands *o = context;
    const struct dtype_info *dtype = dtype_info(o->dtype);
    const int64_t columns = o->to.columns, pitch = columns * (int64_t)dtype->bits / 8;
    for (int64_t t = first; t < end; t++)
        dtype->to_f32((const char *)o->source + t * pitch, float_row(o->to, t), columns);
}

void cpu_upload(struct backend *backend, struct matrix to, const void *from, enum dtype dtype)
{
    struct operands o = {.to = to, .source = from, .dtype = dtype};
    cpu_for_rows(backend->team, to.rows, to.columns, upload_rows, &o);
}

static void download_rows(void *context, int64_t first, int64_t end)
{
    const struct operands *o = context;
    for (int64_t t = first; t < end; t++) {
        const float *from = float_row(o->from, t);
        const int64_t columns = o->from.columns;
        double *doubles = (double *)o->target + (o->dtype == DTYPE_F64 ? t * columns : 0);
        if (o->dtype == DTYPE_F64)
            for (int64_t c = 0; c < columns; c++) doubles[c] = (double)from[c];
        else
            memcpy((float *)o->target + t * columns, from, (size_t)columns * sizeof *from);
    }
}

void cpu_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    struct operands o = {.from = from, .target = to, .dtype = dtype};
    cpu_for_rows(backend->team, from.rows, from.columns, download_rows, &o);
}
