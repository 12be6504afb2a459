/* Logits and losses of whole models against values computed in double by two unrelated programs, on every backend.
 * Tolerances: the double backend 1e-9 relative (it differs by summation order only); float 1e-4 absolute on logits of
 * size 2-3 (a plain float32 forward lands within 3e-5) and 1e-5 on the loss; check_rounded_logits has that of products
 * in bf16, and 2^-7 of the loss, which is a mean over all tokens. */
#include "base/memory.h"
#include "engine/model/references.h"
#include "eval/evaluate.h"
#include "files/json_reader.h"
#include "model/architecture.h"
#include "model/hidden.h"
#include "model/loader.h"
#include "model/walk.h"
#include "shared.h"

#include <math.h>
#include <string.h>

enum which { REFERENCE_FLOAT, REFERENCE_DOUBLE, CPU, CPU_BF16, BACKENDS };

static struct backend *backend_for(enum which which, struct team *team)
{
    struct error error;
    struct backend *backend = NULL;
    const enum status status = which == CPU ? backend_cpu_new(team, &backend, &error)
                               : which == CPU_BF16
                                   ? backend_new("cpu", "bf16", team, &backend, &error)
                                   : backend_reference_new(which == REFERENCE_DOUBLE, team, &backend, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    return backend;
}

static double reference_loss(const char *directory)
{
    char path[600], *text = NULL;
    size_t size = 0;
    double loss = NAN;
    struct error error;
    struct json_reader reader;
    struct json_reader_text key;
    (void)snprintf(path, sizeof path, "%s/reference.json", directory);
    assert_int_equal(file_read_all(AT_FDCWD, path, 1 << 24, &text, &size, &error), STATUS_OK);
    json_reader_init(&reader, "reference.json", text, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key))
        if (json_reader_is(key, "loss")) json_reader_double(&reader, &loss);
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
    memory_free(text);
    return loss;
}

/* [rows, columns] of int64 token ids as sequences. */
static struct sequences sequences_of(const int64_t *ids, int64_t rows, int64_t columns)
{
    struct sequences sequences = {rows, calloc((size_t)rows + 1, sizeof(int64_t)),
                                  calloc((size_t)(rows * columns), sizeof(uint32_t))};
    for (int64_t i = 0; i <= rows; i++) sequences.starts[i] = i * columns;
    for (int64_t i = 0; i < rows * columns; i++) sequences.tokens[i] = (uint32_t)ids[i];
    return sequences;
}

/* Logits of all tokens, by the walks that evaluation uses. */
static double *logits_of(const struct model *model, struct backend *backend, const struct sequences *sequences)
{
    const struct model_config *config = &model->config;
    const struct decoder_ends *ends = &model->ends;
    struct error error;
    struct chunks chunks;
    struct matrix cosine, sine, output, weight, bias = {0}, hidden;
    struct hidden states;
    struct embed embed;
    struct loader *loader = NULL;
    struct walk walk;
    struct block *block = NULL;
    void *memory = NULL;
    assert_int_equal(chunks_init(sequences, INT64_MAX, &chunks, &error), STATUS_OK);
    assert_int_equal(backend->ops->prepare(backend, chunks.longest, config->vocabulary_size, &error), STATUS_OK);
    assert_int_equal(model_rope_tables(config, backend, chunks.longest, &cosine, &sine, &error), STATUS_OK);
    assert_int_equal(embed_load(&embed, model, backend, chunks.largest, &error), STATUS_OK);
    assert_int_equal(model_load(model, backend, &ends->output, &output, &error), STATUS_OK);
    assert_int_equal(model_load(model, backend, &ends->norm_weight, &weight, &error), STATUS_OK);
    if (ends->norm_bias.name[0] != '\0')
        assert_int_equal(model_load(model, backend, &ends->norm_bias, &bias, &error), STATUS_OK);
    const struct hidden_place place = {HIDDEN_PARTS, NULL};
    assert_int_equal(hidden_init(&states, backend, &chunks, config->hidden_size, &place, &error), STATUS_OK);
    assert_int_equal(hidden_embed(&embed, &chunks, &states, &error), STATUS_OK);
    hidden = states.rows;
    assert_int_equal(walk_init(&walk, config, backend, WALK_FORWARD, chunks.largest, cosine, sine, &error), STATUS_OK);
    assert_int_equal(loader_open(model, backend, &loader, &error), STATUS_OK);
    for (int64_t layer = 0; layer < config->layers; layer++) {
        assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
        walk_forward(&walk, block->program, &chunks.chunks[0].batch, block->parameters, hidden);
    }
    const int64_t count = chunks.tokens * config->vocabulary_size;
    assert_int_equal(backend->ops->allocate(backend, count, "logits", &memory, &error), STATUS_OK);
    const struct norm_args norm = {.kind = config->architecture->norm,
                                   .epsilon = config->norm_epsilon,
                                   .groups = 1,
                                   .x = hidden,
                                   .weight = weight,
                                   .bias = bias,
                                   .y = hidden};
    backend->ops->norm_forward(backend, &norm);
    const struct gemm_args product = {
        .a = hidden,
        .b = output,
        .c = matrix_of(memory, chunks.tokens, config->vocabulary_size, backend->ops->element),
        .transpose_b = true,
        .alpha = 1};
    backend->ops->gemm(backend, &product);
    double *logits = calloc((size_t)count, sizeof *logits);
    backend->ops->download(backend, product.c, logits, DTYPE_F64);
    void *blocks[] = {memory, hidden.data, output.data, weight.data, bias.data, cosine.data};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (blocks[i] != NULL) backend->ops->release(backend, blocks[i]);
    embed_reset(&embed);
    loader_close(loader);
    walk_reset(&walk);
    chunks_reset(&chunks);
    return logits;
}

