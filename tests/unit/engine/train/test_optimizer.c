/* AdamW against PyTorch's numbers and against an independent double implementation; which tensors decay; clipping. */
#include "base/random.h"
#include "train/optimizer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                                                      \
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":7,\"hidden_size\":4,\"num_hidden_layers\":2,\"num_attention_heads\":1,"           \
    "\"intermediate_size\":6,\"max_position_embeddings\":8,\"rotary_pct\":0.5}"

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

struct bench {
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters, gradients;
    struct optimizer optimizer;
};

static void bench_open(struct bench *bench, struct backend *backend, const struct optimizer_settings *settings)
{
    struct model_config config;
    bench->backend = backend;
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, backend, "parameters", &error));
    ok(parameters_init(&bench->gradients, bench->layout, backend, "gradients", &error));
    ok(optimizer_init(&bench->optimizer, optimizer_kinds[0], settings, bench->layout, backend, &error));
}

static void bench_close(struct bench *bench)
{
    optimizer_reset(&bench->optimizer);
    parameters_reset(&bench->gradients);
    parameters_reset(&bench->parameters);
    parameters_layout_free(bench->layout);
    backend_free(bench->backend);
}

static struct backend *doubles(void)
{
    struct backend *backend = NULL;
    ok(backend_reference_new(true, NULL, &backend, &error));
    return backend;
}

/* torch.optim.AdamW in float64 over a decaying [0.5, -1, 2] and a free [0.25, 1.5]: three steps at 0.1, betas 0.9 and 0.95, decay
 * 0.1, clip_grad_norm_ 1. PyTorch clips by 1 / (norm + 1e-6), ours by 1 / norm: 2e-7 of a gradient apart. */
static void test_adamw_gives_pytorchs_numbers(void **state)
{
    (void)state;
    static const double gradients[3][5] = {{.3, -.2, .1, .05, -.4}, {3., 0., -4., 1., 2.}, {-.1, .2, .3, 0., .1}};
    static const double norms[3] = {0.55, 5.477225575051661, 0.3872983346207417};
    static const double expected[5] = {0.22669502837083513, -0.8136877736189716, 1.9279446034372667, -0.0078165836452420839,
                                       1.5869915160032615};
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1};
    struct bench bench;
    bench_open(&bench, doubles(), &settings);
    double *matrix = parameters_view(&bench.parameters, bench.layout->embedding).data;
    double *vector = parameters_view(&bench.parameters, bench.layout->norm_weight).data;
    double *dmatrix = parameters_view(&bench.gradients, bench.layout->embedding).data;
    double *dvector = parameters_view(&bench.gradients, bench.layout->norm_weight).data;
    memcpy(matrix, (double[]){0.5, -1, 2}, 3 * sizeof(double));
    memcpy(vector, (double[]){0.25, 1.5}, 2 * sizeof(double));
    for (int step = 0; step < 3; step++) {
        double norm = 0;
        memcpy(dmatrix, gradients[step], 3 * sizeof(double));
        memcpy(dvector, gradients[step] + 3, 2 * sizeof(double));
        assert_true(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.1, step, &norm));
        assert_true(fabs(norm - norms[step]) < 1e-12);
    }
    for (int i = 0; i < 5; i++) {
        const double found = i < 3 ? matrix[i] : vector[i - 3];
        if (!(fabs(found - expected[i]) < 1e-7)) fail_msg("element %d: %.12g, PyTorch %.12g", i, found, expected[i]);
    }
    bench_close(&bench);
}

static bool ends_with(const char *text, const char *ending)
{
    const size_t size = strlen(text), tail = strlen(ending);
    return size >= tail && strcmp(text + size - tail, ending) == 0;
}

/* Written from the paper, one element at a time, from the very first step each time. */
static double adamw_alone(const struct optimizer_settings *s, double p, bool decays, const double *gradient, int steps, double rate)
{
    double m = 0, v = 0;
    for (int t = 1; t <= steps; t++) {
        m = s->beta1 * m + (1 - s->beta1) * gradient[t - 1];
        v = s->beta2 * v + (1 - s->beta2) * gradient[t - 1] * gradient[t - 1];
        if (decays) p *= 1 - rate * s->weight_decay;
        p -= rate * (m / (1 - pow(s->beta1, t))) / (sqrt(v / (1 - pow(s->beta2, t))) + s->epsilon);
    }
    return p;
}

