/* Gradients of whole models: against finite differences on random tiny models of every architecture (double), against
 * the reference values, and both memory modes against each other. */
#include "base/memory.h"
#include "engine/model/references.h"
#include "engine/model/tiny_models.h"
#include "files/json_reader.h"
#include "model/architecture.h"
#include "model/gradient.h"
#include "shared.h"

#include <math.h>
#include <string.h>

struct bench {
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters, gradients;
    struct gradient *gradient;
    struct chunks chunks;
    double *losses;
};

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static void bench_open(struct bench *bench, const struct model_config *config, struct backend *backend,
                       enum gradient_mode mode, const struct sequences *sequences)
{
    *bench = (struct bench){.backend = backend};
    ok(parameters_layout_new(config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, backend, "parameters", &error));
    ok(parameters_init(&bench->gradients, bench->layout, backend, "gradients", &error));
    ok(chunks_init(sequences, 20, &bench->chunks, &error)); /* several chunks: the gradient accumulates */
    ok(gradient_new(&bench->parameters, mode, bench->chunks.largest, bench->chunks.longest, &bench->gradient, &error));
    ok(memory_new(bench->chunks.tokens, sizeof(double), "losses", &bench->losses, &error));
}

static void bench_close(struct bench *bench)
{
    memory_free(bench->losses);
    gradient_free(bench->gradient);
    chunks_reset(&bench->chunks);
    parameters_reset(&bench->gradients);
    parameters_reset(&bench->parameters);
    parameters_layout_free(bench->layout);
    backend_free(bench->backend);
}

static double losses_mean(const struct bench *bench)
{
    double sum = 0;
    for (int64_t t = 0; t < bench->chunks.tokens; t++) sum += bench->losses[t];
    return sum / (double)bench->chunks.predictions;
}

static double loss_alone(struct bench *bench)
{
    for (int64_t i = 0; i < bench->chunks.count; i++)
        gradient_losses(bench->gradient, &bench->chunks.chunks[i].batch,
                        bench->losses + bench->chunks.chunks[i].first_token);
    return losses_mean(bench);
}

static double loss_and_gradient(struct bench *bench)
{
    bench->backend->ops->fill(bench->backend, parameters_all(&bench->gradients), 0);
    for (int64_t i = 0; i < bench->chunks.count; i++)
        gradient_add(bench->gradient, &bench->chunks.chunks[i].batch, 1 / (double)bench->chunks.predictions,
                     bench->losses + bench->chunks.chunks[i].first_token, &bench->gradients);
    return losses_mean(bench);
}

static struct backend *reference(bool use_double)
{
    struct backend *backend = NULL;
    ok(backend_reference_new(use_double, NULL, &backend, &error));
    return backend;
}

static struct backend *processor(const char *products)
{
    struct backend *backend = NULL;
    ok(backend_new("cpu", products, NULL, &backend, &error));
    return backend;
}

/* Differences over five points: truncation h⁴ / 30 times the fifth derivative (up to 1e8 here), rounding 1e-16 / h:
 * each below 1e-10. */
static double difference(struct bench *bench, double *value)
{
    const double kept = *value, step = 5e-5;
    double loss[4];
    for (int i = 0; i < 4; i++) {
        static const double steps[] = {-2, -1, 1, 2};
        *value = kept + steps[i] * step;
        loss[i] = loss_alone(bench);
    }
    *value = kept;
    return (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * step);
}

/* A new architecture is not compared with anything before it is among them. */
static void test_every_architecture_is_among_the_tiny_models(void **state)
{
    const struct architecture *architecture;
    (void)state;
    for (int i = 0; (architecture = architecture_at(i)) != NULL; i++) {
        bool found = false;
        for (int model = 0; model < TINY_MODELS; model++) found |= tiny_config(model).architecture == architecture;
        if (!found) fail_msg("%s has no row in tiny_models.h", architecture->model_type);
    }
}

