/* Exports of tiny random models, read back with our own readers: what GGUF's blocks hold, shards, and what is left when
 * a run ends early. */
#include "base/memory.h"
#include "engine/jobs/tiny_model.h"
#include "eval/evaluate.h"
#include "files/file.h"
#include "jobs/export/export.h"
#include "jobs/quantize/quantize.h"
#include "weights/weights_writer.h"

/* rows of queries and keys are interleaved; scaled frequencies; a window */
static const char wide_llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 24, \"tie_word_embeddings\": true, \"attention_bias\": true,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\","
    " \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 16}}";
static const char wide_olmo2[] =
    "{\"model_type\": \"olmo2\", \"vocab_size\": 50, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 24, \"tie_word_embeddings\": false}";
static const char wide_qwen3[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 50, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"head_dim\": 16, \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"hidden_act\": \"silu\","
    " \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"max_position_embeddings\": 24, \"tie_word_embeddings\": false}";

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

enum { LAYERS_MOST = 64, LENGTH = 24 };

/* What the walk showed of each layer: the values that a reader of float16 scales must see. */
struct seen {
    char name[PARAMETER_NAME];
    float *values;
    int64_t count;
};

struct bench {
    struct team *team;
    struct backend *backend;
    struct scratch scratch;
    char directory[256];
    struct model *model;
    struct quantize_method method;
    struct export_job *job;
    struct seen seen[LAYERS_MOST];
    int seen_count;
    int fail_after; /* layers; 0: never */
    float scale;    /* of the first group of each layer, with a zero point of 14; 0: they are as they come */
    double loss;    /* of the quantized model */
};

static void bench_open_as(struct bench *bench, const char *config, struct quantize_method method,
                          struct tiny_change change)
{
    *bench = (struct bench){.method = method};
    tiny_write(&bench->scratch, config, change);
    (void)snprintf(bench->directory, sizeof bench->directory, "%s/export", bench->scratch.directory);
    ok(team_new(2, &bench->team, &error));
    ok(backend_cpu_new(bench->team, &bench->backend, &error));
    ok(model_open(bench->scratch.directory, &bench->model, &error));
    ok(quantize_method_complete(&bench->method, &error));
}

static void bench_open(struct bench *bench, const char *config, struct quantize_method method)
{
    bench_open_as(bench, config, method, (struct tiny_change){0});
}

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < bench->seen_count; i++) free(bench->seen[i].values);
    export_close(bench->job);
    export_remove(bench->directory);
    model_close(bench->model);
    backend_free(bench->backend);
    team_free(bench->team);
    scratch_close(&bench->scratch);
}

static float halved(float value)
{
    uint16_t bits;
    dtype_info(DTYPE_F16)->from_f32(&value, &bits, 1);
    dtype_info(DTYPE_F16)->to_f32(&bits, &value, 1);
    return value;
}

/* As a reader computes it: d (q - zero), or with a minimum d q + m. */
static float value_of(const struct quantized_layer *layer, int64_t row, int64_t column)
{
    const int64_t at = row * layer->groups + layer->g_idx[column];
    const float scale = halved(layer->scales[at]), code = layer->codes[row * layer->columns + column];
    return layer->coding.sym ? (code - (float)layer->zeros[at]) * scale
                             : code * scale + halved(-(float)layer->zeros[at] * scale);
}

static enum status note(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                        struct error *cause)
{
    struct bench *bench = owner;
    struct seen *seen = &bench->seen[bench->seen_count];
    const struct sequential_hook hook = export_hook(bench->job, bench->backend);
    if (bench->fail_after > 0 && bench->seen_count == bench->fail_after)
        return error_set(cause, STATUS_CANCELLED, "enough");
    if (bench->scale > 0 && !layer->skipped) {
        layer->scales[0] = bench->scale;
        layer->zeros[0] = 14;
    }
    if (!layer->skipped) {
        bench->seen_count++;
        (void)snprintf(seen->name, sizeof seen->name, "%s.weight", name);
        seen->count = layer->rows * layer->columns;
        seen->values = calloc((size_t)seen->count, sizeof *seen->values);
        for (int64_t r = 0; r < layer->rows; r++)
            for (int64_t c = 0; c < layer->columns; c++) seen->values[r * layer->columns + c] = value_of(layer, r, c);
    }
    return hook.layer(hook.owner, name, layer, weight, cause);
}

