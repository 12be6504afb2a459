/* Optimizers against the numbers of PyTorch and of the authors' code, and against independent double implementations;
 * which tensors decay; clipping. */
#include "base/random.h"
#include "train/optimizer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                  \
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":7,\"hidden_size\":4,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":1,"                                                               \
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

static void bench_open_with(struct bench *bench, const struct optimizer_kind *kind, struct backend *backend,
                            const struct optimizer_settings *settings)
{
    struct model_config config;
    bench->backend = backend;
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, backend, "parameters", &error));
    ok(parameters_init(&bench->gradients, bench->layout, backend, "gradients", &error));
    ok(optimizer_init(&bench->optimizer, kind, settings, bench->layout, backend, &error));
}

static void bench_open(struct bench *bench, struct backend *backend, const struct optimizer_settings *settings)
{
    bench_open_with(bench, &optimizer_adamw, backend, settings);
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

/* torch.optim.AdamW in float64 over a decaying [0.5, -1, 2] and a free [0.25, 1.5]: three steps at 0.1, betas 0.9 and
 * 0.95, decay 0.1, clip_grad_norm_ 1. PyTorch clips by 1 / (norm + 1e-6), ours by 1 / norm: 2e-7 of a gradient away. */
static void test_adamw_gives_pytorchs_numbers(void **state)
{
    (void)state;
    static const double gradients[3][5] = {{.3, -.2, .1, .05, -.4}, {3., 0., -4., 1., 2.}, {-.1, .2, .3, 0., .1}};
    static const double norms[3] = {0.55, 5.477225575051661, 0.3872983346207417};
    static const double expected[5] = {0.22669502837083513, -0.8136877736189716, 1.9279446034372667,
                                       -0.0078165836452420839, 1.5869915160032615};
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0, 0, 0, 0, 0, 0, 0};
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
static double adamw_alone(const struct optimizer_settings *s, double p, bool decays, const double *gradient, int steps,
                          double rate)
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
    const struct optimizer_settings settings = {0.8, 0.9, 1e-6, 0.3, 0, 0, 0, 0, 0, 0, 0, 0}; /* not clipped */
    struct bench bench;
    bench_open(&bench, doubles(), &settings);
    double *parameters = bench.parameters.data, *gradients = bench.gradients.data;
    ok(parameters_initialise(&bench.parameters, 1, &error));
    const size_t bytes = (size_t)bench.layout->elements * sizeof(double);
    double *before = malloc(bytes);
    memcpy(before, parameters, bytes);
    for (int step = 0; step < 4; step++) {
        double norm;
        for (int64_t i = 0; i < bench.layout->elements; i++)
            gradients[i] = 10 * random_normal(4, (uint64_t)step, (uint64_t)i);
        assert_true(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.01, step, &norm));
    }
    for (int64_t i = 0; i < bench.layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &bench.layout->tensors[i];
        const bool vector =
            ends_with(tensor->parameter.name, "norm.weight") || ends_with(tensor->parameter.name, ".bias");
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
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0, 0, 0, 0, 0, 0, 0};
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
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0, 0, 0, 0, 0, 0, 0};
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

/* The loss is the sum of a w²/2 + w⁴/4 - b w: its gradient depends on where it is taken. */
static const double slopes[5] = {1, -.5, 2, .7, 1.3}, pulls[5] = {.3, -.2, .1, .05, -.4};
static const double quartic_start[5] = {.5, -1, 2, .25, 1.5};

/* The five elements: three of a matrix, which decays, two of a norm's weight, which does not. */
static double *quartic_at(const struct bench *bench, const struct parameters *buffer, int i)
{
    const int64_t tensor = i < 3 ? bench->layout->embedding : bench->layout->norm_weight;
    return (double *)parameters_view(buffer, tensor).data + (i < 3 ? i : i - 3);
}

static void quartic_gradient(struct bench *bench)
{
    for (int64_t i = 0; i < bench->layout->elements; i++) ((double *)bench->gradients.data)[i] = 0;
    for (int i = 0; i < 5; i++) {
        const double w = *quartic_at(bench, &bench->parameters, i);
        *quartic_at(bench, &bench->gradients, i) = slopes[i] * w + w * w * w - pulls[i];
    }
}

static void quartic_step(struct bench *bench, double rate, int64_t step)
{
    double norm;
    if (bench->optimizer.kind->gradients == 2) quartic_gradient(bench);
    assert_true(optimizer_depart(&bench->optimizer, &bench->parameters, &bench->gradients));
    quartic_gradient(bench);
    assert_true(optimizer_step(&bench->optimizer, &bench->parameters, &bench->gradients, rate, step, &norm));
}

