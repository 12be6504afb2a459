/* Hessian-vector products of whole models, by walks and the head alone: against differences of the gradient and for
 * symmetry (double), and the fast backend against doubles. */
#include "base/memory.h"
#include "engine/model/tiny_models.h"
#include "model/gradient.h"
#include "model/head.h"
#include "model/walk.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 3 }; /* of the deepest tiny model */

struct bench {
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters, direction, product, gradients;
    struct chunks chunks;
    struct gradient *gradient;
    struct matrix cosine, sine, hidden[LAYERS + 1], hidden_t[LAYERS + 1], dhidden, dhidden_t;
    struct walk walk;
    struct matrix block[PROGRAM_PARAMETERS], block_t[PROGRAM_PARAMETERS]; /* lent to the walk */
    struct head head;
    struct embed embed;
    double *losses;
};

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static struct matrix hidden_new(const struct bench *bench)
{
    struct matrix m =
        matrix_of(NULL, bench->chunks.largest, bench->layout->config.hidden_size, bench->backend->ops->element);
    ok(bench->backend->ops->allocate(bench->backend, m.rows * m.columns, "hidden states", &m.data, &error));
    return m;
}

static void bench_open(struct bench *bench, int model, struct backend *backend)
{
    const struct model_config config = tiny_config(model);
    const struct sequences sequences = tiny_sequences(&config);
    *bench = (struct bench){.backend = backend};
    ok(parameters_layout_new(&config, &bench->layout, &error));
    struct parameters *const buffers[] = {&bench->parameters, &bench->direction, &bench->product, &bench->gradients};
    for (int i = 0; i < 4; i++) ok(parameters_init(buffers[i], bench->layout, backend, "parameters", &error));
    ok(chunks_init(&sequences, 20, &bench->chunks, &error)); /* several chunks: the product accumulates */
    ok(gradient_new(&bench->parameters, GRADIENT_KEEP, bench->chunks.largest, bench->chunks.longest, &bench->gradient,
                    &error));
    ok(model_rope_tables(&config, backend, bench->chunks.longest, &bench->cosine, &bench->sine, &error));
    ok(walk_init(&bench->walk, &config, backend, WALK_TANGENT, bench->chunks.largest, bench->cosine, bench->sine,
                 &error));
    const struct head_weights last = parameters_head(&bench->parameters);
    const struct embed_weights first = parameters_embed(&bench->parameters);
    ok(head_init(&bench->head, &config, backend, &last, HEAD_TANGENT, &error));
    ok(embed_init(&bench->embed, &bench->layout->config, backend, &first, bench->chunks.largest, &error));
    for (int64_t layer = 0; layer <= config.layers; layer++) {
        bench->hidden[layer] = hidden_new(bench);
        bench->hidden_t[layer] = hidden_new(bench);
    }
    bench->dhidden = hidden_new(bench);
    bench->dhidden_t = hidden_new(bench);
    ok(memory_new(bench->chunks.tokens, sizeof(double), "losses", &bench->losses, &error));
}

static void bench_close(struct bench *bench)
{
    for (int64_t layer = 0; layer <= bench->layout->config.layers; layer++) {
        matrix_release(bench->backend, &bench->hidden[layer]);
        matrix_release(bench->backend, &bench->hidden_t[layer]);
    }
    matrix_release(bench->backend, &bench->dhidden);
    matrix_release(bench->backend, &bench->dhidden_t);
    head_reset(&bench->head);
    embed_reset(&bench->embed);
    walk_reset(&bench->walk);
    matrix_release(bench->backend, &bench->cosine); /* the sines lie behind */
    gradient_free(bench->gradient);
    memory_free(bench->losses);
    chunks_reset(&bench->chunks);
    struct parameters *const buffers[] = {&bench->parameters, &bench->direction, &bench->product, &bench->gradients};
    for (int i = 0; i < 4; i++) parameters_reset(buffers[i]);
    parameters_layout_free(bench->layout);
    backend_free(bench->backend);
}

static double *flat(const struct parameters *parameters)
{
    double *out = malloc((size_t)parameters->layout->elements * sizeof *out);
    assert_non_null(out);
    parameters->backend->ops->download(parameters->backend, parameters_all(parameters), out, DTYPE_F64);
    return out;
}

/* Numbers that a float holds, so that every backend gets the same. Gaps stay zero. */
static void direction_draw(struct bench *bench, uint64_t seed)
{
    double *values = calloc((size_t)bench->layout->elements, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < bench->layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &bench->layout->tensors[i];
        if (tensor->parameter.constant) continue;
        for (int64_t k = 0; k < tensor->parameter.rows * tensor->parameter.columns; k++)
            values[tensor->offset + k] = (double)(float)random_normal(seed, (uint64_t)i, (uint64_t)k);
    }
    bench->backend->ops->upload(bench->backend, parameters_all(&bench->direction), values, DTYPE_F64);
    free(values);
}

