#include "curvature/sampling.h"

#include "base/memory.h"
#include "eval/leverage.h"
#include "eval/ratio.h"
#include "model/gradient.h"

#include <math.h>

static int64_t units_of(const struct sequences *sequences)
{
    return sequences->count < SAMPLING_UNITS ? sequences->count : SAMPLING_UNITS;
}

/* The unit's first sequence; of the one behind the last unit: the number of sequences. */
static int64_t first_of(const struct sequences *sequences, int64_t units, int64_t unit)
{
    return unit * sequences->count / units;
}

enum status sampling_unit(const struct sequences *sequences, int64_t units, int64_t unit, int64_t chunk_tokens,
                          struct chunks *out, struct error *error)
{
    const int64_t first = first_of(sequences, units, unit), end = first_of(sequences, units, unit + 1);
    struct sequences own = {.count = end - first, .tokens = sequences->tokens + sequences->starts[first]};
    enum status status = memory_new(own.count + 1, sizeof *own.starts, "sequences", &own.starts, error);
    for (int64_t s = 0; status == STATUS_OK && s <= own.count; s++)
        own.starts[s] = sequences->starts[first + s] - sequences->starts[first];
    if (status == STATUS_OK) status = chunks_init(&own, chunk_tokens, out, error);
    memory_free(own.starts);
    return status;
}

static enum status slope_find(const struct parameters *parameters, const struct chunks *chunks, struct matrix v,
                              struct matrix scratch, const struct monitor *monitor, double *loss, double *slope,
                              struct error *error)
{
    struct backend *backend = parameters->backend;
    struct parameters into = {parameters->layout, backend, scratch.data};
    struct gradient *gradient = NULL;
    double *losses = NULL;
    enum status status;
    if ((status = memory_new(chunks->tokens, sizeof *losses, "losses", &losses, error)) != STATUS_OK) goto done;
    status = gradient_new(parameters, GRADIENT_RECOMPUTE, chunks->largest, chunks->longest, &gradient, error);
    if (status != STATUS_OK) goto done;
    backend->ops->fill(backend, scratch, 0);
    if ((status = gradient_over(gradient, chunks, monitor, &into, losses, loss, error)) != STATUS_OK) goto done;
    *slope = backend->ops->dot(backend, scratch, v);
    status = backend->ops->sync(backend, error);
done:
    gradient_free(gradient);
    memory_free(losses);
    return status;
}

static enum status curvature_find(const struct parameters *parameters, const struct chunks *chunks, enum hvp_mode mode,
                                  struct matrix v, struct matrix scratch, const struct monitor *monitor,
                                  double *curvature, struct error *error)
{
    struct hvp *hvp = NULL;
    enum status status = hvp_new(parameters, chunks, mode, monitor, &hvp, error);
    if (status == STATUS_OK) status = operator_apply(hvp_operator(hvp), v, scratch, error);
    if (status == STATUS_OK) *curvature = parameters->backend->ops->dot(parameters->backend, scratch, v);
    hvp_free(hvp);
    return status;
}

enum status sampling_along(const struct parameters *parameters, const struct sequences *sequences,
                           enum sampling_measures measures, int64_t chunk_tokens, enum hvp_mode mode, struct matrix v,
                           struct matrix scratch, const struct monitor *monitor, struct sampling *out,
                           struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct sampling){.units = units_of(sequences)};
    for (int64_t i = 0; i < out->units && status == STATUS_OK; i++) {
        struct chunks chunks = {0};
        if ((status = sampling_unit(sequences, out->units, i, chunk_tokens, &chunks, error)) != STATUS_OK) break;
        out->predictions[i] = chunks.predictions;
        if (measures == SAMPLING_ALL)
            status = slope_find(parameters, &chunks, v, scratch, monitor, &out->losses[i], &out->slopes[i], error);
        if (status == STATUS_OK)
            status = curvature_find(parameters, &chunks, mode, v, scratch, monitor, &out->curvatures[i], error);
        chunks_reset(&chunks);
    }
    return status;
}

double sampling_error(const struct sampling *sampling, const double *over, const double *under)
{
    return sqrt(ratio_variance(under, over, sampling->predictions, sampling->units));
}

double sampling_degrees(const struct sequences *sequences)
{
    const int64_t units = units_of(sequences);
    int64_t predictions[SAMPLING_UNITS];
    for (int64_t i = 0; i < units; i++) {
        const int64_t first = first_of(sequences, units, i), end = first_of(sequences, units, i + 1);
        predictions[i] = sequences->starts[end] - sequences->starts[first] - (end - first);
    }
    return leverage_degrees(predictions, units);
}