static enum status quantize(struct bench *bench)
{
    int64_t starts[] = {0, LENGTH};
    uint32_t tokens[LENGTH];
    struct quantize_result result = {0};
    for (int i = 0; i < LENGTH; i++) tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 50);
    const struct sequences data = {1, starts, tokens};
    const struct quantize_request request = {
        .model = bench->model,
        .backend = bench->backend,
        .method = bench->method,
        .calibration = &data,
        .evaluation = &data,
        .hook = {bench, note},
    };
    const enum status status = quantize_run(&request, &result, &error);
    bench->loss = result.q.loss;
    quantize_result_reset(&result);
    return status;
}

static void export_as(struct bench *bench, int format)
{
    ok(export_open(format, &bench->method, bench->model, bench->directory, &bench->job, &error));
    ok(quantize(bench));
    ok(export_finish(bench->job, NULL, &error));
}

static void assert_values(const struct weights *weights, const char *name, const float *expected, int64_t count)
{
    const int64_t tensor = weights_find(weights, name);
    if (tensor < 0) fail_msg("%s is not there", name);
    float *values = calloc((size_t)count, sizeof *values);
    ok(weights_read_f32(weights, tensor, 0, count, values, &error));
    for (int64_t i = 0; i < count; i++)
        if (values[i] != expected[i])
            fail_msg("%s[%lld] is %.9g, not %.9g", name, (long long)i, (double)values[i], (double)expected[i]);
    free(values);
}

/* Every tensor that was not quantized is the original's. */
static void assert_rest(const struct bench *bench, const struct weights *weights)
{
    const struct weights *original = bench->model->weights;
    assert_int_equal(weights_count(weights), weights_count(original));
    for (int64_t i = 0; i < weights_count(original); i++) {
        struct weights_tensor tensor;
        bool quantized = false;
        weights_tensor(original, i, &tensor);
        for (int s = 0; s < bench->seen_count; s++)
            quantized = quantized || strcmp(bench->seen[s].name, tensor.name) == 0;
        if (quantized) continue;
        float *values = calloc((size_t)tensor.elements, sizeof *values);
        ok(weights_read_f32(original, i, 0, tensor.elements, values, &error));
        assert_values(weights, tensor.name, values, tensor.elements);
        free(values);
    }
}

static const struct quantize_override skip_keys = {.pattern = "layers.1.*k_proj", .skip = true};

static struct quantize_method rtn(int64_t bits, int64_t group_size, bool sym)
{
    return (struct quantize_method){.quantizer = QUANTIZER_RTN,
                                    .rtn = {bits, group_size, sym},
                                    .options = {.override_count = 1, .overrides = &skip_keys}};
}

static void check_gguf(const char *config, struct quantize_method method, enum dtype dtype)
{
    struct bench bench;
    struct model *back = NULL;
    struct weights_tensor tensor;
    char path[512];
    bench_open(&bench, config, method);
    export_as(&bench, EXPORT_GGUF);
    assert_string_equal(export_weights_name(bench.job), "model.gguf");
    (void)snprintf(path, sizeof path, "%s/config.json", bench.directory);
    assert_int_equal(unlink(path), 0); /* the metadata must be enough */
    (void)snprintf(path, sizeof path, "%s/model.gguf", bench.directory);
    ok(model_open(path, &back, &error));
    assert_null(config_difference(&back->config, &bench.model->config));
    assert_int_equal(bench.seen_count, 13);
    for (int i = 0; i < bench.seen_count; i++)
        assert_values(back->weights, bench.seen[i].name, bench.seen[i].values, bench.seen[i].count);
    assert_rest(&bench, back->weights);
    weights_tensor(back->weights, weights_find(back->weights, bench.seen[0].name), &tensor);
    assert_int_equal(tensor.dtype, dtype);
    model_close(back);
    bench_close(&bench);
}

static void test_gguf_gives_back_the_same_bits(void **state)
{
    (void)state;
    check_gguf(wide_llama, rtn(8, 32, true), DTYPE_Q8_0);
    check_gguf(wide_olmo2, rtn(4, 32, true), DTYPE_Q4_0);
    check_gguf(wide_qwen3, rtn(4, 32, false), DTYPE_Q4_1);
}