static void walk_layer(struct bench *bench, const struct batch *batch, int64_t layer)
{
    parameters_block(&bench->parameters, layer, bench->block);
    parameters_block(&bench->direction, layer, bench->block_t);
    walk_tangent(&bench->walk, &bench->layout->programs[layer], batch, bench->block, bench->block_t,
                 matrix_rows(bench->hidden[layer], 0, batch->tokens),
                 matrix_rows(bench->hidden_t[layer], 0, batch->tokens));
}

static void product_add(struct bench *bench, const struct chunk *chunk)
{
    const struct batch *batch = &chunk->batch;
    struct backend *backend = bench->backend;
    const int64_t layers = bench->layout->config.layers, tokens = batch->tokens;
    const struct matrix dhidden = matrix_rows(bench->dhidden, 0, tokens),
                        dhidden_t = matrix_rows(bench->dhidden_t, 0, tokens);
    const struct embed_weights along = parameters_embed(&bench->direction),
                               into_first = parameters_embed(&bench->product);
    embed_forward(&bench->embed, batch, matrix_rows(bench->hidden[0], 0, tokens));
    embed_tangent(&bench->embed, batch, &along, matrix_rows(bench->hidden_t[0], 0, tokens));
    for (int64_t layer = 0; layer < layers; layer++) {
        const int output = bench->layout->programs[layer].output;
        walk_layer(bench, batch, layer);
        backend->ops->add(backend, matrix_rows(bench->hidden[layer + 1], 0, tokens), bench->walk.values[output], 1, 0);
        backend->ops->add(backend, matrix_rows(bench->hidden_t[layer + 1], 0, tokens),
                          bench->walk.value_tangents[output], 1, 0);
    }
    const struct head_weights directions = parameters_head(&bench->direction),
                              products = parameters_head(&bench->product);
    head_backward_tangent(&bench->head, matrix_rows(bench->hidden[layers], 0, tokens),
                          matrix_rows(bench->hidden_t[layers], 0, tokens), batch, 1 / (double)bench->chunks.predictions,
                          &directions, bench->losses + chunk->first_token, dhidden, dhidden_t, &products);
    for (int64_t layer = layers - 1; layer >= 0; layer--) {
        struct matrix into[PROGRAM_PARAMETERS];
        parameters_block(&bench->product, layer, into);
        walk_layer(bench, batch, layer);
        walk_backward_tangent(&bench->walk, dhidden, dhidden_t, into);
    }
    embed_backward_tangent(&bench->embed, batch, &along, dhidden, dhidden_t, &into_first);
}

/* The Hessian of the mean loss times the direction; the caller frees it. */
static double *product(struct bench *bench)
{
    bench->backend->ops->fill(bench->backend, parameters_all(&bench->product), 0);
    for (int64_t i = 0; i < bench->chunks.count; i++) product_add(bench, &bench->chunks.chunks[i]);
    return flat(&bench->product);
}

static double *gradient_at(struct bench *bench, double by)
{
    struct backend *backend = bench->backend;
    const struct matrix parameters = parameters_all(&bench->parameters), direction = parameters_all(&bench->direction);
    backend->ops->fill(backend, parameters_all(&bench->gradients), 0);
    backend->ops->add(backend, parameters, direction, by, 1);
    for (int64_t i = 0; i < bench->chunks.count; i++)
        gradient_add(bench->gradient, &bench->chunks.chunks[i].batch, 1 / (double)bench->chunks.predictions,
                     bench->losses + bench->chunks.chunks[i].first_token, &bench->gradients);
    backend->ops->add(backend, parameters, direction, -by, 1);
    return flat(&bench->gradients);
}

/* Over five points: truncation h⁴ / 30 times the fifth derivative along a direction of norm 20 or so, rounding 2^-53 /
 * h times the gradient. */
static double *difference(struct bench *bench)
{
    static const double steps[] = {-2, -1, 1, 2}, weights[] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    const double step = 3e-5;
    double *sum = calloc((size_t)bench->layout->elements, sizeof *sum);
    assert_non_null(sum);
    for (int i = 0; i < 4; i++) {
        double *g = gradient_at(bench, steps[i] * step);
        for (int64_t k = 0; k < bench->layout->elements; k++) sum[k] += weights[i] * g[k] / step;
        free(g);
    }
    return sum;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static struct backend *doubles(void)
{
    struct backend *backend = NULL;
    ok(backend_reference_new(true, NULL, &backend, &error));
    return backend;
}

/* Each tensor of the product apart, by Euclidean norm. */
static void hold(const struct bench *bench, int model, const double *found, const double *expected, double tolerance)
{
    const double whole = sqrt(dot(expected, expected, bench->layout->elements));
    double worst = 0;
    for (int64_t i = 0; i < bench->layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &bench->layout->tensors[i];
        const int64_t count = tensor->parameter.rows * tensor->parameter.columns;
        double apart = 0;
        if (tensor->parameter.constant) continue;
        for (int64_t k = tensor->offset; k < tensor->offset + count; k++) apart += pow(found[k] - expected[k], 2);
        const double size = sqrt(dot(expected + tensor->offset, expected + tensor->offset, count));
        worst = fmax(worst, sqrt(apart) / (size + 1e-2 * whole));
        assert_true(size > 0); /* the tensor takes part */
        if (!(sqrt(apart) <= tolerance * (size + 1e-2 * whole)))
            fail_msg("model %d, %s: off by %.3g of %.3g", model, tensor->parameter.name, sqrt(apart), size);
    }
    if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
        print_message("model %d: worst %.3g of bound %.3g\n", model, worst, tolerance);
}

static void test_product_matches_differences_of_the_gradient(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        struct bench bench;
        bench_open(&bench, model, doubles());
        tiny_randomise(&bench.parameters);
        direction_draw(&bench, 4);
        double *found = product(&bench), *expected = difference(&bench);
        hold(&bench, model, found, expected, 2e-9);
        free(found);
        free(expected);
        bench_close(&bench);
    }
}

