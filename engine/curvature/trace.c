#include "curvature/trace.h"

#include "base/memory.h"

#include <math.h>

const char *const trace_method_names[TRACE_METHODS + 1] = {"hutchinson", "hutch++", NULL};

/* numbers: products made, the trace within the sketched range, and behind them the samples in order. */
enum { PRODUCTS, RANGE, SAMPLES };

struct tracing {
    const struct symmetric_operator *op;
    const struct trace_settings *settings;
    const struct saver *saver;
    struct matrix probe, product;
    struct basis range; /* Hutch++: orthonormal, of the sketch */
    struct saver_state state;
    int64_t sketch; /* vectors of the sketch; 0: none */
    double *numbers;
};

static enum status made_product(struct tracing *t, int64_t total, struct error *error)
{
    t->numbers[PRODUCTS]++;
    return saver_step(t->saver, &t->state, total - (int64_t)t->numbers[PRODUCTS], error);
}

static enum status diagonal_sum(struct tracing *t, struct error *error)
{
    struct backend *backend = t->op->space.backend;
    const int64_t numbers = t->op->space.numbers;
    while (t->numbers[PRODUCTS] < (double)numbers) {
        enum status status;
        vector_basis(&t->op->space, (int64_t)t->numbers[PRODUCTS], t->probe);
        if ((status = operator_apply(t->op, t->probe, t->product, error)) != STATUS_OK) return status;
        t->numbers[RANGE] += backend->ops->dot(backend, t->probe, t->product);
        if ((status = made_product(t, numbers, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Products with random vectors, made orthonormal: a vector that adds no direction is dropped. */
static enum status sketch(struct tracing *t, int64_t index, struct error *error)
{
    struct backend *backend = t->op->space.backend;
    enum status status;
    vector_rademacher(&t->op->space, t->settings->seed, t->settings->stream + (uint64_t)index, t->probe);
    if ((status = operator_apply(t->op, t->probe, t->product, error)) != STATUS_OK) return status;
    const double before = sqrt(backend->ops->dot(backend, t->product, t->product));
    const double after = basis_orthogonalise(&t->range, t->range.count, t->product, NULL);
    if (!(after > 1e-6 * before)) return STATUS_OK;
    if ((status = basis_append(&t->range, error)) != STATUS_OK) return status;
    vector_normalise(&t->op->space, t->product);
    backend->ops->add(backend, t->range.vectors[t->range.count - 1], t->product, 1, 0);
    return STATUS_OK;
}

static enum status range_trace(struct tracing *t, int64_t index, struct error *error)
{
    struct backend *backend = t->op->space.backend;
    if (index >= t->range.count) return STATUS_OK;
    const enum status status = operator_apply(t->op, t->range.vectors[index], t->product, error);
    if (status == STATUS_OK) t->numbers[RANGE] += backend->ops->dot(backend, t->range.vectors[index], t->product);
    return status;
}

/* zᵀ (I - QQᵀ) A (I - QQᵀ) z; Q has no vectors for Hutchinson. */
static enum status sample(struct tracing *t, int64_t index, double *out, struct error *error)
{
    struct backend *backend = t->op->space.backend;
    vector_rademacher(&t->op->space, t->settings->seed, t->settings->stream + (uint64_t)index, t->probe);
    (void)basis_orthogonalise(&t->range, t->range.count, t->probe, NULL);
    const enum status status = operator_apply(t->op, t->probe, t->product, error);
    if (status == STATUS_OK) *out = backend->ops->dot(backend, t->probe, t->product);
    return status;
}

static enum status estimate(struct tracing *t, struct error *error)
{
    const int64_t total = t->settings->probes;
    while (t->numbers[PRODUCTS] < (double)total) {
        const int64_t index = (int64_t)t->numbers[PRODUCTS];
        enum status status;
        if (index < t->sketch)
            status = sketch(t, index, error);
        else if (index < 2 * t->sketch)
            status = range_trace(t, index - t->sketch, error);
        else
            status = sample(t, index, &t->numbers[SAMPLES + index - 2 * t->sketch], error);
        if (status != STATUS_OK) return status;
        if ((status = made_product(t, total, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static void summarise(const struct tracing *t, struct trace_estimate *out)
{
    const double *samples = t->numbers + SAMPLES;
    const int64_t count = t->settings->probes - 2 * t->sketch;
    double mean = 0, spread = 0;
    out->samples = count;
    for (int64_t i = 0; i < count; i++) mean += samples[i] / (double)count;
    for (int64_t i = 0; i < count; i++) spread += (samples[i] - mean) * (samples[i] - mean);
    out->trace = t->numbers[RANGE] + mean;
    out->standard_error = count < 2 ? NAN : sqrt(spread / (double)(count - 1) / (double)count);
}

enum status trace_run(const struct symmetric_operator *op, const struct trace_settings *settings,
                      const struct saver *saver, struct trace_estimate *out, struct error *error)
{
    const bool exact = settings->probes >= op->space.numbers;
    struct tracing t = {.op = op, .settings = settings, .saver = saver};
    bool found;
    enum status status;
    const int64_t probes = exact ? op->space.numbers : settings->probes;
    *out = (struct trace_estimate){.exact = exact, .probes = probes, .samples = exact ? 0 : probes};
    if (!exact && settings->method == TRACE_HUTCHPP) t.sketch = settings->probes / 3;
    if (settings->most_vectors > 0 && t.sketch > settings->most_vectors) t.sketch = settings->most_vectors;
    const int64_t numbers = SAMPLES + (exact ? 0 : settings->probes);
    if ((status = memory_new(numbers, sizeof(double), "samples", &t.numbers, error)) != STATUS_OK) goto done;
    if ((status = basis_init(&t.range, &op->space, t.sketch + 1, error)) != STATUS_OK) goto done;
    if ((status = vector_new(&op->space, "a probe", &t.probe, error)) != STATUS_OK) goto done;
    if ((status = vector_new(&op->space, "a product", &t.product, error)) != STATUS_OK) goto done;
    t.state = (struct saver_state){t.numbers, numbers, &t.range};
    if ((status = saver_restore(saver, &t.state, &found, error)) != STATUS_OK) goto done;
    if ((status = exact ? diagonal_sum(&t, error) : estimate(&t, error)) != STATUS_OK) goto done;
    if (exact)
        out->trace = t.numbers[RANGE];
    else
        summarise(&t, out);
done:
    matrix_release(op->space.backend, &t.probe);
    matrix_release(op->space.backend, &t.product);
    if (t.range.space != NULL) basis_reset(&t.range);
    memory_free(t.numbers);
    return status;
}
