#include "curvature/spectrum.h"

#include "base/memory.h"
#include "curvature/krylov.h"

#include <math.h>
#include <stdlib.h>

/* The krylov's own numbers here: the probe in work, how many nodes the probes before gave, and those: (node, weight)
 * each. */
enum { PROBE = KRYLOV_OWN, COUNT, PAIRS, OWN = PAIRS - KRYLOV_OWN };

void spectrum_reset(struct spectrum *spectrum)
{
    memory_free(spectrum->nodes);
    memory_free(spectrum->weights);
    *spectrum = (struct spectrum){0};
}

/* The quadrature of the finished probe: Ritz values, and squares of the first components. */
static enum status probe_finish(struct krylov *krylov, struct error *error)
{
    const int64_t n = (int64_t)krylov->numbers[KRYLOV_EXPANDED];
    double *pairs = krylov->numbers + PAIRS + 2 * (int64_t)krylov->numbers[COUNT], *values = NULL;
    enum status status = memory_new(2 * n, sizeof *values, "Ritz values", &values, error);
    if (status == STATUS_OK) status = krylov_ritz(krylov, values, values + n, NULL, error);
    for (int64_t i = 0; status == STATUS_OK && i < n; i++) {
        pairs[2 * i] = values[i];
        pairs[2 * i + 1] = values[n + i] * values[n + i];
    }
    krylov->numbers[COUNT] += (double)n;
    krylov->numbers[PROBE]++;
    krylov->numbers[KRYLOV_EXPANDED] = 0;
    memory_free(values);
    return status;
}

static enum status iterate(struct krylov *krylov, const struct spectrum_settings *settings, const struct saver *saver,
                           struct error *error)
{
    const int64_t steps = krylov->size;
    enum status status;
    while (krylov->numbers[PROBE] < (double)settings->probes) {
        const int64_t probe = (int64_t)krylov->numbers[PROBE];
        if (krylov->numbers[KRYLOV_EXPANDED] == 0) {
            vector_rademacher(&krylov->op->space, settings->seed, settings->stream + (uint64_t)probe, krylov->work);
            if ((status = krylov_begin(krylov, error)) != STATUS_OK) return status;
        }
        if ((status = krylov_expand(krylov, error)) != STATUS_OK) return status;
        const int64_t expanded = (int64_t)krylov->numbers[KRYLOV_EXPANDED];
        if ((krylov->numbers[KRYLOV_BESIDE] == 0 || expanded == steps) &&
            (status = probe_finish(krylov, error)) != STATUS_OK)
            return status;
        const int64_t remaining =
            (settings->probes - (int64_t)krylov->numbers[PROBE]) * steps - (int64_t)krylov->numbers[KRYLOV_EXPANDED];
        const struct saver_state state = krylov_state(krylov);
        if ((status = saver_step(saver, &state, remaining, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static int pair_compare(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

static enum status collect(struct krylov *krylov, int64_t probes, struct spectrum *out, struct error *error)
{
    double *pairs = krylov->numbers + PAIRS;
    enum status status;
    out->count = (int64_t)krylov->numbers[COUNT];
    qsort(pairs, (size_t)out->count, 2 * sizeof *pairs, pair_compare);
    if ((status = memory_new(out->count, sizeof(double), "spectrum", &out->nodes, error)) != STATUS_OK) return status;
    if ((status = memory_new(out->count, sizeof(double), "spectrum", &out->weights, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < out->count; i++) {
        out->nodes[i] = pairs[2 * i];
        out->weights[i] = pairs[2 * i + 1] / (double)probes;
    }
    return STATUS_OK;
}

enum status spectrum_run(const struct symmetric_operator *op, const struct spectrum_settings *settings,
                         const struct saver *saver, struct spectrum *out, struct error *error)
{
    const int64_t steps = settings->steps < op->space.numbers ? settings->steps : op->space.numbers;
    struct krylov krylov = {0};
    bool found;
    enum status status;
    *out = (struct spectrum){0};
    if ((status = krylov_init(&krylov, op, steps, OWN + 2 * steps * settings->probes, error)) != STATUS_OK) goto done;
    struct saver_state state = krylov_state(&krylov);
    if ((status = saver_restore(saver, &state, &found, error)) != STATUS_OK) goto done;
    if ((status = iterate(&krylov, settings, saver, error)) != STATUS_OK) goto done;
    status = collect(&krylov, settings->probes, out, error);
done:
    krylov_reset(&krylov);
    if (status != STATUS_OK) spectrum_reset(out);
    return status;
}