static void test_gradient_matches_finite_differences(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        const struct model_config config = tiny_config(model);
        const struct sequences sequences = tiny_sequences(&config);
        struct bench bench;
        bench_open(&bench, &config, reference(true), GRADIENT_KEEP, &sequences);
        tiny_randomise(&bench.parameters);
        const double loss = loss_and_gradient(&bench);
        assert_true(fabs(loss - loss_alone(&bench)) < 1e-13);
        double *values = bench.parameters.data;
        const double *gradients = bench.gradients.data;
        for (int64_t i = 0; i < bench.layout->tensor_count; i++) {
            const struct parameters_tensor *tensor = &bench.layout->tensors[i];
            const int64_t count = tensor->parameter.rows * tensor->parameter.columns;
            double squares = 0;
            if (tensor->parameter.constant) continue;
            for (int64_t k = tensor->offset; k < tensor->offset + count; k++) {
                const double expected = difference(&bench, &values[k]);
                if (!(fabs(gradients[k] - expected) < 1e-9))
                    fail_msg("model %d, %s element %lld: %.12g, differences say %.12g", model, tensor->parameter.name,
                             (long long)(k - tensor->offset), gradients[k], expected);
                squares += expected * expected;
            }
            /* the tensor takes part; without rotation a bias of all keys moves every score of a query alike */
            assert_true(squares > 0 ||
                        (!config_rotates(&config, 0) && strstr(tensor->parameter.name, "k_proj.bias") != NULL));
        }
        bench_close(&bench);
    }
}

static void test_both_modes_give_the_same_bits(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++)
        for (int fast = 0; fast < 3; fast++) {
            const struct model_config config = tiny_config(model);
            const struct sequences sequences = tiny_sequences(&config);
            struct bench bench[2];
            for (int mode = 0; mode < 2; mode++) {
                bench_open(&bench[mode], &config, fast == 0 ? reference(true) : processor(fast == 1 ? "f32" : "bf16"),
                           mode ? GRADIENT_RECOMPUTE : GRADIENT_KEEP, &sequences);
                ok(parameters_initialise(&bench[mode].parameters, 9, &error));
                (void)loss_and_gradient(&bench[mode]);
            }
            const size_t bytes = (size_t)bench[0].layout->elements * bench[0].backend->ops->element;
            assert_memory_equal(bench[0].gradients.data, bench[1].gradients.data, bytes);
            assert_memory_equal(bench[0].losses, bench[1].losses, 26 * sizeof(double));
            for (int mode = 0; mode < 2; mode++) bench_close(&bench[mode]);
        }
}

static double distance(const double *a, const double *b, int64_t count, double *norm)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    *norm = sqrt(size);
    return sqrt(apart);
}

/* The whole gradient on `backend`, which is freed. The caller frees it. */
static double *tiny_gradient(int model, struct backend *backend, int64_t *elements)
{
    const struct model_config config = tiny_config(model);
    const struct sequences sequences = tiny_sequences(&config);
    struct bench bench;
    bench_open(&bench, &config, backend, GRADIENT_KEEP, &sequences);
    ok(parameters_initialise(&bench.parameters, 9, &error));
    (void)loss_and_gradient(&bench);
    *elements = bench.layout->elements;
    double *out = malloc((size_t)*elements * sizeof *out);
    assert_non_null(out);
    backend->ops->download(backend, parameters_all(&bench.gradients), out, DTYPE_F64);
    bench_close(&bench);
    return out;
}

/* A factor of eight bits is at most 2^-9 of itself off, so a product is about as much of its size off. A gradient has
 * gone through some eight products a block, whose errors are independent: these models are 0.4 to 1.5 times 2^-8 off.
 * One that is off by less than 2^-10 was not rounded. */
static void test_gradient_in_bf16_is_off_by_roundings_of_factors(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        int64_t elements, same;
        double norm, *exact = tiny_gradient(model, reference(true), &elements),
                     *found = tiny_gradient(model, processor("bf16"), &same);
        assert_int_equal(elements, same);
        const double off = distance(found, exact, elements, &norm) / norm;
        if (!(off <= 0x1p-7 && off >= 0x1p-10))
            fail_msg("model %d: the gradient is off by %g of its norm, bounds 2^-10 and 2^-7", model, off);
        free(exact);
        free(found);
    }
}