static void check_logits(const struct model *model, struct backend *backend, const struct sequences *sequences,
                         const double *expected, double bound)
{
    const int64_t count = sequences->starts[sequences->count] * model->config.vocabulary_size;
    double *logits = logits_of(model, backend, sequences), worst = 0;
    for (int64_t i = 0; i < count; i++) worst = fmax(worst, fabs(logits[i] - expected[i]));
    if (!(worst <= bound)) fail_msg("%s: logits differ by %g, bound %g", backend->ops->name, worst, bound);
    free(logits);
}

/* A factor rounded to eight bits is at most 2^-9 of itself off, so a product of two random ones is about 2^-9 of its
 * own size off, whatever its depth. A block has four in a row, and softmax and the division by a norm enlarge what
 * comes in; each block, and the head, is given twice 2^-8 (these models take 0.3 to 1.5 of it each). What is off by
 * less than 2^-10 was not rounded. */
static void check_rounded_logits(const struct model *model, struct backend *backend, const struct sequences *sequences,
                                 const double *expected)
{
    const int64_t count = sequences->starts[sequences->count] * model->config.vocabulary_size;
    double *logits = logits_of(model, backend, sequences), off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        off += pow(logits[i] - expected[i], 2);
        size += pow(expected[i], 2);
    }
    const double relative = sqrt(off / size), bound = 2 * 0x1p-8 * (double)(model->config.layers + 1);
    if (!(relative <= bound && relative >= 0x1p-10))
        fail_msg("%s in bf16: logits differ by %g of their size, bounds 2^-10 and %g", backend->ops->name, relative,
                 bound);
    free(logits);
}

static void check_model(const char *relative)
{
    char directory[512], file[600];
    struct error error;
    struct model *model = NULL;
    struct team *team = NULL;
    int64_t tokens = 0, rows = 0;
    shared_require(relative, directory, sizeof directory);
    (void)snprintf(file, sizeof file, "%s/reference.safetensors", directory);
    if (model_open(directory, &model, &error) != STATUS_OK) fail_msg("%s: %s", relative, error.detail);
    assert_int_equal(team_new(2, &team, &error), STATUS_OK);
    int64_t *ids = shared_tensor(file, "tokens", &tokens);
    double *expected = shared_tensor(file, "logits", NULL);
    struct safetensors *opened = NULL;
    struct safetensors_tensor info;
    assert_int_equal(safetensors_open(AT_FDCWD, file, &opened, &error), STATUS_OK);
    safetensors_tensor(opened, safetensors_find(opened, "tokens"), &info);
    rows = info.shape[0];
    safetensors_close(opened);
    struct sequences sequences = sequences_of(ids, rows, tokens / rows);
    const double loss = reference_loss(directory);
    for (int which = 0; which < BACKENDS; which++) {
        struct backend *backend = backend_for((enum which)which, team);
        struct evaluate_result result;
        if (evaluate_run(model, backend, &sequences, NULL, &result, &error) != STATUS_OK)
            fail_msg("%s: %s", relative, error.detail);
        /* a loss far below 1 is a difference of logits that are not small: rounding them does not make less for it */
        const double bound = which == REFERENCE_DOUBLE ? 1e-9 * loss
                             : which == CPU_BF16       ? 0x1p-7 * fmax(1, loss)
                                                       : 1e-5;
        if (!(fabs(result.loss - loss) <= bound))
            fail_msg("%s on %s: loss %.12g, expected %.12g", relative, backend->ops->name, result.loss, loss);
        assert_int_equal(result.sequences, rows);
        if (which == CPU_BF16)
            check_rounded_logits(model, backend, &sequences, expected);
        else
            check_logits(model, backend, &sequences, expected, which == REFERENCE_DOUBLE ? 1e-8 : 1e-4);
        evaluate_result_reset(&result);
        backend_free(backend);
    }
    free(sequences.starts);
    free(sequences.tokens);
    free(ids);
    free(expected);
    team_free(team);
    model_close(model);
}

#define REFERENCE_TEST(group, name)                 \
    static void test_##group##_##name(void **state) \
    {                                               \
        (void)state;                                \
        check_model(REFERENCE_PATH(group, name));   \
    }
REFERENCES(REFERENCE_TEST)

static bool stands_in(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* A new architecture is held to another program's numbers before it is trusted, or says why not. */
static void test_every_architecture_has_reference_values(void **state)
{
#define NAME_OF(group, name)  #name,
#define EXCUSED(name, reason) #name,
    static const char *const names[] = {REFERENCES(NAME_OF)}, *const excused[] = {WITHOUT_REFERENCES(EXCUSED)};
#undef NAME_OF
#undef EXCUSED
    const struct architecture *architecture;
    (void)state;
    for (int i = 0; (architecture = architecture_at(i)) != NULL; i++) {
        const char *type = architecture->model_type;
        const bool found = stands_in(names, sizeof names / sizeof names[0], type);
        if (found == stands_in(excused, sizeof excused / sizeof excused[0], type))
            fail_msg("%s stands %s (references.h)", type, found ? "in both lists" : "neither in REFERENCES nor beside");
    }
    for (size_t i = 0; i < sizeof excused / sizeof excused[0]; i++) assert_non_null(architecture_find(excused[i]));
}

int main(void)
{
#define REFERENCE_ROW(group, name) cmocka_unit_test(test_##group##_##name),
    const struct CMUnitTest tests[] = {REFERENCES(REFERENCE_ROW)
                                           cmocka_unit_test(test_every_architecture_has_reference_values)};
#undef REFERENCE_ROW
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