/* What the paper's own equations give in float64, with torch.optim.AdamW for the step of sam and asam (rate 0.1, four
 * steps) and the authors' reference implementation of schedule-free AdamW (six steps, three of them warm-up). */
static void test_gradients_away_from_the_parameters_give_the_authors_numbers(void **state)
{
    (void)state;
    static const struct {
        const struct optimizer_kind *kind;
        double rho, eta;
        int steps, warmup;
        double expected[5];
    } cases[] = {
        {&optimizer_sam,
         0.05,
         0,
         4,
         0,
         {0.16426624121419642, -0.7358125997402202, 1.5310237069342003, -0.04033171381378219, 1.1038765398897135}},
        {&optimizer_asam,
         0.5,
         0.01,
         4,
         0,
         {0.1642767256310652, -0.7348495243416642, 1.5319016356634965, -0.04036983182037819, 1.104566907276571}},
        {&optimizer_schedule_free,
         0,
         0,
         6,
         3,
         {0.28526509088567575, -0.8474634855586517, 1.6462203211875472, 0.06714835324524833, 1.175163218041528}},
    };
    for (int c = 0; c < 3; c++) {
        const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 0, cases[c].rho, cases[c].eta, 0, 0, 0, 0, 0};
        struct bench bench;
        bench_open_with(&bench, cases[c].kind, doubles(), &settings);
        for (int i = 0; i < 5; i++) *quartic_at(&bench, &bench.parameters, i) = quartic_start[i];
        for (int step = 0; step < cases[c].steps; step++)
            quartic_step(&bench, step < cases[c].warmup ? 0.1 * (step + 1) / cases[c].warmup : 0.1, step);
        for (int i = 0; i < 5; i++)
            if (!(fabs(*quartic_at(&bench, &bench.parameters, i) - cases[c].expected[i]) < 1e-13))
                fail_msg("%s, element %d: %.17g, expected %.17g", cases[c].kind->name, i,
                         *quartic_at(&bench, &bench.parameters, i), cases[c].expected[i]);
        bench_close(&bench);
    }
}

/* The point where sam takes its gradient lies rho away, and the way back is exact. */
static void test_the_climb_has_the_length_asked_for_and_is_taken_back_to_the_bit(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0.3, 0.01, 0, 0, 0, 0, 0};
    struct backend *backend = NULL;
    struct bench bench;
    ok(backend_cpu_new(NULL, &backend, &error));
    bench_open_with(&bench, &optimizer_sam, backend, &settings);
    ok(parameters_initialise(&bench.parameters, 1, &error));
    const size_t bytes = (size_t)bench.layout->elements * sizeof(float);
    float *before = malloc(bytes), *parameters = bench.parameters.data, *gradients = bench.gradients.data;
    memcpy(before, parameters, bytes);
    for (int64_t i = 0; i < bench.layout->elements; i++) gradients[i] = (float)random_normal(4, 1, (uint64_t)i);
    assert_true(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients));
    double square = 0;
    for (int64_t i = 0; i < bench.layout->elements; i++) square += pow((double)parameters[i] - (double)before[i], 2);
    assert_true(fabs(sqrt(square) - 0.3) < 1e-6);
    optimizer_return(&bench.optimizer, &bench.parameters);
    assert_memory_equal(before, parameters, bytes);
    /* nor does a second gradient that is not finite move anything */
    for (int64_t i = 0; i < bench.layout->elements; i++) gradients[i] = 1;
    assert_true(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients));
    double norm;
    gradients[3] = NAN;
    assert_false(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.1, 0, &norm));
    assert_memory_equal(before, parameters, bytes);
    assert_false(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients)); /* nor does the first */
    assert_memory_equal(before, parameters, bytes);
    free(before);
    bench_close(&bench);
}

/* Where there is no way up, the step is AdamW's. */
static void test_a_vanishing_gradient_climbs_nowhere(void **state)
{
    (void)state;
    const struct optimizer_kind *kinds[] = {&optimizer_sam, &optimizer_asam};
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0.3, 0, 0, 0, 0, 0, 0};
    for (int k = 0; k < 2; k++) {
        struct bench bench;
        bench_open_with(&bench, kinds[k], doubles(), &settings);
        assert_true(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients));
        for (int64_t i = 0; i < bench.layout->elements; i++) assert_true(((double *)bench.parameters.data)[i] == 0);
        bench_close(&bench);
    }
}

