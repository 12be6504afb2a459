/* Checkpoints: what is written opens, in float32 to the bit; an older one of the same name is replaced; failures leave
 * nothing. */
#include "base/memory.h"
#include "engine/files/scratch.h"
#include "files/file.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint.h"

#include <math.h>

#define MODEL_OF(more)                                                                           \
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":300,\"hidden_size\":8,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":2,"                                                                 \
    "\"intermediate_size\":12,\"max_position_embeddings\":16,\"rotary_pct\":0.5" more "}"
#define MODEL MODEL_OF("")

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

struct bench {
    const char *model;
    struct scratch scratch;
    char directory[600];
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters;
    struct optimizer optimizer;
    struct tokenizer *tokenizer;
};

static void bench_open_model(struct bench *bench, const char *text)
{
    const struct optimizer_settings settings = {0.9, 0.95, 1e-8, 0.1, 1, 0, 0, 0, 0, 0, 0, 0};
    struct model_config config;
    *bench = (struct bench){.model = text};
    scratch_open(&bench->scratch);
    (void)snprintf(bench->directory, sizeof bench->directory, "%s", scratch_path(&bench->scratch, "step1"));
    ok(backend_cpu_new(NULL, &bench->backend, &error));
    ok(config_parse("model", text, strlen(text), &config, &error));
    ok(parameters_layout_new(&config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, bench->backend, "parameters", &error));
    ok(parameters_initialise(&bench->parameters, 3, &error));
    ok(optimizer_init(&bench->optimizer, optimizer_kinds[0], &settings, bench->layout, bench->backend, &error));
    bench->backend->ops->fill(bench->backend, parameters_all(&bench->optimizer.state[1]), 0.125);
    ok(tokenizer_open_bytes(&bench->tokenizer, &error));
}

static void bench_open(struct bench *bench)
{
    bench_open_model(bench, MODEL);
}

static void bench_close(struct bench *bench)
{
    tokenizer_close(bench->tokenizer);
    optimizer_reset(&bench->optimizer);
    parameters_reset(&bench->parameters);
    parameters_layout_free(bench->layout);
    backend_free(bench->backend);
    checkpoint_remove(bench->directory);
    scratch_close(&bench->scratch);
}

static struct checkpoint checkpoint_of(const struct bench *bench, enum dtype dtype, const struct state *state)
{
    return (struct checkpoint){.directory = bench->directory,
                               .config = bench->model,
                               .config_size = strlen(bench->model),
                               .tokenizer = bench->tokenizer,
                               .dtype = dtype,
                               .reached = {1, 64, 1e-3, 5.5, NAN, 0},
                               .state = state,
                               .optimizer = &bench->optimizer};
}

/* Reads it back as a model and compares: exact for float32, one rounding to eight bits for bfloat16. */
static void hold_against(const struct bench *bench, bool exact)
{
    struct model *model = NULL;
    struct parameters found;
    ok(model_open(bench->directory, &model, &error));
    ok(parameters_init(&found, bench->layout, bench->backend, "parameters", &error));
    ok(parameters_read(&found, model, &error));
    assert_int_equal(model->parameters, bench->layout->numbers);
    const float *a = found.data, *b = bench->parameters.data;
    for (int64_t i = 0; i < bench->layout->elements; i++)
        assert_true(exact ? a[i] == b[i] : fabsf(a[i] - b[i]) <= 0x1p-8f * fabsf(b[i]));
    parameters_reset(&found);
    model_close(model);
}

static void test_what_is_written_opens(void **state)
{
    (void)state;
    struct bench bench;
    char path[900], *text = NULL;
    size_t size = 0;
    struct tokenizer *tokenizer = NULL;
    bench_open(&bench);
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    hold_against(&bench, true);
    (void)snprintf(path, sizeof path, "%s/training.json", bench.directory);
    ok(file_read_all(AT_FDCWD, path, 4096, &text, &size, &error));
    assert_non_null(strstr(text, "\"step\": 1, \"tokens\": 64, \"learning_rate\": 0.001"));
    assert_non_null(strstr(text, "\"validation_loss\": null"));
    memory_free(text);
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", bench.directory);
    ok(tokenizer_open(path, &tokenizer, &error));
    tokenizer_close(tokenizer);
    (void)snprintf(path, sizeof path, "%s/training.state", bench.directory);
    assert_int_not_equal(access(path, F_OK), 0); /* not asked for */
    bench_close(&bench);
}

