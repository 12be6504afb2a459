#include "quant/statistics.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { COLUMNS_A_TASK = 64, ROWS_A_SLAB = 256 };

enum status statistics_init(struct statistics_collector *collector, struct backend *backend, unsigned needs, int64_t widest,
                            int64_t tokens, struct error *error)
{
    enum status status;
    *collector = (struct statistics_collector){.backend = backend};
    statistics_aim(collector, needs, tokens);
    if ((status = backend->ops->allocate(backend, widest * widest, "Hessian", &collector->hessian, error)) != STATUS_OK)
        return status;
    if (needs & NEED_INPUT_MAGNITUDE) {
        if ((status = memory_new(widest, sizeof *collector->mean, "input statistics", &collector->mean, error)) != STATUS_OK ||
            (status = memory_new(widest, sizeof *collector->largest, "input statistics", &collector->largest, error)) != STATUS_OK)
            return status;
    }
    if (needs & NEED_INPUT_SAMPLE) {
        status = memory_new(STATISTICS_SAMPLE * widest, sizeof *collector->sample, "a sample of inputs", &collector->sample, error);
        if (status != STATUS_OK) return status;
    }
    if (backend->ops->host || !(needs & (NEED_INPUT_MAGNITUDE | NEED_INPUT_SAMPLE))) return STATUS_OK;
    return memory_new(ROWS_A_SLAB * widest, sizeof *collector->slab, "inputs on the host", &collector->slab, error);
}

void statistics_aim(struct statistics_collector *collector, unsigned needs, int64_t tokens)
{
    collector->needs = needs;
    collector->tokens = tokens;
    collector->every = (tokens + STATISTICS_SAMPLE - 1) / STATISTICS_SAMPLE;
}

void statistics_reset(struct statistics_collector *collector)
{
    if (collector->hessian != NULL) collector->backend->ops->release(collector->backend, collector->hessian);
    memory_free(collector->mean);
    memory_free(collector->largest);
    memory_free(collector->sample);
    memory_free(collector->slab);
    *collector = (struct statistics_collector){0};
}

void statistics_begin(struct statistics_collector *collector, int64_t columns)
{
    const size_t element = collector->backend->ops->element;
    collector->seen = 0;
    collector->result = (struct statistics){.hessian = matrix_of(collector->hessian, columns, columns, element)};
    if (collector->needs & NEED_INPUT_MAGNITUDE) {
        memset(collector->mean, 0, (size_t)columns * sizeof *collector->mean);
        memset(collector->largest, 0, (size_t)columns * sizeof *collector->largest);
        collector->result.mean = collector->mean;
        collector->result.largest = collector->largest;
    }
    if (collector->needs & NEED_INPUT_SAMPLE) collector->result.sample = matrix_of(collector->sample, 0, columns, element);
}

struct magnitude_job {
    struct statistics_collector *collector;
    struct matrix x;
};

static void add_magnitudes(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct magnitude_job *job = context;
    const int64_t first = task * COLUMNS_A_TASK, left = job->x.columns - first;
    const int64_t count = left < COLUMNS_A_TASK ? left : COLUMNS_A_TASK;
    double *mean = job->collector->mean + first;
    float *largest = job->collector->largest + first;
    for (int64_t t = 0; t < job->x.rows; t++) {
        const float *x = (const float *)job->x.data + t * job->x.stride + first;
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            const float magnitude = fabsf(x[c]);
            mean[c] += (double)magnitude;
            largest[c] = magnitude > largest[c] ? magnitude : largest[c];
        }
    }
}

/* What is not a product, of rows in host memory. */
static void add_rows(struct statistics_collector *collector, struct matrix x)
{
    struct magnitude_job job = {collector, x};
    struct matrix *sample = &collector->result.sample;
    if (collector->needs & NEED_INPUT_MAGNITUDE)
        team_run(collector->backend->team, (x.columns + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK, add_magnitudes, &job);
    for (int64_t t = 0; t < x.rows && (collector->needs & NEED_INPUT_SAMPLE) != 0; t++)
        if ((collector->seen + t) % collector->every == 0)
            memcpy(collector->sample + sample->rows++ * x.columns, (const float *)x.data + t * x.stride,
                   (size_t)x.columns * sizeof(float));
    collector->seen += x.rows;
}

void statistics_add(struct statistics_collector *collector, struct matrix x)
{
    struct backend *backend = collector->backend;
    backend->ops->syrk(backend, collector->result.hessian, x, 2.0 / (double)collector->tokens, collector->seen > 0 ? 1 : 0);
    if (collector->slab == NULL || (collector->needs & (NEED_INPUT_MAGNITUDE | NEED_INPUT_SAMPLE)) == 0) {
        add_rows(collector, x);
        return;
    }
    for (int64_t first = 0; first < x.rows; first += ROWS_A_SLAB) {
        const int64_t count = x.rows - first < ROWS_A_SLAB ? x.rows - first : ROWS_A_SLAB;
        backend->ops->download(backend, matrix_rows(x, first, count), collector->slab, DTYPE_F32);
        add_rows(collector, matrix_of(collector->slab, count, x.columns, sizeof(float)));
    }
}

const struct statistics *statistics_finish(struct statistics_collector *collector)
{
    const struct matrix hessian = collector->result.hessian;
    if (collector->seen == 0) collector->result = (struct statistics){.hessian = {0}};
    if (collector->seen > 0 && collector->seen < collector->tokens)
        collector->backend->ops->add(collector->backend, hessian, hessian, 0, (double)collector->tokens / (double)collector->seen);
    for (int64_t c = 0; c < hessian.columns && (collector->needs & NEED_INPUT_MAGNITUDE) != 0 && collector->seen > 0; c++)
        collector->mean[c] /= (double)collector->seen;
    return &collector->result;
}