static void test_gguf_repeats_the_scales_of_wide_groups(void **state)
{
    (void)state;
    check_gguf(wide_llama, rtn(4, -1, false), DTYPE_Q4_1);
    check_gguf(wide_qwen3, rtn(8, 64, true), DTYPE_Q8_0);
}

static void test_gguf_refuses_what_it_cannot_hold(void **state)
{
    static const struct {
        const char *config;
        int64_t bits, group_size;
        bool sym;
    } cases[] = {{wide_llama, 8, 32, false},
                 {wide_llama, 3, 32, true},
                 {wide_llama, 4, 16, true},
                 {tiny_gpt_neox, 4, 32, true},
                 {tiny_llama, 4, 32, true}}; /* the last: rows of 72 */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;
        bench_open(&bench, cases[i].config, rtn(cases[i].bits, cases[i].group_size, cases[i].sym));
        assert_int_equal(export_check(EXPORT_GGUF, &bench.method, bench.model, &error), STATUS_UNSUPPORTED);
        assert_string_equal(error.pointer, "/export");
        bench_close(&bench);
    }
}

/* Float16 holds the scales 4676 and 4680, and the minimum -65464 of the first; -65520 would be stored as infinity. */
static void test_gguf_refuses_minima_beyond_float16(void **state)
{
    static const float scales[] = {4676, 4680};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        bench_open(&bench, wide_qwen3, rtn(4, 32, false));
        bench.scale = scales[i];
        ok(export_open(EXPORT_GGUF, &bench.method, bench.model, bench.directory, &bench.job, &error));
        assert_int_equal(quantize(&bench), i == 0 ? STATUS_OK : STATUS_UNSUPPORTED);
        if (i == 0)
            ok(export_finish(bench.job, NULL, &error));
        else
            assert_non_null(strstr(error.detail, "layers.0.self_attn.q_proj.weight: a minimum of -65520 is too large"));
        bench_close(&bench);
    }
}

static double loss_of(struct bench *bench, const struct model *model)
{
    int64_t starts[] = {0, LENGTH};
    uint32_t tokens[LENGTH];
    struct evaluate_result found = {0};
    for (int i = 0; i < LENGTH; i++) tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 50);
    const struct sequences data = {1, starts, tokens};
    ok(evaluate_run(model, bench->backend, &data, NULL, &found, &error));
    const double loss = found.loss;
    evaluate_result_reset(&found);
    return loss;
}

/* Through GGUF, which we read: only the rounding of scales to float16 is left between the two. */
static void check_awq(const char *config, const struct quantize_override *overrides, int64_t count)
{
    struct bench bench;
    struct model *back = NULL;
    char path[512];
    const struct quantize_method method = {.quantizer = QUANTIZER_AWQ,
                                           .awq = {.bits = 4, .group_size = 32, .grid_points = 20, .clip = true},
                                           .options = {.override_count = count, .overrides = overrides}};
    bench_open(&bench, config, method);
    export_as(&bench, EXPORT_GGUF);
    (void)snprintf(path, sizeof path, "%s/model.gguf", bench.directory);
    ok(model_open(path, &back, &error));
    const double measured = bench.loss, found = loss_of(&bench, back), whole = loss_of(&bench, bench.model);
    assert_true(fabs(measured - whole) > 1e-2);
    assert_true(fabs(found - measured) < 5e-4 * measured); /* scales and minima have 11 bits */
    model_close(back);
    bench_close(&bench);
}