/* What names no type, or the stored one, is written as it is. */
static void test_the_configuration_names_the_stored_type(void **state)
{
    (void)state;
    static const char *const named[] = {MODEL_OF(""), MODEL_OF(",\"torch_dtype\":\"float16\",\"dtype\":\"float16\""),
                                        MODEL_OF(",\"torch_dtype\":\"bfloat16\"")};
    for (int i = 0; i < 6; i++) {
        const bool wide = i % 2 == 0, kept = i / 2 == 0 || i == 5;
        struct bench bench;
        char path[900], *text = NULL;
        size_t size = 0;
        bench_open_model(&bench, named[i / 2]);
        const struct checkpoint checkpoint = checkpoint_of(&bench, wide ? DTYPE_F32 : DTYPE_BF16, NULL);
        ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
        hold_against(&bench, wide);
        (void)snprintf(path, sizeof path, "%s/config.json", bench.directory);
        ok(file_read_all(AT_FDCWD, path, 4096, &text, &size, &error));
        assert_int_equal(size == strlen(bench.model) && memcmp(text, bench.model, size) == 0, kept);
        const char *first = wide ? "\"torch_dtype\": \"float32\"" : "\"torch_dtype\": \"bfloat16\"";
        const char *second = wide ? "\"dtype\": \"float32\"" : "\"dtype\": \"bfloat16\"";
        assert_int_equal(memmem(text, size, first, strlen(first)) != NULL, !kept);
        assert_int_equal(memmem(text, size, second, strlen(second)) != NULL, i / 2 == 1);
        memory_free(text);
        bench_close(&bench);
    }
}

static int downloads;
static const struct backend_ops *plain_ops;

static void counting_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    downloads++;
    plain_ops->download(backend, from, to, dtype);
}

/* gpt2's file has its matrices the other way round. The two largest of a layer take two copies from the device, each
 * other tensor one, however many columns it has. */
static void test_transposed_tensors_are_fetched_in_rows(void **state)
{
    (void)state;
    struct bench bench;
    bench_open_model(&bench, "{\"model_type\":\"gpt2\",\"vocab_size\":300,\"n_embd\":136,\"n_layer\":1,\"n_head\":2,"
                             "\"n_inner\":544,\"n_positions\":16}");
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    struct backend_ops ops = *(plain_ops = bench.backend->ops);
    ops.download = counting_download;
    bench.backend->ops = &ops;
    downloads = 0;
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    bench.backend->ops = plain_ops;
    assert_int_equal(downloads, bench.layout->tensor_count + 2);
    hold_against(&bench, true);
    bench_close(&bench);
}

static void test_an_older_one_is_replaced(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    ok(parameters_initialise(&bench.parameters, 4, &error));
    checkpoint.dtype = DTYPE_BF16;
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    hold_against(&bench, false);
    assert_int_equal(scratch_entries(&bench.scratch, 0), 1); /* no temporary directory stays */
    bench_close(&bench);
}

static struct {
    const struct checkpoint *checkpoint;
    const struct parameters *parameters;
    enum status status;
    bool ran;
} other;

/* Runs another attempt while the first writes its tensors. */
static void interrupted_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    if (!other.ran) {
        struct error failure;
        other.ran = true;
        other.status = checkpoint_write(other.checkpoint, other.parameters, &failure);
    }
    plain_ops->download(backend, from, to, dtype);
}

/* Attempts at one run, of which the earlier is not dead but was stopped: neither touches the other's files, whether
 * the second finishes or fails. */