static void test_layout_orders_and_spans(void **state)
{
    (void)state;
    const struct model_config config = tiny_config(4);
    struct parameters_layout *layout = NULL;
    ok(parameters_layout_new(&config, &layout, &error));
    assert_int_equal(layout->embedding, 0);
    assert_int_equal(layout->output, layout->embedding);
    assert_int_equal(layout->norm_bias, layout->tensor_count - 1);
    int64_t numbers = 0, at = 0, residual = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        assert_int_equal(layout->tensors[i].offset, at);
        const int64_t count = layout->tensors[i].parameter.rows * layout->tensors[i].parameter.columns;
        numbers += count;
        at += (count + 15) / 16 * 16;
        residual += layout->tensors[i].residual;
        assert_int_equal(parameters_find(layout, layout->tensors[i].parameter.name), i);
    }
    assert_int_equal(at, layout->elements);
    assert_int_equal(numbers, layout->numbers);
    assert_int_equal(residual, 2 * config.layers);
    for (int64_t i = 0, first = 0; i < layout->span_count; i++) {
        assert_int_equal(layout->spans[i].first, first);
        first += layout->spans[i].count;
        if (i > 0) assert_true(layout->spans[i].decays != layout->spans[i - 1].decays);
        if (i + 1 == layout->span_count) assert_int_equal(first, layout->elements);
    }
    parameters_layout_free(layout);
}

/* What reference.json says. */
struct expectation {
    double loss, norm;
    int64_t names;
    char name[64][96];
    double norms[64];
};

static struct expectation expectation_read(const char *directory)
{
    static struct expectation e;
    char path[600], *text = NULL;
    size_t size = 0;
    struct json_reader reader;
    struct json_reader_text key;
    e = (struct expectation){0};
    (void)snprintf(path, sizeof path, "%s/reference.json", directory);
    ok(file_read_all(AT_FDCWD, path, 1 << 24, &text, &size, &error));
    json_reader_init(&reader, "reference.json", text, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "loss")) json_reader_double(&reader, &e.loss);
        if (json_reader_is(key, "grad_norm")) json_reader_double(&reader, &e.norm);
        if (!json_reader_is(key, "grad_norms")) continue;
        json_reader_object(&reader);
        for (struct json_reader_text name; json_reader_next_key(&reader, &name); e.names++) {
            (void)snprintf(e.name[e.names], sizeof e.name[0], "%.*s", (int)name.size, name.bytes);
            json_reader_double(&reader, &e.norms[e.names]);
        }
    }
    ok(json_reader_finish(&reader));
    memory_free(text);
    return e;
}

static struct sequences reference_sequences(const char *file)
{
    int64_t count = 0;
    int64_t *tokens = shared_tensor(file, "tokens", &count);
    struct safetensors *tensors = NULL;
    struct safetensors_tensor row;
    struct sequences out = {0};
    ok(safetensors_open(AT_FDCWD, file, &tensors, &error));
    safetensors_tensor(tensors, safetensors_find(tensors, "tokens"), &row);
    out.count = row.shape[0];
    ok(memory_new(out.count + 1, sizeof *out.starts, "starts", &out.starts, &error));
    ok(memory_new(count, sizeof *out.tokens, "tokens", &out.tokens, &error));
    for (int64_t s = 0; s <= out.count; s++) out.starts[s] = s * row.shape[1];
    for (int64_t t = 0; t < count; t++) out.tokens[t] = (uint32_t)tokens[t];
    safetensors_close(tensors);
    free(tokens);
    return out;
}

