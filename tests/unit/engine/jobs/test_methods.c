/* Whole quantizations of tiny random models with single options: what orders their errors, and what must change
 * nothing. */
#include "base/memory.h"
#include "engine/jobs/quantized_loss.h"
#include "quant/rotation.h"

static const char tiny_qwen3[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 50, \"hidden_size\": 24, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"head_dim\": 8, \"num_hidden_layers\": 2, \"intermediate_size\": 40, \"hidden_act\": \"silu\","
    " \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"max_position_embeddings\": 24, \"tie_word_embeddings\": false}";
static const char tiny_olmo2[] =
    "{\"model_type\": \"olmo2\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 52, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"max_position_embeddings\": 24, \"tie_word_embeddings\": false}";

static const struct quantize_override everything[] = {{.pattern = ".", .skip = true}};

/* All modules left as they are: nothing but the turning is left. */
static void check_rotation_alone(const char *config)
{
    struct fixture f;
    struct quantize_method method = rtn_of(4);
    open_fixture(&f, config, 12, 24);
    method.options.rotation = ROTATION_HADAMARD;
    method.options.rotation_seed = 3;
    method.options.override_count = 1;
    method.options.overrides = everything;
    struct quantize_result result = run(&f, method);
    if (!(fabs(result.q.loss - result.fp.loss) < 1e-5)) fail_msg("%g became %g", result.fp.loss, result.q.loss);
    assert_true(result.kl < 1e-6 && result.q.loss != result.fp.loss);
    assert_true(result.bits_per_weight == 16 && result.layers[0].skipped);
    quantize_result_reset(&result);
    close_fixture(&f);
}

static void test_a_rotation_alone_leaves_the_loss(void **state)
{
    (void)state;
    check_rotation_alone(tiny_llama);
    check_rotation_alone(tiny_gpt_neox);
    check_rotation_alone(tiny_qwen3);
    check_rotation_alone(tiny_olmo2);
    check_rotation_alone(tiny_gpt2);
    check_rotation_alone(tiny_opt);
    check_rotation_alone(tiny_apertus);
    check_rotation_alone(tiny_olmoe);
}

static void test_a_rotation_s_seed_decides_its_signs(void **state)
{
    (void)state;
    struct fixture f;
    struct quantize_method method = rtn_of(4);
    open_fixture(&f, tiny_llama, 12, 24);
    method.options.rotation = ROTATION_HADAMARD;
    const double first = kl_of(&f, method), again = kl_of(&f, method);
    method.options.rotation_seed = 1;
    assert_true(first == again && kl_of(&f, method) != first);
    close_fixture(&f);
}

/* `found` is in memory of the backend. */
static void expect_signs(struct backend *backend, const float *found, int64_t count, uint64_t seed, uint64_t stream)
{
    struct error error;
    float *signs = calloc((size_t)count, sizeof *signs);
    backend->ops->read_bytes(backend, found, signs, (size_t)count * sizeof *signs);
    if (backend->ops->sync(backend, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int64_t i = 0; i < count; i++)
        assert_true(signs[i] == (random_below(seed, stream, (uint64_t)i, 2) != 0 ? 1.F : -1.F));
    free(signs);
}

/* Signs of hidden states and of heads are of streams 0 and 1 of the seed. */
static void test_a_rotation_has_the_signs_of_its_seed(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama, 1, 4);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct rotation rotation;
        struct error error;
        assert_int_equal(rotation_init(&rotation, f.model, f.backend, seed, &error), STATUS_OK);
        expect_signs(f.backend, rotation.sign, f.model->config.hidden_size, seed, 0);
        expect_signs(f.backend, rotation.head_sign, f.model->config.head_dim, seed, 1);
        rotation_reset(&rotation);
    }
    close_fixture(&f);
}

static void test_rounded_inputs_cost_more_the_fewer_their_bits(void **state)
{
    (void)state;
    struct fixture f;
    struct quantize_method method = rtn_of(8);
    open_fixture(&f, tiny_llama, 12, 24);
    const double none = kl_of(&f, method);
    method.options.activation_bits = 8;
    const double eight = kl_of(&f, method);
    method.options.activation_bits = 4;
    const double four = kl_of(&f, method);
    assert_true(none < eight && eight < four);
    close_fixture(&f);
}