static void test_two_attempts_write_at_once(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct bench bench;
        bench_open(&bench);
        const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
        const struct checkpoint second = checkpoint_of(&bench, fails ? DTYPE_I64 : DTYPE_BF16, NULL);
        struct backend_ops ops = *(plain_ops = bench.backend->ops);
        ops.download = interrupted_download;
        bench.backend->ops = &ops;
        other.checkpoint = &second;
        other.parameters = &bench.parameters;
        other.ran = false;
        ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
        bench.backend->ops = plain_ops;
        assert_true(other.ran && (other.status != STATUS_OK) == fails);
        hold_against(&bench, true);
        assert_int_equal(scratch_entries(&bench.scratch, 0), 1);
        bench_close(&bench);
    }
}

/* What another attempt has moved away leaves what it was moved to. */
static void test_a_missing_directory_takes_no_place(void **state)
{
    (void)state;
    struct bench bench;
    char missing[700];
    bench_open(&bench);
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    (void)snprintf(missing, sizeof missing, "%s/none", bench.scratch.directory);
    assert_int_equal(checkpoint_publish(missing, bench.directory, &error), STATUS_NOT_FOUND);
    hold_against(&bench, true);
    bench_close(&bench);
}

static void test_a_failure_leaves_nothing(void **state)
{
    (void)state;
    struct bench bench;
    char missing[700];
    bench_open(&bench);
    struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    (void)snprintf(missing, sizeof missing, "%s/none/step1", bench.scratch.directory);
    checkpoint.directory = missing;
    assert_int_equal(checkpoint_write(&checkpoint, &bench.parameters, &error), STATUS_NOT_FOUND);
    checkpoint.directory = bench.directory;
    checkpoint.dtype = DTYPE_I64; /* fails in the middle, when the tensors are written */
    assert_int_not_equal(checkpoint_write(&checkpoint, &bench.parameters, &error), STATUS_OK);
    assert_int_equal(scratch_entries(&bench.scratch, 0), 0);
    bench_close(&bench);
}

static void test_state_comes_back_to_the_bit(void **state)
{
    (void)state;
    struct bench bench;
    struct parameters parameters;
    struct optimizer optimizer;
    struct state_checkpoint written[2] = {{1, 2, 0.5, 3, 4, 0}, {5, 6, 0.25, 7, 8, 0}};
    const struct state out = {12, 99, 4, 16, 2.5, written, 2, 0, 0, NULL, 0};
    struct state in;
    char path[900];
    bench_open(&bench);
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, &out);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    ok(parameters_init(&parameters, bench.layout, bench.backend, "parameters", &error));
    ok(optimizer_init(&optimizer, optimizer_kinds[0], &bench.optimizer.settings, bench.layout, bench.backend, &error));
    (void)snprintf(path, sizeof path, "%s/training.state", bench.directory);
    ok(state_read(path, &in, &parameters, &optimizer, NULL, &error));
    assert_int_equal(in.step, 12);
    assert_int_equal(in.fingerprint, 99);
    assert_int_equal(in.checkpoint_count, 2);
    assert_memory_equal(in.checkpoints, written, sizeof written);
    const size_t bytes = (size_t)bench.layout->elements * sizeof(float);
    assert_memory_equal(parameters.data, bench.parameters.data, bytes);
    for (int i = 0; i < 2; i++) assert_memory_equal(optimizer.state[i].data, bench.optimizer.state[i].data, bytes);
    memory_free(in.checkpoints);
    optimizer_reset(&optimizer);
    parameters_reset(&parameters);
    bench_close(&bench);
}