static double *gradient_doubles(const struct bench *bench, int64_t tensor, int64_t *count)
{
    const struct matrix view = parameters_view(&bench->gradients, tensor);
    double *out = malloc((size_t)(view.rows * view.columns) * sizeof *out);
    assert_non_null(out);
    *count = view.rows * view.columns;
    ok(parameters_download(&bench->gradients, tensor, out, DTYPE_F64, &error)); /* as in the file */
    return out;
}

static void hold_against(const struct bench *bench, const char *file, const struct expectation *e, double tolerance)
{
    double all = 0, norm;
    struct safetensors *tensors = NULL;
    ok(safetensors_open(AT_FDCWD, file, &tensors, &error));
    int64_t constants = 0;
    for (int64_t i = 0; i < bench->layout->tensor_count; i++) constants += bench->layout->tensors[i].parameter.constant;
    assert_int_equal(e->names, bench->layout->tensor_count - constants);
    for (int64_t i = 0; i < e->names; i++) {
        char name[128];
        int64_t count = 0;
        const int64_t tensor = parameters_find(bench->layout, e->name[i]);
        assert_true(tensor >= 0);
        double *ours = gradient_doubles(bench, tensor, &count);
        double zero = 0;
        for (int64_t k = 0; k < count; k++) zero += ours[k] * ours[k];
        all += zero;
        if (!(fabs(sqrt(zero) - e->norms[i]) <= tolerance * e->norms[i]))
            fail_msg("%s: norm %.12g, reference %.12g", e->name[i], sqrt(zero), e->norms[i]);
        (void)snprintf(name, sizeof name, "grad.%s", e->name[i]);
        if (safetensors_find(tensors, name) >= 0) {
            double *theirs = shared_tensor(file, name, NULL);
            const double apart = distance(ours, theirs, count, &norm);
            if (!(apart <= tolerance * norm)) fail_msg("%s: off by %.3g of its norm", e->name[i], apart / norm);
            free(theirs);
        }
        free(ours);
    }
    assert_true(fabs(sqrt(all) - e->norm) <= tolerance * e->norm);
    safetensors_close(tensors);
}

static void check_reference(const char *name, bool fast)
{
    char directory[512], file[600];
    struct model *model = NULL;
    struct bench bench;
    shared_require(name, directory, sizeof directory);
    (void)snprintf(file, sizeof file, "%s/reference.safetensors", directory);
    const struct expectation e = expectation_read(directory);
    struct sequences sequences = reference_sequences(file);
    ok(model_open(directory, &model, &error));
    bench_open(&bench, &model->config, fast ? processor("f32") : reference(true), GRADIENT_KEEP, &sequences);
    ok(parameters_read(&bench.parameters, model, &error));
    const double loss = loss_and_gradient(&bench);
    if (!(fabs(loss - e.loss) <= (fast ? 1e-5 : 1e-9 * e.loss)))
        fail_msg("%s: loss %.12g, not %.12g", name, loss, e.loss);
    hold_against(&bench, file, &e, fast ? 1e-4 : 1e-9);
    bench_close(&bench);
    model_close(model);
    memory_free(sequences.starts);
    memory_free(sequences.tokens);
}

#define REFERENCE_TEST(group, name)                                                              \
    static void test_gradient_of_##group##_##name(void **state)                                  \
    {                                                                                            \
        (void)state;                                                                             \
        for (int fast = 0; fast < 2; fast++) check_reference(REFERENCE_PATH(group, name), fast); \
    }
REFERENCES(REFERENCE_TEST)

int main(void)
{
#define REFERENCE_ROW(group, name) cmocka_unit_test(test_gradient_of_##group##_##name),
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_architecture_is_among_the_tiny_models),
                                       cmocka_unit_test(test_layout_orders_and_spans),
                                       cmocka_unit_test(test_gradient_matches_finite_differences),
                                       cmocka_unit_test(test_both_modes_give_the_same_bits),
                                       cmocka_unit_test(test_gradient_in_bf16_is_off_by_roundings_of_factors),
                                       REFERENCES(REFERENCE_ROW)};
#undef REFERENCE_ROW
    return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
