/* SOAP against the numbers of an independent float64 implementation (tests/tools/reference_soap.py), at settings that
 * are none of the defaults; the first bases; what is kept. */
#include "base/memory.h"
#include "base/random.h"
#include "engine/files/scratch.h"
#include "train/optimizer.h"
#include "train/state.h"
#include "unit.h"

#include "soap_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                  \
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":7,\"hidden_size\":4,\"num_hidden_layers\":1," \
    "\"num_attention_heads\":1,"                                                               \
    "\"intermediate_size\":6,\"max_position_embeddings\":8,\"rotary_pct\":0.5}"

static const struct optimizer_settings usual = {.beta1 = 0.95,
                                                .beta2 = 0.95,
                                                .epsilon = 1e-8,
                                                .weight_decay = 0.01,
                                                .clip = 1,
                                                .precondition_frequency = 2,
                                                .max_precond_dim = 10000};

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

static void bench_open(struct bench *bench, const struct optimizer_kind *kind,
                       const struct optimizer_settings *settings, bool fast)
{
    struct model_config config;
    ok(fast ? backend_cpu_new(NULL, &bench->backend, &error)
            : backend_reference_new(true, NULL, &bench->backend, &error));
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, bench->backend, "parameters", &error));
    ok(parameters_init(&bench->gradients, bench->layout, bench->backend, "gradients", &error));
    ok(optimizer_init(&bench->optimizer, kind, settings, bench->layout, bench->backend, &error));
    ok(parameters_initialise(&bench->parameters, 1, &error));
}

static void bench_close(struct bench *bench)
{
    optimizer_reset(&bench->optimizer);
    parameters_reset(&bench->gradients);
    parameters_reset(&bench->parameters);
    parameters_layout_free(bench->layout);
    backend_free(bench->backend);
}

static void gradients_draw(struct bench *bench, int step)
{
    const int64_t count = bench->layout->elements;
    double *values = calloc((size_t)count, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = (double)(float)random_normal(4, (uint64_t)step, (uint64_t)i);
    bench->backend->ops->upload(bench->backend, parameters_all(&bench->gradients), values, DTYPE_F64);
    free(values);
}

static void bench_step(struct bench *bench, int step, double rate)
{
    double norm;
    gradients_draw(bench, step);
    assert_true(optimizer_step(&bench->optimizer, &bench->parameters, &bench->gradients, rate, step, &norm));
}

static double wave(int tensor, int step, int i, int j)
{
    return sin(1.0 + step + 0.9 * tensor + 0.7 * i * (j + 1) + 1.3 * j * j);
}

/* As reference_soap.py has it. */
static double gradient_of(bool within, int tensor, int step, struct matrix m, int i, int j)
{
    if (!within || step == 0) return wave(tensor, within ? 0 : step, i, j);
    const bool tall = m.rows >= m.columns;
    double sum = 0;
    for (int k = 0; k < (tall ? m.columns : m.rows); k++) {
        const int a = tall ? k : i, b = tall ? j : k;
        const double mixed = (a == b) + 0.5 * wave(tensor + 7, step, a, b);
        sum += tall ? wave(tensor, 0, i, k) * mixed : mixed * wave(tensor, 0, k, j);
    }
    return sum;
}

static struct matrix view_of(const struct bench *bench, const struct parameters *of, int tensor)
{
    const int64_t index = parameters_find(bench->layout, soap_tensors[tensor]);
    assert_true(index >= 0);
    return parameters_view(of, index);
}

static void case_begin(struct bench *bench, const struct soap_case *one)
{
    const struct optimizer_settings settings = {.beta1 = one->beta1,
                                                .beta2 = one->beta2,
                                                .epsilon = one->epsilon,
                                                .weight_decay = one->weight_decay,
                                                .clip = one->clip,
                                                .precondition_frequency = one->frequency,
                                                .max_precond_dim = one->most};
    bench_open(bench, &optimizer_soap, &settings, false);
    for (int k = 0; k < SOAP_TENSORS; k++) {
        const struct matrix w = view_of(bench, &bench->parameters, k);
        for (int i = 0; i < w.rows; i++)
            for (int j = 0; j < w.columns; j++)
                ((double *)w.data)[i * w.columns + j] = 0.1 * ((3 * i + 5 * j) % 7) - 0.3;
    }
}

static void case_step(struct bench *bench, const struct soap_case *one, int step)
{
    double norm;
    bench->backend->ops->fill(bench->backend, parameters_all(&bench->gradients), 0);
    for (int k = 0; k < SOAP_TENSORS; k++) {
        const struct matrix g = view_of(bench, &bench->gradients, k);
        for (int i = 0; i < g.rows; i++)
            for (int j = 0; j < g.columns; j++)
                ((double *)g.data)[i * g.columns + j] = gradient_of(one->within, k, step, g, i, j);
    }
    assert_true(optimizer_step(&bench->optimizer, &bench->parameters, &bench->gradients, one->rate, step, &norm));
    assert_true(one->clip == 0 || norm > one->clip); /* the case that clips does */
}

static void test_the_numbers_of_an_independent_implementation(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof soap_cases / sizeof soap_cases[0]; c++) {
        const struct soap_case *one = &soap_cases[c];
        const double *expected = one->ends;
        struct bench bench;
        case_begin(&bench, one);
        for (int step = 0; step < one->steps; step++) case_step(&bench, one, step);
        for (int k = 0; k < SOAP_TENSORS; k++) {
            const struct matrix w = view_of(&bench, &bench.parameters, k);
            /* Bases are off by the rounding over the gap between eigenvalues, some 1e-3 of them here. */
            for (int64_t i = 0; i < w.rows * w.columns; i++, expected++)
                if (!(fabs(((double *)w.data)[i] - *expected) < 1e-10))
                    fail_msg("case %zu, %s, %d: %.15g, not %.15g", c, soap_tensors[k], (int)i, ((double *)w.data)[i],
                             *expected);
        }
        assert_ptr_equal(expected, one->ends + SOAP_NUMBERS);
        bench_close(&bench);
    }
}