/* With an average and an optimizer's weight, and read by one who wants the average and by one who does not. */
static void test_an_average_comes_back_to_the_bit(void **state)
{
    (void)state;
    struct bench bench;
    struct ema ema, found;
    struct state_checkpoint written[2] = {{1, 2, 0.5, 3, 4, 0}, {1, 2, 0.5, 7, 8, 1}};
    const struct state out = {.step = 12, .checkpoints = written, .checkpoint_count = 2};
    struct state in;
    bench_open(&bench);
    const char *path = scratch_path(&bench.scratch, "state");
    const size_t bytes = (size_t)bench.layout->elements * sizeof(float);
    ok(ema_init(&ema, 0.75, bench.layout, bench.backend, &error));
    ok(ema_init(&found, 0.75, bench.layout, bench.backend, &error));
    ema_add(&ema, &bench.parameters);
    ema_add(&ema, &bench.optimizer.state[0]);
    bench.optimizer.weight = 0.1;
    ok(state_write(path, &out, &bench.parameters, &bench.optimizer, &ema, &error));
    bench.optimizer.weight = 0;
    ok(state_read(path, &in, &bench.parameters, &bench.optimizer, &found, &error));
    assert_true(bench.optimizer.weight == 0.1);
    assert_int_equal(found.updates, 2);
    assert_memory_equal(found.mean.data, ema.mean.data, bytes);
    assert_memory_equal(in.checkpoints, written, sizeof written);
    assert_int_equal(in.ema_updates, 2);
    assert_true(in.ema_decay == 0.75);
    memory_free(in.checkpoints);
    ok(state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error));
    memory_free(in.checkpoints);
    /* a file without one: the average begins there */
    bench.optimizer.weight = 0;
    ok(state_write(path, &(struct state){.step = 1}, &bench.parameters, &bench.optimizer, NULL, &error));
    ok(state_read(path, &in, &bench.parameters, &bench.optimizer, &found, &error));
    assert_int_equal(found.updates, 0);
    memory_free(in.checkpoints);
    ema_reset(&found);
    ema_reset(&ema);
    bench_close(&bench);
}

/* The curve comes back to the bit, and what has none is written as before there were curves. */
static void test_a_curve_comes_back_to_the_bit(void **state)
{
    (void)state;
    struct bench bench;
    struct state_checkpoint written[2] = {{1, 2, 0.5, 3, 4, 0}, {5, 6, 0.25, 7, 8, 0}};
    struct state_point curve[3] = {{1, 5.5, 0.25}, {2, 0.1, 1e300}, {3, 1e-300, 7}};
    const struct state out = {
        .step = 5, .checkpoints = written, .checkpoint_count = 2, .curve = curve, .curve_count = 3};
    struct state plain = out, in;
    struct stat with, without;
    bench_open(&bench);
    const char *path = scratch_path(&bench.scratch, "state");
    ok(state_write(path, &out, &bench.parameters, &bench.optimizer, NULL, &error));
    assert_int_equal(stat(path, &with), 0);
    ok(state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error));
    assert_int_equal(in.step, 5);
    assert_int_equal(in.checkpoint_count, 2);
    assert_memory_equal(in.checkpoints, written, sizeof written);
    assert_int_equal(in.curve_count, 3);
    assert_memory_equal(in.curve, curve, sizeof curve);
    state_reset(&in);
    plain.curve_count = 0;
    ok(state_write(path, &plain, &bench.parameters, &bench.optimizer, NULL, &error));
    assert_int_equal(stat(path, &without), 0);
    assert_int_equal(with.st_size - without.st_size, 40 + 2 * 8 + 3 * 24);
    ok(state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error));
    assert_int_equal(in.curve_count, 0);
    state_reset(&in);
    bench_close(&bench);
}

/* Every byte of the file counts: whichever is turned, the file is refused. */
static void turn_bytes(bool average, bool curve)
{
    struct bench bench;
    struct state_point points[2] = {{1, 5.5, 0.25}, {2, 0.1, 0.5}};
    const struct state out = {.step = 3, .curve = points, .curve_count = curve ? 2 : 0};
    struct state in;
    struct stat about;
    struct ema ema;
    bench_open(&bench);
    const char *path = scratch_path(&bench.scratch, "state");
    ok(ema_init(&ema, 0.5, bench.layout, bench.backend, &error));
    if (average) ema_add(&ema, &bench.parameters);
    ok(state_write(path, &out, &bench.parameters, &bench.optimizer, &ema, &error));
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(descriptor, &about), 0);
    for (off_t at = 0; at < about.st_size; at += at < 210 ? 1 : 997) {
        char byte = 0;
        assert_int_equal(pread(descriptor, &byte, 1, at), 1);
        const char turned = (char)(byte ^ 0x10);
        assert_int_equal(pwrite(descriptor, &turned, 1, at), 1);
        if (state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error) == STATUS_OK)
            fail_msg("byte %lld", (long long)at);
        assert_int_equal(pwrite(descriptor, &byte, 1, at), 1);
    }
    assert_int_equal(ftruncate(descriptor, about.st_size - 1), 0);
    assert_int_equal(state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error), STATUS_CORRUPT);
    assert_int_equal(ftruncate(descriptor, 10), 0);
    assert_int_equal(state_read(path, &in, &bench.parameters, &bench.optimizer, NULL, &error), STATUS_CORRUPT);
    (void)close(descriptor);
    ema_reset(&ema);
    bench_close(&bench);
}

