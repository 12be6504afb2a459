/* Random changes of the weights as large as a quantization's error, written out: their size in each linear, the signs
 * of their stream, the products along them and the losses on both sides. */
#include "base/memory.h"
#include "curvature/hvp.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"
#include "jobs/sharpness/sharpness_tasks.h"
#include "model/gradient.h"
#include "unit.h"

enum { LENGTH = 12, FEW = 5, CHANGES = 4, SEED = 7, LAYERS = 64 };

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

/* The weights of a model, and how far each linear is moved by a quantization. */
struct subject {
    struct fixture f;
    struct parameters_layout *layout;
    struct parameters weights, moved;
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix change, product;
    int64_t linears[LAYERS], count;
    double sizes[LAYERS]; /* root of the mean square of the error's entries */
};

static const struct quantize_method rtn = {.quantizer = QUANTIZER_RTN, .rtn = {.bits = 4, .group_size = 16}};

static enum status note(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                        struct error *out)
{
    struct subject *s = owner;
    char full[256];
    (void)layer, (void)out;
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const int64_t tensor = parameters_find(s->layout, full);
    const struct matrix before = parameters_view(&s->weights, tensor);
    double squares = 0;
    for (int64_t row = 0; row < weight.rows; row++)
        for (int64_t column = 0; column < weight.columns; column++)
            squares += pow((double)((float *)weight.data)[row * weight.stride + column] -
                               (double)((float *)before.data)[row * before.stride + column],
                           2);
    s->linears[s->count] = tensor;
    s->sizes[s->count++] = sqrt(squares / (double)(weight.rows * weight.columns));
    return STATUS_OK;
}

static void open_subject(struct subject *s)
{
    struct quantize_result found = {0};
    memset(s, 0, sizeof *s);
    open_fixture(&s->f, tiny_llama, FEW, LENGTH);
    ok(parameters_layout_new(&s->f.model->config, &s->layout, &error));
    ok(parameters_init(&s->weights, s->layout, s->f.backend, "weights", &error));
    ok(parameters_init(&s->moved, s->layout, s->f.backend, "moved weights", &error));
    ok(parameters_read(&s->weights, s->f.model, &error));
    ok(chunks_init(&s->f.evaluation, 100, &s->chunks, &error));
    ok(hvp_new(&s->weights, &s->chunks, HVP_KEEP_CHUNK, NULL, &s->hvp, &error));
    ok(vector_new(&hvp_operator(s->hvp)->space, "a change", &s->change, &error));
    ok(vector_new(&hvp_operator(s->hvp)->space, "a product", &s->product, &error));
    const struct quantize_request asked = {
        .model = s->f.model, .backend = s->f.backend, .method = rtn, .evaluation = &s->f.evaluation, .hook = {s, note}};
    ok(quantize_run(&asked, &found, &error));
    assert_int_equal(s->count, found.layer_count);
    quantize_result_reset(&found);
}

static void close_subject(struct subject *s)
{
    matrix_release(s->f.backend, &s->change);
    matrix_release(s->f.backend, &s->product);
    hvp_free(s->hvp);
    chunks_reset(&s->chunks);
    parameters_reset(&s->weights);
    parameters_reset(&s->moved);
    parameters_layout_free(s->layout);
    close_fixture(&s->f);
}

/* The change of that number, and ½ rᵀHr. */
static double curvature_of(struct subject *s, int64_t number)
{
    const struct symmetric_operator *op = hvp_operator(s->hvp);
    float *signs = s->product.data, *change = s->change.data;
    vector_rademacher(&op->space, SEED, STREAM_CHANGES + (uint64_t)number, s->product);
    memset(change, 0, (size_t)s->layout->elements * sizeof *change);
    for (int64_t i = 0; i < s->count; i++) {
        const struct parameters_tensor *tensor = &s->layout->tensors[s->linears[i]];
        const int64_t numbers = tensor->parameter.rows * tensor->parameter.columns;
        for (int64_t k = tensor->offset; k < tensor->offset + numbers; k++) change[k] = (float)s->sizes[i] * signs[k];
    }
    ok(operator_apply(op, s->change, s->product, &error));
    return s->f.backend->ops->dot(s->f.backend, s->change, s->product) / 2;
}

