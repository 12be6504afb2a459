/* Tensors that are read in parts by several threads: the numbers of one reader, whatever the number of threads, and the
 * error of the first part that is wrong. */
#include "base/memory.h"
#include "engine/jobs/tiny_fixture.h"
#include "model/loader.h"

#include <string.h>

/* Its embedding has more numbers than a slab (model.c), and a last part that is not whole. */
enum { VOCABULARY = 140001, WIDTH = 32, NUMBERS = VOCABULARY * WIDTH };
static const char wide[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 140001, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 3001, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"max_position_embeddings\": 24, \"tie_word_embeddings\": true}";

static const struct parameter *embedding_of(const struct fixture *f)
{
    static struct decoder_ends ends;
    decoder_ends(&f->model->config, &ends);
    return &ends.embedding;
}

static float *dense(const struct fixture *f, const struct parameter *parameter, struct team *team)
{
    struct error error;
    float *values = calloc((size_t)(parameter->rows * parameter->columns), sizeof *values);
    if (model_read_dense(f->model, parameter, values, NULL, team, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return values;
}

static void same_on_the_backend(const struct fixture *f, struct matrix m, const float *wanted)
{
    const size_t bytes = (size_t)(m.rows * m.columns) * sizeof(float);
    float *found = malloc(bytes);
    f->backend->ops->download(f->backend, m, found, DTYPE_F32);
    assert_memory_equal(found, wanted, bytes);
    free(found);
}

static void test_a_tensor_is_the_same_for_any_number_of_readers(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct matrix loaded;
    open_fixture(&f, wide, 1, 4);
    const struct parameter *embedding = embedding_of(&f);
    float *alone = dense(&f, embedding, NULL), *together = dense(&f, embedding, f.team);
    assert_memory_equal(alone, together, (size_t)NUMBERS * sizeof *alone);
    assert_int_equal(model_load(f.model, f.backend, embedding, &loaded, &error), STATUS_OK);
    same_on_the_backend(&f, loaded, alone);
    matrix_release(f.backend, &loaded);
    free(alone);
    free(together);
    close_fixture(&f);
}

static void test_blocks_have_the_numbers_of_the_file(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct loader *loader;
    struct block *block;
    open_fixture(&f, wide, 1, 4);
    assert_int_equal(loader_open(f.model, f.backend, &loader, &error), STATUS_OK);
    for (int64_t layer = 0; layer < 3; layer++) {
        assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
        for (int i = 0; i < block->program->parameter_count; i++) {
            float *wanted = dense(&f, &block->program->parameters[i], NULL);
            same_on_the_backend(&f, block->parameters[i], wanted);
            free(wanted);
        }
    }
    loader_close(loader);
    close_fixture(&f);
}

/* Writes a number over element `element` of the embedding. */
static void spoil(const struct fixture *f, int64_t element, float value)
{
    char path[600], *header = NULL;
    uint64_t length = 0;
    long long begin = 0;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", f->scratch.directory);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fread(&length, sizeof length, 1, file), 1);
    header = calloc(1, (size_t)length + 1);
    assert_int_equal(fread(header, (size_t)length, 1, file), 1);
    const char *at = strstr(header, embedding_of(f)->name);
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, "data_offsets"), "data_offsets\":[%lld", &begin), 1);
    assert_int_equal(fseek(file, (long)(8 + (int64_t)length + begin + element * (int64_t)sizeof value), SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    free(header);
}

static void expect(const struct fixture *f, int64_t element, const char *kind)
{
    struct error error;
    struct matrix loaded;
    char wanted[100];
    (void)snprintf(wanted, sizeof wanted, "is not finite: element [%lld, %lld] is %s", (long long)(element / WIDTH),
                   (long long)(element % WIDTH), kind);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(model_load(f->model, f->backend, embedding_of(f), &loaded, &error), STATUS_NOT_FINITE);
        assert_non_null(strstr(error.detail, wanted));
    }
}

static void test_the_first_number_that_is_not_finite_is_named(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, wide, 1, 4);
    spoil(&f, NUMBERS - 1, -INFINITY);
    expect(&f, NUMBERS - 1, "infinite");
    spoil(&f, NUMBERS - 200000, NAN);
    expect(&f, NUMBERS - 200000, "NaN");
    spoil(&f, 70000, INFINITY);
    expect(&f, 70000, "infinite");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tensor_is_the_same_for_any_number_of_readers),
        cmocka_unit_test(test_blocks_have_the_numbers_of_the_file),
        cmocka_unit_test(test_the_first_number_that_is_not_finite_is_named),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