static void test_a_turned_byte_is_noticed_anywhere(void **state)
{
    (void)state;
    turn_bytes(false, false);
    turn_bytes(true, false);
    turn_bytes(true, true);
}

/* Weights that the file has the other way round lie there so, and come back. */
static void test_transposed_weights_are_written_as_the_architecture_has_them(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\":\"gpt2\",\"vocab_size\":300,\"n_embd\":6,\"n_layer\":2,\"n_head\":2,\"n_positions\":12}";
    struct bench bench;
    struct weights *weights = NULL;
    struct weights_tensor tensor;
    float stored[6 * 18];
    bench_open_model(&bench, text);
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    hold_against(&bench, true);
    ok(weights_open(bench.directory, &weights, &error));
    const int64_t index = weights_find(weights, "transformer.h.1.attn.c_attn.weight");
    weights_tensor(weights, index, &tensor);
    assert_int_equal(tensor.shape[0], 6);
    assert_int_equal(tensor.shape[1], 18);
    ok(weights_read_f32(weights, index, 0, 6 * 18, stored, &error));
    const struct matrix ours = parameters_view(&bench.parameters, parameters_find(bench.layout, tensor.name));
    assert_int_equal(ours.rows, 18);
    for (int i = 0; i < 6 * 18; i++) assert_true(stored[i] == ((const float *)ours.data)[i % 18 * 6 + i / 18]);
    weights_close(weights);
    bench_close(&bench);
}

/* xIELU's constants lie in the file as numbers without a shape, and are no parameters. */
static void test_constants_are_written_and_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\":\"apertus\",\"vocab_size\":300,\"hidden_size\":8,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16}";
    struct bench bench;
    struct weights *weights = NULL;
    struct weights_tensor tensor;
    float value = 0;
    bench_open_model(&bench, text);
    const struct matrix beta =
        parameters_view(&bench.parameters, parameters_find(bench.layout, "model.layers.1.mlp.act_fn.beta"));
    assert_true(*(const float *)beta.data == 0.5f);
    *(float *)beta.data = 0.75f;
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    hold_against(&bench, true);
    ok(weights_open(bench.directory, &weights, &error));
    const int64_t index = weights_find(weights, "model.layers.1.mlp.act_fn.beta");
    weights_tensor(weights, index, &tensor);
    assert_int_equal(tensor.rank, 0);
    ok(weights_read_f32(weights, index, 0, 1, &value, &error));
    assert_true(value == 0.75f);
    weights_close(weights);
    bench_close(&bench);
}