static double loss_at(struct subject *s, struct gradient *gradient, float side)
{
    double losses[FEW * LENGTH], mean;
    const float *from = s->weights.data, *change = s->change.data;
    for (int64_t i = 0; i < s->layout->elements; i++) ((float *)s->moved.data)[i] = from[i] + side * change[i];
    ok(gradient_over(gradient, &s->chunks, NULL, NULL, losses, &mean, &error));
    return mean;
}

static double deviation(const double *values, double mean)
{
    double squares = 0;
    for (int i = 0; i < CHANGES; i++) squares += pow(values[i] - mean, 2);
    return sqrt(squares / (CHANGES - 1) / CHANGES);
}

static double mean_of(const double *values)
{
    double sum = 0;
    for (int i = 0; i < CHANGES; i++) sum += values[i];
    return sum / CHANGES;
}

/* Products and losses are sums of floats in another order: 1e-4 of the largest number there. */
static void near(const char *what, double found, double expected, double size)
{
    if (!(fabs(found - expected) < 1e-4 * size)) fail_msg("%s: %.10g instead of %.10g", what, found, expected);
}

static struct sharpness_result run(const struct subject *s, int64_t changes)
{
    const struct sharpness_request request = {.model = s->f.model,
                                              .backend = s->f.backend,
                                              .sequences = &s->f.evaluation,
                                              .settings = {.max_iterations = 1,
                                                           .tolerance = 1e-3,
                                                           .probes = 1,
                                                           .spectrum_probes = 1,
                                                           .spectrum_steps = 1,
                                                           .seed = SEED},
                                              .direction = &rtn,
                                              .random_directions = changes};
    struct sharpness_result found;
    ok(sharpness_run(&request, &found, &error));
    return found;
}

static void test_changes_are_as_large_as_the_error(void **state)
{
    struct subject s;
    struct gradient *gradient = NULL;
    double curvatures[CHANGES], deltas[CHANGES], largest = 0;
    (void)state;
    open_subject(&s);
    ok(gradient_new(&s.moved, GRADIENT_RECOMPUTE, s.chunks.largest, s.chunks.longest, &gradient, &error));
    memset(s.change.data, 0, (size_t)s.layout->elements * sizeof(float));
    const double loss = loss_at(&s, gradient, 0);
    for (int i = 0; i < CHANGES; i++) {
        curvatures[i] = curvature_of(&s, i);
        deltas[i] = (loss_at(&s, gradient, 1) + loss_at(&s, gradient, -1)) / 2 / loss - 1;
        largest = fmax(largest, fabs(curvatures[i]));
    }
    struct sharpness_result found = run(&s, CHANGES);
    const struct sharpness_random *random = &found.direction.random;
    assert_int_equal(random->directions, CHANGES);
    near("curvature", random->curvature_term, mean_of(curvatures), largest);
    near("its error", random->curvature_error, deviation(curvatures, mean_of(curvatures)), largest);
    near("loss", random->delta, mean_of(deltas), 1e-2);
    near("its error", random->delta_error, deviation(deltas, mean_of(deltas)), 1e-2);
    if (random->curvature_term > 0)
        near("ratio", random->ratio * random->curvature_term, found.direction.curvature_term, largest);
    else
        assert_true(isnan(random->ratio));
    assert_int_equal(found.products, 1 + CHANGES);
    sharpness_result_reset(&found);
    gradient_free(gradient);
    close_subject(&s);
}

static void test_none_unless_asked_for_and_no_error_of_one(void **state)
{
    struct subject s;
    (void)state;
    open_subject(&s);
    struct sharpness_result none = run(&s, 0), one = run(&s, 1);
    assert_true(none.direction.random.directions == 0 && isnan(none.direction.random.curvature_term) &&
                isnan(none.direction.random.delta) && isnan(none.direction.random.ratio));
    assert_true(none.direction.curvature_term == one.direction.curvature_term);
    assert_true(none.direction.predicted_error == one.direction.predicted_error);
    assert_true(isfinite(one.direction.random.curvature_term) && isnan(one.direction.random.curvature_error));
    assert_true(isfinite(one.direction.random.delta) && isnan(one.direction.random.delta_error));
    sharpness_result_reset(&none);
    sharpness_result_reset(&one);
    close_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_are_as_large_as_the_error),
        cmocka_unit_test(test_none_unless_asked_for_and_no_error_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
