/* Tensors that are read in parts by several threads: the numbers of one reader, whatever the number of threads, and the
 * error of the first part that is wrong. */
#include "base/memory.h"
#include "engine/jobs/tiny_fixture.h"
#include "model/loader.h"
#include "shared.h"

#include <stdatomic.h>
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

/* Dtypes of matrices and vectors. What is stored in 16 bits goes to a device so, unless it is transposed (gpt2). */
static const struct tiny_change kinds[] = {{.matrices = DTYPE_BF16, .vectors = DTYPE_F32},
                                           {.matrices = DTYPE_F16, .vectors = DTYPE_BF16},
                                           {.matrices = DTYPE_F32, .vectors = DTYPE_F16},
                                           {.matrices = DTYPE_BF16, .vectors = DTYPE_BF16}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
/* sizes that are no multiples of four */
static const char odd[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 51, \"hidden_size\": 30, \"num_attention_heads\": 3,"
    " \"num_hidden_layers\": 5, \"intermediate_size\": 37, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"max_position_embeddings\": 24, \"tie_word_embeddings\": true}";

/* A copy of each block is asked for and read at the end, and each block is overwritten as soon as it was copied, as
 * quantizers do. Meanwhile the work waits for the copies, and the copies for the work; or (`at_once`) the caller waits
 * for the work. */
static void check_blocks(const struct fixture *f, bool at_once)
{
    const struct backend_ops *ops = f->backend->ops;
    const int64_t layers = f->model->config.layers, elements = loader_elements(f->model);
    struct block copies[8], *block;
    struct loader *loader;
    struct error error;
    void *memory = NULL;
    assert_int_equal(ops->allocate(f->backend, layers * elements, "copies", &memory, &error), STATUS_OK);
    assert_int_equal(loader_open(f->model, f->backend, &loader, &error), STATUS_OK);
    for (int64_t layer = 0; layer < layers; layer++) {
        assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
        loader_copy(f->backend, block, (float *)memory + layer * elements, &copies[layer]);
        for (int i = 0; i < block->program->parameter_count; i++) ops->fill(f->backend, block->parameters[i], 9);
        if (at_once) assert_int_equal(ops->sync(f->backend, &error), STATUS_OK);
    }
    for (int64_t layer = 0; layer < layers; layer++)
        for (int i = 0; i < copies[layer].program->parameter_count; i++) {
            float *wanted = dense(f, &copies[layer].program->parameters[i], NULL);
            same_on_the_backend(f, copies[layer].parameters[i], wanted);
            free(wanted);
        }
    loader_close(loader);
    ops->release(f->backend, memory);
}

static void test_numbers_of_sixteen_bits_are_widened(void **state)
{
    (void)state;
    const char *const configs[] = {odd, tiny_gpt2, tiny_llama};
    for (size_t i = 0; i < 3 * KINDS; i++) {
        struct fixture f;
        struct error error;
        struct matrix loaded;
        open_changed_fixture(&f, configs[i / KINDS], kinds[i % KINDS], 1, 4);
        check_blocks(&f, false);
        check_blocks(&f, true);
        float *wanted = dense(&f, embedding_of(&f), NULL);
        assert_int_equal(model_load(f.model, f.backend, embedding_of(&f), &loaded, &error), STATUS_OK);
        same_on_the_backend(&f, loaded, wanted);
        matrix_release(f.backend, &loaded);
        free(wanted);
        close_fixture(&f);
    }
}

/* Lanes that count: the copies so far, and how many there were when they were told to wait for the work. */
enum { FOLLOWED = 16 };
static struct {
    const struct lane_ops *lanes;
    atomic_int carried;
    int followed[FOLLOWED], count;
} counted;

static void counting_carry_in(struct backend *backend, enum lane lane, struct matrix to, const void *from)
{
    atomic_fetch_add(&counted.carried, 1);
    counted.lanes->carry_in(backend, lane, to, from);
}

static void counting_follow(struct backend *backend, enum lane lane)
{
    assert_true(counted.count < FOLLOWED);
    counted.followed[counted.count++] = atomic_load(&counted.carried);
    counted.lanes->follow(backend, lane);
}

/* When the copies of a layer are told to wait for the work so far, all those of the layer before have been asked for,
 * so that these wait for less: the device computes while its weights are read. */
static void test_reading_a_layer_does_not_wait_for_the_work_on_the_one_before(void **state)
{
    struct fixture f;
    struct error error;
    struct loader *loader;
    struct block *block;
    (void)state;
    open_fixture(&f, odd, 1, 4);
    const struct backend_ops *plain = f.backend->ops;
    struct backend_ops ops = *plain;
    struct lane_ops lanes;
    if (plain->lanes != NULL) {
        lanes = *(counted.lanes = plain->lanes);
        lanes.carry_in = counting_carry_in;
        lanes.follow = counting_follow;
        ops.lanes = &lanes;
        f.backend->ops = &ops;
        assert_int_equal(loader_open(f.model, f.backend, &loader, &error), STATUS_OK);
        for (int layer = 0; layer < 5; layer++) {
            assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
            assert_int_equal(counted.count, layer + 2); /* and once when it was opened */
            assert_int_equal(counted.followed[layer + 1], (layer + 1) * block->program->parameter_count);
        }
        loader_close(loader);
        f.backend->ops = plain;
    }
    close_fixture(&f);
}

/* Shards, and PyTorch files whose tensors are in order or scattered over a larger one. */
static void test_blocks_of_every_container_have_the_numbers_of_the_file(void **state)
{
    static const char *const names[] = {"bf16",        "f16",         "mixed",    "sharded_safetensors",
                                        "pytorch_bin", "sharded_bin", "views_bin"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char relative[80], path[512];
        struct fixture f;
        struct error error;
        (void)snprintf(relative, sizeof relative, "reference/formats/%s", names[i]);
        shared_require(relative, path, sizeof path);
        open_fixture(&f, odd, 1, 4);
        model_close(f.model);
        assert_int_equal(model_open(path, &f.model, &error), STATUS_OK);
        check_blocks(&f, true);
        close_fixture(&f);
    }
}

static void test_an_embedding_of_several_slabs_is_widened(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct matrix loaded;
    open_changed_fixture(&f, wide, kinds[1], 1, 4);
    float *wanted = dense(&f, embedding_of(&f), f.team);
    assert_int_equal(model_load(f.model, f.backend, embedding_of(&f), &loaded, &error), STATUS_OK);
    same_on_the_backend(&f, loaded, wanted);
    matrix_release(f.backend, &loaded);
    free(wanted);
    close_fixture(&f);
}

/* Every number of 16 bits has one float; of NaN only that it is one matters. */
static void test_every_number_of_sixteen_bits_has_its_float(void **state)
{
    (void)state;
    enum { ALL = 1 << 16 };
    struct fixture f;
    struct error error;
    struct matrix to;
    uint16_t *numbers = calloc(ALL, sizeof *numbers);
    float *wanted = calloc(2 * ALL, sizeof *wanted), *found = wanted + ALL;
    const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F16};
    open_fixture(&f, odd, 1, 4);
    assert_int_equal(matrix_new(f.backend, 1, ALL, "numbers", &to, &error), STATUS_OK);
    for (int i = 0; i < ALL; i++) numbers[i] = (uint16_t)i;
    for (int i = 0; i < 2; i++) {
        f.backend->ops->upload(f.backend, to, numbers, dtypes[i]);
        f.backend->ops->download(f.backend, to, found, DTYPE_F32);
        dtype_info(dtypes[i])->to_f32(numbers, wanted, ALL);
        for (int k = 0; k < ALL; k++)
            if (isnan(wanted[k]) ? !isnan(found[k]) : memcmp(&wanted[k], &found[k], sizeof *found) != 0)
                fail_msg("%s %#x: %a, not %a", dtype_info(dtypes[i])->name, (unsigned)k, (double)found[k],
                         (double)wanted[k]);
    }
    matrix_release(f.backend, &to);
    free(numbers);
    free(wanted);
    close_fixture(&f);
}

/* A loader takes what it says, of a device to whole grains for each of its three parts. */
static void test_a_loader_takes_what_it_says(void **state)
{
    (void)state;
    enum { GRAIN = 512, PARTS = 3 };
    for (size_t i = 0; i <= KINDS; i++) {
        struct fixture f;
        struct error error;
        struct loader *loader;
        open_changed_fixture(&f, wide, i < KINDS ? kinds[i] : (struct tiny_change){0}, 1, 4);
        const int64_t before = f.backend->ops->memory(f.backend), said = loader_bytes(f.model, f.backend);
        assert_int_equal(loader_open(f.model, f.backend, &loader, &error), STATUS_OK);
        const int64_t taken = before - f.backend->ops->memory(f.backend);
        assert_true(f.backend->ops->host || (taken >= said && taken <= said + PARTS * GRAIN));
        assert_int_equal(said, 2 * loader_elements(f.model) * (int64_t)sizeof(float)); /* two blocks as floats */
        loader_close(loader);
        close_fixture(&f);
    }
}

/* Of a device: pinned memory for two tensors in turns as they are carried, and the floats of one that is transposed. */
static void test_staging_is_planned_as_it_is_carried(void **state)
{
    enum { LARGEST = 3001 * 32, TURNED = 32 * 128 };
    static const struct {
        const char *config;
        enum dtype matrices;
        int64_t device, host;
    } rows[] = {
        {wide, DTYPE_BF16, 2 * LARGEST * 2, 0},
        {wide, DTYPE_F16, 2 * LARGEST * 2, 0},
        {wide, DTYPE_F32, 2 * LARGEST * 4, 0},
        {tiny_gpt2, DTYPE_BF16, 2 * TURNED * 4 + TURNED * 4, TURNED * 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        open_changed_fixture(&f, rows[i].config, (struct tiny_change){.matrices = rows[i].matrices}, 1, 4);
        const int64_t wanted = f.backend->ops->lanes != NULL ? rows[i].device : rows[i].host;
        assert_int_equal(loader_staging_bytes(f.model, f.backend), wanted);
        close_fixture(&f);
    }
}

/* Writes a number over an element of the tensor `name`. */
static void spoil_tensor(const struct fixture *f, const char *name, enum dtype dtype, int64_t element, float value)
{
    const struct dtype_info *info = dtype_info(dtype);
    const size_t width = info->bits / 8;
    unsigned char bytes[sizeof value];
    char path[600], *header = NULL;
    uint64_t length = 0;
    long long begin = 0;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", f->scratch.directory);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fread(&length, sizeof length, 1, file), 1);
    header = calloc(1, (size_t)length + 1);
    assert_int_equal(fread(header, (size_t)length, 1, file), 1);
    const char *at = strstr(header, name);
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, "data_offsets"), "data_offsets\":[%lld", &begin), 1);
    assert_int_equal(fseek(file, (long)(8 + (int64_t)length + begin + element * (int64_t)width), SEEK_SET), 0);
    info->from_f32(&value, bytes, 1);
    assert_int_equal(fwrite(bytes, width, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    free(header);
}

static void spoil(const struct fixture *f, int64_t element, float value)
{
    spoil_tensor(f, embedding_of(f)->name, DTYPE_F32, element, value);
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

/* The last layer's, in a matrix of 30 columns and in a vector. */
static void test_a_number_of_a_block_that_is_not_finite_is_named(void **state)
{
    static const struct {
        const char *name;
        int64_t element;
        float value;
        const char *words;
    } rows[] = {
        {"model.layers.4.mlp.up_proj.weight", 30 * 36 + 29, NAN,
         "tensor \"model.layers.4.mlp.up_proj.weight\" is not finite: element [36, 29] is NaN"},
        {"model.layers.4.mlp.up_proj.weight", 5, -INFINITY, "is not finite: element [0, 5] is infinite"},
        {"model.layers.4.input_layernorm.weight", 29, INFINITY, "is not finite: element [0, 29] is infinite"},
    };
    (void)state;
    for (size_t i = 0; i < KINDS * sizeof rows / sizeof rows[0]; i++) {
        const struct tiny_change *kind = &kinds[i % KINDS];
        const enum dtype dtype = i / KINDS == 2 ? kind->vectors : kind->matrices;
        struct fixture f;
        struct error error;
        struct loader *loader;
        struct block *block;
        open_changed_fixture(&f, odd, *kind, 1, 4);
        spoil_tensor(&f, rows[i / KINDS].name, dtype, rows[i / KINDS].element, rows[i / KINDS].value);
        assert_int_equal(loader_open(f.model, f.backend, &loader, &error), STATUS_OK);
        for (int layer = 0; layer < 4; layer++) assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
        assert_int_equal(loader_next(loader, &block, &error), STATUS_NOT_FINITE);
        assert_non_null(strstr(error.detail, rows[i / KINDS].words));
        loader_close(loader);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tensor_is_the_same_for_any_number_of_readers),
        cmocka_unit_test(test_blocks_have_the_numbers_of_the_file),
        cmocka_unit_test(test_numbers_of_sixteen_bits_are_widened),
        cmocka_unit_test(test_reading_a_layer_does_not_wait_for_the_work_on_the_one_before),
        cmocka_unit_test(test_blocks_of_every_container_have_the_numbers_of_the_file),
        cmocka_unit_test(test_an_embedding_of_several_slabs_is_widened),
        cmocka_unit_test(test_every_number_of_sixteen_bits_has_its_float),
        cmocka_unit_test(test_a_loader_takes_what_it_says),
        cmocka_unit_test(test_staging_is_planned_as_it_is_carried),
        cmocka_unit_test(test_the_first_number_that_is_not_finite_is_named),
        cmocka_unit_test(test_a_number_of_a_block_that_is_not_finite_is_named),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