/* ASAM's purpose: rescale a weight and its neighbour inversely (the loss does not change), and the climb rescales with
 * them. */
static void test_asam_climbs_the_same_way_in_rescaled_weights(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0, 0, 0.5, 0, 0, 0, 0, 0, 0};
    const double scale[5] = {1, 8, 0.125, 1, 1};
    double away[2][5];
    for (int r = 0; r < 2; r++) {
        struct bench bench;
        bench_open_with(&bench, &optimizer_asam, doubles(), &settings);
        for (int i = 0; i < 5; i++) {
            const double by = r == 1 ? scale[i] : 1;
            *quartic_at(&bench, &bench.parameters, i) = quartic_start[i] * by;
            *quartic_at(&bench, &bench.gradients, i) = pulls[i] / by;
        }
        assert_true(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients));
        for (int i = 0; i < 5; i++) away[r][i] = *quartic_at(&bench, &bench.parameters, i);
        bench_close(&bench);
    }
    for (int i = 0; i < 5; i++) assert_true(fabs(away[1][i] - scale[i] * away[0][i]) < 1e-14 * scale[i]);
}

/* Biases are not rescaled: the climb is rho (|w|² g of the others, g of biases) over the norm of (|w| g, g). */
static void test_asam_leaves_biases_in_their_own_coordinates(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0, 0, 0.5, 0, 0, 0, 0, 0, 0};
    struct bench bench;
    bench_open_with(&bench, &optimizer_asam, doubles(), &settings);
    double *weight = parameters_view(&bench.parameters, bench.layout->embedding).data;
    double *bias = parameters_view(&bench.parameters, bench.layout->norm_bias).data;
    double *dweight = parameters_view(&bench.gradients, bench.layout->embedding).data;
    double *dbias = parameters_view(&bench.gradients, bench.layout->norm_bias).data;
    weight[0] = -2;
    bias[0] = 3;
    dweight[0] = 0.75;
    dbias[0] = 2;
    assert_true(optimizer_depart(&bench.optimizer, &bench.parameters, &bench.gradients));
    const double norm = 2.5; /* of (2 * 0.75, 2) */
    assert_true(fabs(weight[0] - (-2 + 0.5 * 4 * 0.75 / norm)) < 1e-15);
    assert_true(fabs(bias[0] - (3 + 0.5 * 2 / norm)) < 1e-15);
    bench_close(&bench);
}

/* AdamW's as language models are trained, the others' as in their papers. */
static void test_settings_that_are_not_given(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fallback;
    } all[] = {{"beta1", "0.9"}, {"beta2", "0.95"}, {"epsilon", "1e-8"}, {"weight_decay", "0.1"}, {"clip", "1"}};
    static const struct {
        const struct param *rows;
        const char *rho, *eta;
    } kinds[] = {{optimizer_adamw_params, NULL, NULL},
                 {optimizer_sam_params, "0.05", NULL},
                 {optimizer_asam_params, "0.5", "0.01"},
                 {optimizer_schedule_free_params, NULL, NULL},
                 {optimizer_muon_params, NULL, NULL}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        int found = 0, own = 0;
        for (const struct param *row = kinds[k].rows; row->name != NULL; row++) {
            for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
                if (strcmp(row->name, all[i].name) != 0) continue;
                assert_string_equal(row->fallback, all[i].fallback);
                found++;
            }
            const char *expected = strcmp(row->name, "rho") == 0   ? kinds[k].rho
                                   : strcmp(row->name, "eta") == 0 ? kinds[k].eta
                                                                   : NULL;
            if (expected == NULL) continue;
            assert_string_equal(row->fallback, expected);
            own++;
        }
        assert_int_equal(found, 5);
        assert_int_equal(own, (kinds[k].rho != NULL) + (kinds[k].eta != NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_gives_pytorchs_numbers),
        cmocka_unit_test(test_adamw_on_a_whole_model),
        cmocka_unit_test(test_the_fast_backend_agrees),
        cmocka_unit_test(test_a_gradient_that_is_not_finite_changes_nothing),
        cmocka_unit_test(test_gradients_away_from_the_parameters_give_the_authors_numbers),
        cmocka_unit_test(test_the_climb_has_the_length_asked_for_and_is_taken_back_to_the_bit),
        cmocka_unit_test(test_a_vanishing_gradient_climbs_nowhere),
        cmocka_unit_test(test_asam_climbs_the_same_way_in_rescaled_weights),
        cmocka_unit_test(test_asam_leaves_biases_in_their_own_coordinates),
        cmocka_unit_test(test_settings_that_are_not_given),
    };
    return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