/* gram [n, n], the mean of outer products of `m` with itself along `side`, and its basis, as they lie in what is kept:
 * of each matrix in turn the left gram and basis and the right ones, each from a multiple of 16 on. */
static const double *kept_of(const struct bench *bench, const char *name, bool right, int *n)
{
    const double *at = bench->optimizer.kept.data;
    for (int64_t i = 0; i < bench->layout->tensor_count; i++) {
        const struct parameter *parameter = &bench->layout->tensors[i].parameter;
        if (!bench->layout->tensors[i].decays) continue;
        for (int side = 0; side < 2; side++) {
            *n = (int)(side == 1 ? parameter->columns : parameter->rows);
            if (strcmp(parameter->name, name) == 0 && side == (right ? 1 : 0)) return at;
            at += 2 * ((*n * *n + 15) / 16 * 16);
        }
    }
    fail_msg("%s is not kept", name);
    return NULL;
}

/* Qᵀ Q = 1 and Qᵀ gram Q diagonal, and falling, for the longer side of a matrix too, whose gram has a null space. */
static void test_the_first_bases_diagonalise_both_grams(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, &optimizer_soap, &usual, false);
    bench_step(&bench, 0, 0.1);
    for (int k = 0; k < SOAP_TENSORS; k++)
        for (int right = 0; right < 2; right++) {
            double last = INFINITY;
            int n = 0;
            if (strstr(soap_tensors[k], "norm") != NULL) continue;
            const double *gram = kept_of(&bench, soap_tensors[k], right == 1, &n);
            const double *basis = gram + (n * n + 15) / 16 * 16;
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    double unit = 0, turned = 0;
                    for (int a = 0; a < n; a++) {
                        unit += basis[a * n + i] * basis[a * n + j];
                        for (int b = 0; b < n; b++) turned += basis[a * n + i] * gram[a * n + b] * basis[b * n + j];
                    }
                    assert_true(fabs(unit - (i == j)) < 1e-13);
                    if (i != j) assert_true(fabs(turned) < 1e-13);
                    if (i != j) continue;
                    assert_true(turned > -1e-13 && turned < last + 1e-13);
                    last = turned;
                }
        }
    bench_close(&bench);
}

