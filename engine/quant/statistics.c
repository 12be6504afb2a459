#include "quant/statistics.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

void statistics_plan(const struct backend *backend, unsigned needs, int64_t widest, struct run_plan *plan)
{
    const int64_t real = (int64_t)sizeof(float), magnitudes = widest * ((int64_t)sizeof(double) + real);
    plan_take(plan, backend_space(backend), widest * widest * (int64_t)backend->ops->element);
    if (needs & NEED_INPUT_MAGNITUDE) plan_take(plan, PLAN_HOST, magnitudes);
    if (needs & NEED_INPUT_MAGNITUDE) plan_take(plan, backend_space(backend), magnitudes);
    if (needs & NEED_INPUT_SAMPLE)
        plan_take(plan, backend_space(backend), STATISTICS_SAMPLE * widest * (int64_t)backend->ops->element);
}

enum status statistics_init(struct statistics_collector *collector, struct backend *backend, unsigned needs,
                            int64_t widest, int64_t tokens, struct error *error)
{
    enum status status;
    *collector = (struct statistics_collector){.backend = backend};
    statistics_aim(collector, needs, tokens);
    if ((status = backend->ops->allocate(backend, widest * widest, "Hessian", &collector->hessian, error)) != STATUS_OK)
        return status;
    if (needs & NEED_INPUT_MAGNITUDE) {
        if ((status = memory_new(widest, sizeof *collector->mean, "input statistics", &collector->mean, error)) !=
                STATUS_OK ||
            (status = memory_new(widest, sizeof *collector->largest, "input statistics", &collector->largest, error)) !=
                STATUS_OK)
            return status;
        const int64_t sums = backend_elements(backend, widest * (int64_t)sizeof(double));
        void *block = NULL;
        if ((status = backend->ops->allocate(backend, sums, "input statistics", &block, error)) != STATUS_OK)
            return status;
        collector->sums = block;
        status = backend->ops->allocate(backend, widest, "input statistics", &collector->peaks.data, error);
        if (status != STATUS_OK) return status;
    }
    if (needs & NEED_INPUT_SAMPLE) {
        const int64_t elements = STATISTICS_SAMPLE * widest;
        status = backend->ops->allocate(backend, elements, "a sample of inputs", &collector->sample, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
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
    if (collector->sample != NULL) collector->backend->ops->release(collector->backend, collector->sample);
    matrix_release(collector->backend, &collector->peaks);
    if (collector->sums != NULL) collector->backend->ops->release(collector->backend, collector->sums);
    *collector = (struct statistics_collector){0};
}

void statistics_begin(struct statistics_collector *collector, int64_t columns)
{
    const size_t element = collector->backend->ops->element;
    collector->seen = 0;
    collector->result = (struct statistics){.hessian = matrix_of(collector->hessian, columns, columns, element)};
    if (collector->needs & NEED_INPUT_MAGNITUDE) {
        struct backend *backend = collector->backend;
        const int64_t sums = backend_elements(backend, columns * (int64_t)sizeof(double));
        collector->peaks = matrix_of(collector->peaks.data, 1, columns, element);
        backend->ops->fill(backend, matrix_of(collector->sums, 1, sums, element), 0);
        backend->ops->fill(backend, collector->peaks, 0);
        collector->result.mean = collector->mean;
        collector->result.largest = collector->largest;
    }
    if (collector->needs & NEED_INPUT_SAMPLE)
        collector->result.sample = matrix_of(collector->sample, 0, columns, element);
}

void statistics_add(struct statistics_collector *collector, struct matrix x)
{
    struct backend *backend = collector->backend;
    struct matrix *sample = &collector->result.sample;
    backend->ops->syrk(backend, collector->result.hessian, x, 2.0 / (double)collector->tokens,
                       collector->seen > 0 ? 1 : 0);
    if (collector->needs & NEED_INPUT_MAGNITUDE)
        backend->ops->add_magnitudes(backend, collector->sums, collector->peaks, x);
    for (int64_t t = 0; t < x.rows && (collector->needs & NEED_INPUT_SAMPLE) != 0; t++)
        if ((collector->seen + t) % collector->every == 0) {
            sample->rows++;
            backend->ops->add(backend, matrix_rows(*sample, sample->rows - 1, 1), matrix_rows(x, t, 1), 1, 0);
        }
    collector->seen += x.rows;
}

const struct statistics *statistics_finish(struct statistics_collector *collector)
{
    const struct matrix hessian = collector->result.hessian;
    if (collector->seen == 0) collector->result = (struct statistics){.hessian = {0}};
    if (collector->seen > 0 && collector->seen < collector->tokens)
        collector->backend->ops->add(collector->backend, hessian, hessian, 0,
                                     (double)collector->tokens / (double)collector->seen);
    if (collector->seen > 0 && (collector->needs & NEED_INPUT_MAGNITUDE) != 0) {
        const struct backend_ops *ops = collector->backend->ops;
        ops->read_bytes(collector->backend, collector->sums, collector->mean,
                        (size_t)hessian.columns * sizeof *collector->mean);
        ops->download(collector->backend, collector->peaks, collector->largest, DTYPE_F32);
        for (int64_t c = 0; c < hessian.columns; c++) collector->mean[c] /= (double)collector->seen;
    }
    return &collector->result;
}