static const char wide_mha[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 96, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 24, \"tie_word_embeddings\": true, \"attention_bias\": true, \"mlp_bias\": true}";
static const struct quantize_override skip_outputs = {.pattern = "o_proj", .skip = true};

static void test_awqs_scales_go_into_what_stands_before(void **state)
{
    (void)state;
    check_awq(wide_mha, NULL, 0);
    check_awq(wide_llama, &skip_outputs, 1);
    check_awq(wide_llama, NULL, 0); /* heads share their values: the attention's output has no scales */
}

static void test_awqs_scales_without_a_place_are_refused(void **state)
{
    static const struct quantize_override skip_keys_only = {.pattern = "k_proj", .skip = true},
                                          skip_up = {.pattern = "gate_proj|up_proj", .skip = true};
    static const struct {
        const char *config;
        const struct quantize_override *override;
        int scale_o_proj;
    } cases[] = {{wide_llama, NULL, AWQ_SCALE_O_PROJ_ALWAYS},
                 {wide_olmo2, NULL, AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE},
                 {wide_mha, &skip_keys_only, AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE},
                 {wide_mha, &skip_up, AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;
        const struct quantize_method method = {
            .quantizer = QUANTIZER_AWQ,
            .awq = {.bits = 4, .group_size = 32, .grid_points = 20, .scale_o_proj = cases[i].scale_o_proj},
            .options = {.override_count = cases[i].override != NULL, .overrides = cases[i].override}};
        bench_open(&bench, cases[i].config, method);
        assert_int_equal(export_check(EXPORT_GGUF, &bench.method, bench.model, &error), STATUS_UNSUPPORTED);
        assert_string_equal(error.pointer, "/export");
        ok(export_check(EXPORT_DEQUANTIZED, &bench.method, bench.model, &error));
        bench_close(&bench);
    }
}

static void test_a_run_that_ends_early_leaves_no_weights_in_place(void **state)
{
    struct bench bench;
    (void)state;
    bench_open(&bench, wide_llama, rtn(4, 32, true));
    bench.fail_after = 5;
    ok(export_open(EXPORT_GPTQ, &bench.method, bench.model, bench.directory, &bench.job, &error));
    assert_int_equal(quantize(&bench), STATUS_CANCELLED);
    assert_int_equal(export_finish(bench.job, NULL, &error), STATUS_INTERNAL);
    export_close(bench.job);
    bench.job = NULL;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", bench.directory);
    assert_int_equal(access(path, F_OK), -1);
    bench_close(&bench);
}

/* The text of a file of the export; the caller frees it. */
static char *text_of(const struct bench *bench, const char *name)
{
    char path[512], *text = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%s/%s", bench->directory, name);
    ok(file_read_all(AT_FDCWD, path, 1 << 20, &text, &size, &error));
    return text;
}

static void assert_tensors(const struct bench *bench, const char *const *there, const char *absent)
{
    struct weights *weights = NULL;
    ok(weights_open(bench->directory, &weights, &error));
    for (; *there != NULL; there++)
        if (weights_find(weights, *there) < 0) fail_msg("%s is not there", *there);
    assert_true(weights_find(weights, absent) < 0);
    weights_close(weights);
}

/* Modules are named in full, also where the file leaves the prefix out; its weights lie as [in, out]. */
static void test_gpt2s_modules_are_packed_under_their_full_names(void **state)
{
    static const struct quantize_override items[] = {{.pattern = "1.attn.c_proj", .skip = true},
                                                     {.pattern = "c_fc", .bits = 8}};
    static const char *const there[] = {
        "transformer.h.0.attn.c_attn.qweight", "transformer.h.1.mlp.c_proj.g_idx", "transformer.h.1.attn.c_proj.weight",
        "transformer.h.0.attn.c_attn.bias",    "transformer.wte.weight",           NULL};
    struct bench bench;
    (void)state;
    for (int bare = 0; bare < 2; bare++) {
        bench_open_as(&bench, tiny_gpt2, rtn(4, 16, true), (struct tiny_change){.bare = bare});
        bench.method.options.override_count = 2;
        bench.method.options.overrides = items;
        export_as(&bench, EXPORT_GPTQ);
        assert_tensors(&bench, there, "transformer.h.0.attn.c_attn.weight");
        char *text = text_of(&bench, "quantize_config.json");
        assert_non_null(strstr(text, "\"-:^transformer\\\\.h\\\\.1\\\\.attn\\\\.c_proj$\": {}"));
        assert_non_null(
            strstr(text, "\"+:^transformer\\\\.h\\\\.0\\\\.mlp\\\\.c_fc$\": {\"bits\": 8, \"group_size\": 16}"));
        assert_null(strstr(text, "c_attn"));
        memory_free(text);
        assert_int_equal(export_check(EXPORT_COMPRESSED_TENSORS, &bench.method, bench.model, &error),
                         STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.detail, "Conv1D"));
        bench_close(&bench);
    }
}

static void test_experts_are_packed_and_their_routers_stay(void **state)
{
    static const char *const there[] = {"model.layers.1.mlp.experts.4.down_proj.weight_packed",
                                        "model.layers.0.self_attn.q_proj.weight_scale",
                                        "model.layers.1.mlp.gate.weight", NULL};
    struct bench bench;
    (void)state;
    bench_open(&bench, tiny_olmoe, rtn(4, 16, true));
    bench.method.options.override_count = 0;
    export_as(&bench, EXPORT_COMPRESSED_TENSORS);
    assert_tensors(&bench, there, "model.layers.1.mlp.experts.4.down_proj.weight");
    char *text = text_of(&bench, "config.json");
    assert_non_null(
        strstr(text, "\"ignore\": [\"lm_head\", \"model.layers.0.mlp.gate\", \"model.layers.1.mlp.gate\"]"));
    memory_free(text);
    const struct quantize_method awq = {.quantizer = QUANTIZER_AWQ,
                                        .awq = {.bits = 4, .group_size = 16, .grid_points = 2}};
    assert_int_equal(export_check(EXPORT_COMPRESSED_TENSORS, &awq, bench.model, &error), STATUS_UNSUPPORTED);
    bench_close(&bench);
}

static void test_a_dequantized_export_is_the_model_that_was_measured(void **state)
{
    struct bench bench;
    struct model *back = NULL;
    (void)state;
    bench_open(&bench, tiny_gpt2, rtn(4, 16, true)); /* weights lie as [in, out] */
    bench.method.options.override_count = 0;
    export_as(&bench, EXPORT_DEQUANTIZED);
    ok(model_open(bench.directory, &back, &error));
    assert_rest(&bench, back->weights);
    model_close(back);
    bench_close(&bench);
}

/* Three tensors of 8, 12 and 4 bytes in shards of 16: two files and an index. */
static void test_large_checkpoints_are_cut_into_shards_with_an_index(void **state)
{
    struct scratch scratch;
    struct weights_writer *writer;
    struct weights *weights;
    const int64_t shapes[] = {2, 3, 1};
    const struct safetensors_entry entries[] = {
        {"a", DTYPE_F32, 1, &shapes[0]}, {"b", DTYPE_F32, 1, &shapes[1]}, {"c", DTYPE_F32, 1, &shapes[2]}};
    const float a[] = {1, 2}, b[] = {3, 4, 5}, c[] = {6};
    (void)state;
    scratch_open(&scratch);
    const struct weights_writer_target target = {.directory = scratch.directory, .shard_bytes = 16};
    ok(weights_writer_open(&target, entries, 3, &writer, &error));
    ok(weights_writer_f32(writer, 2, c, 1, &error));
    ok(weights_writer_f32(writer, 1, b, 3, &error));
    ok(weights_writer_f32(writer, 0, a, 2, &error));
    assert_string_equal(weights_writer_name(writer), "model.safetensors.index.json");
    ok(weights_writer_commit(writer, &error));
    weights_writer_close(writer);
    assert_int_equal(access(scratch_path(&scratch, "model-00002-of-00002.safetensors"), F_OK), 0);
    assert_int_equal(scratch_entries(&scratch, 0), 3);
    ok(weights_open(scratch.directory, &weights, &error));
    assert_values(weights, "a", a, 2);
    assert_values(weights, "b", b, 3);
    assert_values(weights, "c", c, 1);
    weights_close(weights);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_gives_back_the_same_bits),
        cmocka_unit_test(test_gguf_repeats_the_scales_of_wide_groups),
        cmocka_unit_test(test_gguf_refuses_what_it_cannot_hold),
        cmocka_unit_test(test_gguf_refuses_minima_beyond_float16),
        cmocka_unit_test(test_awqs_scales_go_into_what_stands_before),
        cmocka_unit_test(test_awqs_scales_without_a_place_are_refused),
        cmocka_unit_test(test_a_run_that_ends_early_leaves_no_weights_in_place),
        cmocka_unit_test(test_gpt2s_modules_are_packed_under_their_full_names),
        cmocka_unit_test(test_experts_are_packed_and_their_routers_stay),
        cmocka_unit_test(test_a_dequantized_export_is_the_model_that_was_measured),
        cmocka_unit_test(test_large_checkpoints_are_cut_into_shards_with_an_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