/* The first step finds bases and moves nothing, biases neither. */
static void test_the_first_step_moves_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, &optimizer_soap, &usual, false);
    const size_t bytes = (size_t)bench.layout->elements * sizeof(double);
    double *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, bench.parameters.data, bytes);
    bench_step(&bench, 0, 0.1);
    assert_memory_equal(before, bench.parameters.data, bytes);
    bench_step(&bench, 1, 0.1);
    assert_memory_not_equal(before, bench.parameters.data, bytes);
    free(before);
    bench_close(&bench);
}

static void test_the_fast_backend_agrees(void **state)
{
    (void)state;
    struct optimizer_settings settings = usual;
    struct bench slow, fast;
    settings.epsilon = 1e-2; /* so that what falls into null spaces, where bases differ, is small beside it */
    settings.max_precond_dim = 4;
    bench_open(&slow, &optimizer_soap, &settings, false);
    bench_open(&fast, &optimizer_soap, &settings, true);
    for (int step = 0; step < 7; step++) {
        bench_step(&slow, step, 0.01);
        bench_step(&fast, step, 0.01);
    }
    /* six updates of at most about 0.01; bases are off by the rounding, 6e-8, over the gaps between eigenvalues */
    for (int64_t i = 0; i < slow.layout->elements; i++)
        assert_true(fabs(((double *)slow.parameters.data)[i] - (double)((float *)fast.parameters.data)[i]) < 2e-5);
    bench_close(&slow);
    bench_close(&fast);
}

/* Gradients that are zero, as of tokens that no text has, leave weights to the decay. */
static void test_a_gradient_of_zero_moves_nothing_but_by_decay(void **state)
{
    (void)state;
    struct bench bench;
    double norm, before[24];
    bench_open(&bench, &optimizer_soap, &usual, false);
    const double *w = view_of(&bench, &bench.parameters, 4).data;
    memcpy(before, w, sizeof before);
    for (int step = 0; step < 5; step++) {
        bench.backend->ops->fill(bench.backend, parameters_all(&bench.gradients), 0);
        assert_true(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.1, step, &norm));
    }
    for (int i = 0; i < 24; i++) assert_true(fabs(w[i] - pow(1 - 0.001, 4) * before[i]) < 1e-15);
    bench_close(&bench);
}

/* A gram beyond the largest number: no basis, and weights that say so at the next step. */
static void test_a_gradient_too_large_for_its_gram_ends_in_no_number(void **state)
{
    (void)state;
    struct optimizer_settings settings = usual;
    struct bench bench;
    double norm;
    settings.clip = 0;
    bench_open(&bench, &optimizer_soap, &settings, true);
    for (int step = 0; step < 2; step++) {
        bench.backend->ops->fill(bench.backend, parameters_all(&bench.gradients), 0);
        bench.backend->ops->fill(bench.backend, view_of(&bench, &bench.gradients, 3), step == 0 ? 1e25 : 1);
        assert_true(optimizer_step(&bench.optimizer, &bench.parameters, &bench.gradients, 0.1, step, &norm));
    }
    assert_false(bench.backend->ops->finite(bench.backend, view_of(&bench, &bench.parameters, 3)));
    bench_close(&bench);
}

/* Written, read into another optimizer, and on: the bits of what was not interrupted, steps with new bases among them.
 * One that rotates other sides does not take it. */
static void test_a_saved_state_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    struct optimizer_settings other = usual;
    struct bench whole, again, smaller;
    struct scratch scratch;
    struct state saved = {.step = 3, .batch_sequences = 1, .sequence_length = 2}, found;
    scratch_open(&scratch);
    const char *path = scratch_path(&scratch, "state");
    other.max_precond_dim = 4;
    bench_open(&whole, &optimizer_soap, &usual, true);
    bench_open(&again, &optimizer_soap, &usual, true);
    bench_open(&smaller, &optimizer_soap, &other, true);
    for (int step = 0; step < 3; step++) bench_step(&whole, step, 0.01);
    ok(state_write(path, &saved, &whole.parameters, &whole.optimizer, NULL, &error));
    ok(state_read(path, &found, &again.parameters, &again.optimizer, NULL, &error));
    assert_int_equal(found.step, 3);
    memory_free(found.checkpoints);
    for (int step = 3; step < 8; step++) {
        bench_step(&whole, step, 0.01);
        bench_step(&again, step, 0.01);
    }
    const size_t elements = (size_t)whole.layout->elements * sizeof(float);
    assert_memory_equal(whole.parameters.data, again.parameters.data, elements);
    assert_memory_equal(whole.optimizer.kept.data, again.optimizer.kept.data,
                        (size_t)whole.optimizer.kept.columns * sizeof(float));
    for (int i = 0; i < 2; i++)
        assert_memory_equal(whole.optimizer.state[i].data, again.optimizer.state[i].data, elements);
    assert_int_equal(state_read(path, &found, &smaller.parameters, &smaller.optimizer, NULL, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "with other settings"));
    bench_close(&smaller);
    bench_close(&again);
    bench_close(&whole);
    scratch_close(&scratch);
}