/* Experts see the rows that were sent to them. */
static void test_methods_that_treat_inputs_reach_experts(void **state)
{
    (void)state;
    struct fixture f;
    struct quantize_method method = rtn_of(8);
    open_fixture(&f, tiny_olmoe, 12, 24);
    const double none = kl_of(&f, method);
    method.options.activation_bits = 4;
    const double four = kl_of(&f, method);
    assert_true(none < four);
    assert_true(kl_of(&f, (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {3, 1}}) < four);
    assert_true(kl_of(&f, (struct quantize_method){.quantizer = QUANTIZER_SMOOTHQUANT,
                                                   .smoothquant = {8, 8, 0.5, false}}) < four);
    method.options.keep_outliers = 4;
    assert_true(kl_of(&f, method) < four);
    close_fixture(&f);
}

static void test_gptq_s_proxy_error_is_never_above_rounding_s(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_gpt_neox, 12, 24);
    for (int64_t bits = 2; bits <= 4; bits++) {
        struct quantize_result rtn = run(&f, rtn_of(bits));
        struct quantize_result gptq =
            run(&f, (struct quantize_method){.quantizer = QUANTIZER_GPTQ, .gptq = {bits, 16, true, false, true, 0.05}});
        /* the first linears of a model see the same inputs in both */
        assert_true(gptq.layers[0].proxy_error <= rtn.layers[0].proxy_error);
        for (int64_t i = 0; i < gptq.layer_count; i++)
            if (!(gptq.layers[i].relative_error <= rtn.layers[i].relative_error)) fail_msg("%s", gptq.layers[i].name);
        quantize_result_reset(&rtn);
        quantize_result_reset(&gptq);
    }
    close_fixture(&f);
}