static void test_adamw_on_a_whole_model(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.8, 0.9, 1e-6, 0.3, 0}; /* not clipped */
    struct bench bench;
    bench_open(&bench, doubles(), &settings);
    double *parameters = bench.parameters.data, *gradients = bench.gradients.data;
    ok(parameters_initialise(&bench.parameters, 1, &error));
    const size_t bytes = (size_t)bench.layout->elements * sizeof(double);
    double *before = malloc(bytes);
    memcpy(before, parameters, bytes);
    for (int step = 0; step < 4; step++) {
        double norm;
        for (int64_t i = 0; i < bench.layout->elements; i++) gradients[i] = 10 * random_normal(4, (uint64_t)step, (uint64_t)i);
        assert_true(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.01, step, &norm));
    }
    for (int64_t i = 0; i < bench.layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &bench.layout->tensors[i];
        const bool vector = ends_with(tensor->parameter.name, "norm.weight") || ends_with(tensor->parameter.name, ".bias");
        assert_int_equal(tensor->decays, !vector);
        for (int64_t k = tensor->offset; k < tensor->offset + tensor->parameter.rows * tensor->parameter.columns; k++) {
            double gradient[4];
            for (uint64_t step = 0; step < 4; step++) gradient[step] = 10 * random_normal(4, step, (uint64_t)k);
            const double expected = adamw_alone(&settings, before[k], !vector, gradient, 4, 0.01);
            if (!(fabs(parameters[k] - expected) < 1e-13))
                fail_msg("%s: %.17g, %.17g", tensor->parameter.name, parameters[k], expected);
        }
    }
    free(before);
    bench_close(&bench);
}

static void test_the_fast_backend_agrees(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1};
    struct bench slow, fast;
    struct backend *backend = NULL;
    ok(backend_cpu_new(NULL, &backend, &error));
    bench_open(&slow, doubles(), &settings);
    bench_open(&fast, backend, &settings);
    ok(parameters_initialise(&slow.parameters, 1, &error));
    ok(parameters_initialise(&fast.parameters, 1, &error));
    for (int step = 0; step < 10; step++) {
        double norm[2];
        for (int64_t i = 0; i < slow.layout->elements; i++) {
            const float value = (float)random_normal(4, (uint64_t)step, (uint64_t)i);
            ((double *)slow.gradients.data)[i] = (double)value;
            ((float *)fast.gradients.data)[i] = value;
        }
        assert_true(optimizer_step(&slow.optimizer, &slow.parameters, &slow.gradients, 0.01, step, &norm[0]));
        assert_true(optimizer_step(&fast.optimizer, &fast.parameters, &fast.gradients, 0.01, step, &norm[1]));
        assert_true(fabs(norm[0] - norm[1]) < 1e-6 * norm[0]);
    }
    /* ten updates of at most about 0.01, each rounded a few times */
    for (int64_t i = 0; i < slow.layout->elements; i++)
        assert_true(fabs(((double *)slow.parameters.data)[i] - (double)((float *)fast.parameters.data)[i]) < 2e-6);
    bench_close(&slow);
    bench_close(&fast);
}

static void test_a_gradient_that_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1};
    struct bench bench;
    double norm;
    bench_open(&bench, doubles(), &settings);
    ok(parameters_initialise(&bench.parameters, 1, &error));
    const size_t bytes = (size_t)bench.layout->elements * sizeof(double);
    double *before = malloc(bytes);
    memcpy(before, bench.parameters.data, bytes);
    ((double *)bench.gradients.data)[5] = NAN;
    assert_false(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.1, 0, &norm));
    assert_memory_equal(before, bench.parameters.data, bytes);
    free(before);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_gives_pytorchs_numbers),
        cmocka_unit_test(test_adamw_on_a_whole_model),
        cmocka_unit_test(test_the_fast_backend_agrees),
        cmocka_unit_test(test_a_gradient_that_is_not_finite_changes_nothing),
    };
    return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