/* Of MODEL: embedding and output [7, 4], attention [12, 4] and [4, 4], MLP [6, 4] and [4, 6]. Squares begin at
 * multiples of 16. */
static void test_what_it_takes_and_what_it_costs(void **state)
{
    (void)state;
    static const int longer[] = {7, 7, 12, 6, 6}; /* the sides that are not 4, where there is one */
    struct optimizer_settings settings = usual;
    struct bench bench;
    double turns = 0;
    bench_open(&bench, &optimizer_soap, &settings, false);
    struct optimizer_memory memory = optimizer_memory(&optimizer_soap, &settings, bench.layout);
    assert_int_equal(memory.kept, 2 * (2 * (64 + 16) + (144 + 16) + 2 * 16 + 2 * (48 + 16)));
    assert_int_equal(memory.scratch, 2 * 48 + 2 * 144 + 32 * 32 + 2 * 32 * 12);
    assert_int_equal(memory.host, 12 * 32 + 32 * 32 + 32);
    settings.max_precond_dim = 4;
    memory = optimizer_memory(&optimizer_soap, &settings, bench.layout);
    assert_int_equal(memory.kept, 2 * 7 * 16);
    /* Five steps, two bases after the first: three turns a step, of one side 2 r c 4 operations, and two for each
     * basis, which costs 2 + 8/3 cubes; at first 10 cubes, and 8/3 for the other side. */
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++) turns += 2 * longer[i] * 4 * 4;
    const double square = 2 * 4 * 4 * 8, each = (3 * 5 + 2 * 2) * (turns + square), cubes = 7 * 64 * (2 + 8.0 / 3);
    const double expected = each + 2 * cubes + 6 * 10 * 64 + 8.0 / 3 * 64;
    assert_true(fabs(optimizer_work(&optimizer_soap, &settings, bench.layout, 5) / expected - 1) < 1e-12);
    settings.max_precond_dim = 3;
    assert_true(optimizer_work(&optimizer_soap, &settings, bench.layout, 5) == 0);
    memory = optimizer_memory(&optimizer_soap, &settings, bench.layout);
    assert_true(memory.kept == 0 && memory.scratch == 0 && memory.host == 0);
    bench_close(&bench);
}

static void test_settings_that_are_not_given_are_the_authors(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fallback;
    } all[] = {{"beta1", "0.95"},           {"beta2", "0.95"}, {"epsilon", "1e-8"},
               {"weight_decay", "0.01"},    {"clip", "1"},     {"precondition_frequency", "10"},
               {"max_precond_dim", "10000"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_string_equal(optimizer_soap_params[i].name, all[i].name);
        assert_string_equal(optimizer_soap_params[i].fallback, all[i].fallback);
    }
    assert_null(optimizer_soap_params[sizeof all / sizeof all[0]].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_numbers_of_an_independent_implementation),
        cmocka_unit_test(test_the_first_bases_diagonalise_both_grams),
        cmocka_unit_test(test_the_first_step_moves_nothing),
        cmocka_unit_test(test_the_fast_backend_agrees),
        cmocka_unit_test(test_a_gradient_of_zero_moves_nothing_but_by_decay),
        cmocka_unit_test(test_a_gradient_too_large_for_its_gram_ends_in_no_number),
        cmocka_unit_test(test_a_saved_state_goes_on_with_the_same_bits),
        cmocka_unit_test(test_what_it_takes_and_what_it_costs),
        cmocka_unit_test(test_settings_that_are_not_given_are_the_authors),
    };
    return cmocka_run_group_tests_name("soap", tests, NULL, NULL);
}