/* Convolutions lie as [channels, 1, taps]; all settings but the last two show in the tensors. */
static void test_state_space_models_are_written_and_recognised(void **state)
{
    static const char *const models[][2] = {
        {"{\"model_type\":\"mamba\",\"vocab_size\":300,\"hidden_size\":8,\"num_hidden_layers\":2,\"state_size\":3,"
         "\"expand\":1.5,"
         "\"conv_kernel\":3,\"time_step_rank\":5,\"use_bias\":true,\"use_conv_bias\":false}",
         "{}"},
        {"{\"model_type\":\"mamba2\",\"vocab_size\":300,\"hidden_size\":8,\"num_hidden_layers\":2,\"num_heads\":4,"
         "\"expand\":2,"
         "\"conv_kernel\":4,\"n_groups\":2,\"state_size\":3}",
         "{\"n_groups\":2,\"state_size\":3}"},
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        struct weights *weights = NULL;
        struct weights_tensor tensor;
        char path[900];
        bench_open_model(&bench, models[i][0]);
        const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
        ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
        hold_against(&bench, true);
        (void)snprintf(path, sizeof path, "%s/config.json", bench.directory);
        FILE *config = fopen(path, "w");
        assert_non_null(config);
        assert_true(fputs(models[i][1], config) >= 0 && fclose(config) == 0);
        hold_against(&bench, true);
        ok(weights_open(bench.directory, &weights, &error));
        weights_tensor(weights, weights_find(weights, "backbone.layers.0.mixer.conv1d.weight"), &tensor);
        assert_true(tensor.rank == 3 && tensor.shape[1] == 1 && tensor.shape[2] == (i == 0 ? 3 : 4));
        weights_close(weights);
        bench_close(&bench);
    }
}

/* intermediate_size 1: matrices, which are drawn, decay and are stored in two dimensions. */
static void test_linears_of_one_row_are_matrices(void **state)
{
    (void)state;
    static const char *const names[] = {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"};
    static const char *const vectors[] = {"model.norm.weight", "model.layers.0.input_layernorm.weight"};
    struct bench bench;
    struct safetensors *tensors = NULL;
    struct safetensors_tensor found;
    bench_open_model(&bench, "{\"model_type\":\"llama\",\"vocab_size\":300,\"hidden_size\":8,"
                             "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":1,"
                             "\"max_position_embeddings\":16}");
    const struct checkpoint checkpoint = checkpoint_of(&bench, DTYPE_F32, NULL);
    ok(checkpoint_write(&checkpoint, &bench.parameters, &error));
    (void)snprintf(bench.scratch.path, sizeof bench.scratch.path, "%.400s/model.safetensors", bench.directory);
    ok(safetensors_open(AT_FDCWD, bench.scratch.path, &tensors, &error));
    for (int i = 0; i < 2; i++) {
        const int64_t index = parameters_find(bench.layout, names[i]);
        assert_true(bench.layout->tensors[index].decays);
        const float *values = parameters_view(&bench.parameters, index).data;
        for (int k = 0; k < 8; k++) assert_true(fabsf(values[k]) < 0.2F && values[k] != 0);
        safetensors_tensor(tensors, safetensors_find(tensors, names[i]), &found);
        assert_true(found.rank == 2 && found.shape[0] == 1 && found.shape[1] == 8);
        assert_false(bench.layout->tensors[parameters_find(bench.layout, vectors[i])].decays);
        safetensors_tensor(tensors, safetensors_find(tensors, vectors[i]), &found);
        assert_true(found.rank == 1 && found.shape[0] == 8);
    }
    safetensors_close(tensors);
    hold_against(&bench, true);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants_are_written_and_read),
        cmocka_unit_test(test_transposed_weights_are_written_as_the_architecture_has_them),
        cmocka_unit_test(test_what_is_written_opens),
        cmocka_unit_test(test_state_space_models_are_written_and_recognised),
        cmocka_unit_test(test_the_configuration_names_the_stored_type),
        cmocka_unit_test(test_transposed_tensors_are_fetched_in_rows),
        cmocka_unit_test(test_an_older_one_is_replaced),
        cmocka_unit_test(test_two_attempts_write_at_once),
        cmocka_unit_test(test_a_missing_directory_takes_no_place),
        cmocka_unit_test(test_a_failure_leaves_nothing),
        cmocka_unit_test(test_state_comes_back_to_the_bit),
        cmocka_unit_test(test_an_average_comes_back_to_the_bit),
        cmocka_unit_test(test_a_curve_comes_back_to_the_bit),
        cmocka_unit_test(test_a_turned_byte_is_noticed_anywhere),
        cmocka_unit_test(test_linears_of_one_row_are_matrices),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