static void test_kept_columns_lower_the_error_and_cost_bits(void **state)
{
    (void)state;
    struct fixture f;
    struct error error = {0};
    struct quantize_result result = {0};
    struct quantize_method method = rtn_of(3);
    open_fixture(&f, tiny_llama, 12, 24);
    struct quantize_result plain = run(&f, method);
    method.options.keep_outliers = 8;
    struct quantize_result kept = run(&f, method);
    for (int64_t i = 0; i < plain.layer_count; i++) {
        assert_int_equal(kept.layers[i].kept, 8);
        assert_int_equal(kept.layers[i].columns, plain.layers[i].columns);
    }
    assert_true(kept.layers[0].proxy_error < plain.layers[0].proxy_error && kept.kl < plain.kl);
    assert_true(kept.bits_per_weight > plain.bits_per_weight);
    quantize_result_reset(&plain);
    quantize_result_reset(&kept);
    method.options.keep_outliers = 32;
    assert_int_equal(try_method(&f, method, &result, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/method/keep_outliers");
    close_fixture(&f);
}

static void test_overrides_reach_the_modules_that_they_name(void **state)
{
    (void)state;
    const struct quantize_override items[] = {{.pattern = "layers\\.0\\.", .skip = true},
                                              {.pattern = "down_proj$", .bits = 8},
                                              {.pattern = "v_proj|o_proj", .group_size = -1}};
    struct fixture f;
    struct quantize_method method = rtn_of(4);
    open_fixture(&f, tiny_llama, 12, 24);
    method.options.override_count = 3;
    method.options.overrides = items;
    struct quantize_result result = run(&f, method);
    for (int64_t i = 0; i < result.layer_count; i++) {
        const struct layer_summary *layer = &result.layers[i];
        const bool first = strstr(layer->name, "layers.0.") != NULL, down = strstr(layer->name, "down_proj") != NULL;
        const bool whole = strstr(layer->name, "v_proj") != NULL || strstr(layer->name, "o_proj") != NULL;
        const int64_t count = layer->rows * layer->columns, groups = whole ? 1 : (layer->columns + 15) / 16;
        const int64_t bits = first ? 16 * count : (down ? 8 : 4) * count + layer->rows * groups * 16;
        if (layer->bits != bits) fail_msg("%s: %d bits, expected %d", layer->name, (int)layer->bits, (int)bits);
        assert_true(layer->skipped == first);
    }
    quantize_result_reset(&result);
    close_fixture(&f);
}

static void refuse_overrides(struct quantize_method method, struct quantize_override item, const char *pointer)
{
    struct error error = {0};
    method.options.override_count = 1;
    method.options.overrides = &item;
    assert_int_equal(quantize_method_complete(&method, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, pointer);
}

static void test_overrides_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refuse_overrides(rtn_of(4), (struct quantize_override){.pattern = "("}, "/overrides/0/pattern");
    refuse_overrides((struct quantize_method){.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64}},
                     (struct quantize_override){.pattern = "a", .bits = 8}, "/overrides/0/bits");
}

static void test_embeddings_and_output_are_rounded_when_asked(void **state)
{
    (void)state;
    struct fixture f;
    struct quantize_method method = rtn_of(4);
    open_fixture(&f, tiny_gpt_neox, 12, 24);
    method.options.override_count = 1;
    method.options.overrides = everything;
    method.options.embedding_bits = 8;
    const double embedding = kl_of(&f, method);
    method.options.embedding_bits = 0;
    method.options.lm_head_bits = 4;
    struct quantize_result result = run(&f, method);
    assert_true(embedding > 0 && result.kl > embedding && result.bits_per_weight < 16);
    quantize_result_reset(&result);
    close_fixture(&f);
}

/* One matrix is stored for both ends if it is tied and rounded to the same bits as both. Its rows have 32 columns, and
 * so a scale each; what is not rounded is stored in 32 bits. */
static void test_a_matrix_that_is_both_ends_is_counted_once(void **state)
{
    enum { ROWS = 50, COLUMNS = 32, SIZE = ROWS * COLUMNS };
    static const struct {
        const char *config;
        int64_t embedding, output;
        int rounded[2]; /* bits of the rounded matrices that are stored; 0: none */
        int plain;      /* matrices that are stored as they are */
    } rows[] = {
        {tiny_llama, 8, 8, {8, 0}, 0},    {tiny_llama, 8, 4, {8, 4}, 0},    {tiny_llama, 8, 0, {8, 0}, 1},
        {tiny_llama, 0, 8, {8, 0}, 1},    {tiny_gpt_neox, 8, 8, {8, 8}, 0}, {tiny_gpt_neox, 8, 4, {8, 4}, 0},
        {tiny_gpt_neox, 0, 8, {8, 0}, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        struct quantize_method method = rtn_of(8);
        double bits = 0, weights = 0;
        open_fixture(&f, rows[i].config, 12, 24);
        const double parameters = (double)f.model->parameters, matrices = f.model->config.tied ? 1 : 2;
        method.options.embedding_bits = rows[i].embedding;
        method.options.lm_head_bits = rows[i].output;
        struct quantize_result result = run(&f, method);
        for (int64_t k = 0; k < result.layer_count; k++) {
            bits += (double)result.layers[k].bits;
            weights += (double)(result.layers[k].rows * result.layers[k].columns);
        }
        const double others = parameters - weights - matrices * SIZE;
        for (int end = 0; end < 2; end++) {
            if (rows[i].rounded[end] == 0) continue;
            bits += ROWS * (COLUMNS * rows[i].rounded[end] + 16);
            weights += SIZE;
        }
        assert_true(fabs(result.bits_per_weight - bits / weights) < 1e-12);
        const double whole = bits + 32 * (others + rows[i].plain * SIZE);
        assert_true(fabs(result.model_bits_per_weight - whole / parameters) < 1e-12);
        quantize_result_reset(&result);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rotation_alone_leaves_the_loss),
        cmocka_unit_test(test_a_rotation_s_seed_decides_its_signs),
        cmocka_unit_test(test_a_rotation_has_the_signs_of_its_seed),
        cmocka_unit_test(test_rounded_inputs_cost_more_the_fewer_their_bits),
        cmocka_unit_test(test_methods_that_treat_inputs_reach_experts),
        cmocka_unit_test(test_gptq_s_proxy_error_is_never_above_rounding_s),
        cmocka_unit_test(test_kept_columns_lower_the_error_and_cost_bits),
        cmocka_unit_test(test_overrides_reach_the_modules_that_they_name),
        cmocka_unit_test(test_overrides_that_cannot_be_are_refused),
        cmocka_unit_test(test_embeddings_and_output_are_rounded_when_asked),
        cmocka_unit_test(test_a_matrix_that_is_both_ends_is_counted_once),
    };
    return cmocka_run_group_tests_name("methods", tests, NULL, NULL);
}
