/* quantizer_fixture.h: a backend for tests of quantizers, inputs and their statistics, and a quantizer's run on one
 * linear. */
#ifndef QUANTIZER_FIXTURE_H
#define QUANTIZER_FIXTURE_H

#include "quant/quantizer.h"
#include "shared.h"

#include <math.h>
#include <string.h>

typedef enum status fixture_backend_new(struct team *team, struct backend **out, struct error *error);

static inline int fixture_start(void **state, fixture_backend_new *make)
{
    struct error error;
    struct team *team;
    struct backend *backend;
    if (team_new(2, &team, &error) != STATUS_OK) return -1;
    if (make(team, &backend, &error) != STATUS_OK) return -1;
    *state = backend;
    return 0;
}

static inline int fixture_setup(void **state)
{
    return fixture_start(state, backend_cpu_new);
}

static inline enum status fixture_reference_new(struct team *team, struct backend **out, struct error *error)
{
    return backend_reference_new(false, team, out, error);
}

/* The backend that is written to be read: the numbers must be the definition's. */
static inline int fixture_setup_reference(void **state)
{
    return fixture_start(state, fixture_reference_new);
}

static inline int fixture_teardown(void **state)
{
    struct backend *backend = *state;
    struct team *team = backend->team;
    backend_free(backend);
    team_free(team);
    return 0;
}

/* Statistics of X [tokens, columns]; the collector owns them (statistics_reset). */
static inline const struct statistics *fixture_collect(struct statistics_collector *collector, struct backend *backend,
                                                       unsigned needs, float *x, int64_t tokens, int64_t columns)
{
    struct error error;
    assert_int_equal(statistics_init(collector, backend, needs, columns, tokens, &error), STATUS_OK);
    statistics_begin(collector, columns);
    const int64_t half = tokens / 2; /* in two chunks */
    statistics_add(collector, matrix_of(x, half, columns, sizeof(float)));
    statistics_add(collector, matrix_of(x + half * columns, tokens - half, columns, sizeof(float)));
    return statistics_finish(collector);
}

/* Quantizes linears that share the inputs; their weights become the dequantized ones. */
static inline void fixture_quantize(struct backend *backend, const struct quantize_method *method,
                                    const struct quantize_linear *linears, int64_t count,
                                    const struct statistics *inputs, struct quantized_layer *out)
{
    struct quantize_task task = {.linears = linears, .count = count};
    struct error error;
    if (inputs != NULL) task.inputs = *inputs;
    if (quantizer_by_id(method->quantizer)->quantize(backend, method, &task, out, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
}

#endif