static void test_hessian_is_symmetric(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        struct bench bench;
        bench_open(&bench, model, doubles());
        tiny_randomise(&bench.parameters);
        double *directions[2], *products[2];
        for (int i = 0; i < 2; i++) {
            direction_draw(&bench, (uint64_t)(6 + i));
            directions[i] = flat(&bench.direction);
            products[i] = product(&bench);
        }
        const int64_t count = bench.layout->elements;
        const double one = dot(directions[0], products[1], count), two = dot(directions[1], products[0], count);
        const double size = sqrt(dot(directions[0], directions[0], count) * dot(products[1], products[1], count));
        if (!(fabs(one - two) <= 1e-10 * fmin(size, fabs(one))))
            fail_msg("model %d: uHv %.15g, vHu %.15g", model, one, two);
        for (int i = 0; i < 2; i++) {
            free(directions[i]);
            free(products[i]);
        }
        bench_close(&bench);
    }
}

/* The same numbers, that a float holds, in all three. */
static void parameters_share(struct bench *benches, int count)
{
    tiny_randomise(&benches[0].parameters);
    double *values = flat(&benches[0].parameters);
    for (int64_t k = 0; k < benches[0].layout->elements; k++) values[k] = (double)(float)values[k];
    for (int i = 0; i < count; i++)
        benches[i].backend->ops->upload(benches[i].backend, parameters_all(&benches[i].parameters), values, DTYPE_F64);
    free(values);
}

/* A product passes some forty steps forward and back, each with ten roundings or so, and second derivatives of a few:
 * 2000 roundings of a tensor's norm. */
static void test_fast_backend_agrees_on_any_number_of_threads(void **state)
{
    (void)state;
    struct team *team = NULL;
    ok(team_new(3, &team, &error));
    for (int model = 0; model < TINY_MODELS; model++) {
        struct bench benches[3];
        struct backend *backends[3] = {doubles()};
        double *products[3];
        for (int i = 1; i < 3; i++) ok(backend_cpu_new(i == 1 ? NULL : team, &backends[i], &error));
        for (int i = 0; i < 3; i++) {
            bench_open(&benches[i], model, backends[i]);
            direction_draw(&benches[i], 4);
        }
        parameters_share(benches, 3);
        for (int i = 0; i < 3; i++) products[i] = product(&benches[i]);
        hold(&benches[0], model, products[1], products[0], 2000 * 0x1p-24);
        assert_memory_equal(products[1], products[2], (size_t)benches[0].layout->elements * sizeof(double));
        for (int i = 0; i < 3; i++) {
            free(products[i]);
            bench_close(&benches[i]);
        }
    }
    team_free(team);
}

/* Rounded factors of freshly initialised models, whose products are not enlarged on their way: see the test of
 * gradients in test_gradient.c. A second derivative has gone through twice as many; these are 0.3 to 2.2 times 2^-8
 * off. Random weights of any size, as above, enlarge it to a tenth and more. */
static void test_product_in_bf16_is_off_by_roundings_of_factors(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        struct bench benches[2];
        struct backend *rounding = NULL;
        double *products[2], apart = 0;
        ok(backend_new("cpu", "bf16", NULL, &rounding, &error));
        bench_open(&benches[0], model, doubles());
        bench_open(&benches[1], model, rounding);
        for (int i = 0; i < 2; i++) {
            direction_draw(&benches[i], 4);
            ok(parameters_initialise(&benches[i].parameters, 9, &error));
            products[i] = product(&benches[i]);
        }
        const int64_t count = benches[0].layout->elements;
        for (int64_t k = 0; k < count; k++) apart += pow(products[1][k] - products[0][k], 2);
        const double off = sqrt(apart / dot(products[0], products[0], count));
        if (!(off <= 0x1p-6 && off >= 0x1p-11))
            fail_msg("model %d: the product is off by %g of its norm, bounds 2^-11 and 2^-6", model, off);
        for (int i = 0; i < 2; i++) {
            free(products[i]);
            bench_close(&benches[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_matches_differences_of_the_gradient),
        cmocka_unit_test(test_hessian_is_symmetric),
        cmocka_unit_test(test_fast_backend_agrees_on_any_number_of_threads),
        cmocka_unit_test(test_product_in_bf16_is_off_by_roundings_of_factors),
    };
    return cmocka_run_group_tests_name("tangent", tests, NULL, NULL);
}
