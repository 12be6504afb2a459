/* config.json in both dialects, its defaults, and what is refused. */
#include "model/architecture.h"
#include "model/config.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LLAMA_HEAD "\"model_type\":\"llama\",\"vocab_size\":96,\"hidden_size\":32,\"num_hidden_layers\":2,"
#define LLAMA_TAIL "\"num_attention_heads\":4,\"intermediate_size\":40,\"max_position_embeddings\":64"

static enum status parse(const char *text, struct model_config *config, struct error *error)
{
    return config_parse("config.json", text, strlen(text), config, error);
}

static struct model_config parsed_type(const char *type, const char *fields)
{
    char text[768];
    struct model_config config;
    struct error error;
    (void)snprintf(text, sizeof text,
                   "{\"model_type\":\"%s\",\"vocab_size\":96,\"hidden_size\":32,\"num_hidden_layers\":12,"
                   "\"num_attention_heads\":4,\"max_position_embeddings\":64%s}",
                   type, fields);
    if (parse(text, &config, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return config;
}

static void expect_refusal(const char *text, enum status status, const char *word)
{
    struct model_config config;
    struct error error = {0};
    assert_int_equal(parse(text, &config, &error), status);
    if (strstr(error.detail, word) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, word);
}

static void test_llama_defaults(void **state)
{
    struct model_config config;
    struct error error;
    (void)state;
    assert_int_equal(parse("{" LLAMA_HEAD LLAMA_TAIL "}", &config, &error), STATUS_OK);
    assert_string_equal(config.architecture->model_type, "llama");
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 8);
    assert_int_equal(config_rotary(&config), 8);
    assert_true(config.rope.theta == 10000 && config.norm_epsilon == 1e-6 && !config.tied && !config.attention_bias);
    assert_int_equal(config.bos_id, -1);
}

static void test_both_dialects_agree(void **state)
{
    static const char old[] =
        "{" LLAMA_HEAD "\"rope_theta\":500000.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}," LLAMA_TAIL "}";
    static const char new[] =
        "{" LLAMA_HEAD
        "\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"linear\",\"factor\":4.0}," LLAMA_TAIL "}";
    struct model_config a, b;
    struct error error;
    double fa[4], fb[4];
    (void)state;
    assert_int_equal(parse(old, &a, &error), STATUS_OK);
    assert_int_equal(parse(new, &b, &error), STATUS_OK);
    config_rope_frequencies(&a, fa);
    config_rope_frequencies(&b, fb);
    for (int j = 0; j < 4; j++) {
        assert_true(fa[j] == fb[j]);
        assert_true(fabs(fa[j] - pow(500000.0, -j / 4.0) / 4) < 1e-15);
    }
}

static void test_neox_keys(void **state)
{
    static const char text[] =
        "{\"model_type\":\"gpt_neox\",\"vocab_size\":50304,\"hidden_size\":768,\"num_hidden_layers\":12,"
        "\"num_attention_heads\":12,\"intermediate_size\":3072,\"max_position_embeddings\":2048,"
        "\"rotary_pct\":0.25,\"rotary_emb_base\":10000,\"layer_norm_eps\":1e-05,\"use_parallel_residual\":true}";
    struct model_config config;
    struct error error;
    (void)state;
    assert_int_equal(parse(text, &config, &error), STATUS_OK);
    assert_int_equal(config_rotary(&config), 16);
    assert_true(config.parallel_residual && config.attention_bias && config.activation == ACTIVATION_GELU);
}

static void test_two_names_of_a_setting_agree(void **state)
{
    static const char *const unlike[] = {",\"rope_theta\":10000,\"rotary_emb_base\":500000",
                                         ",\"partial_rotary_factor\":0.5,\"rotary_pct\":0.25",
                                         ",\"rope_theta\":10000,\"rope_parameters\":{\"rope_theta\":20000}",
                                         ",\"rope_scaling\":{\"partial_rotary_factor\":0.5},\"rotary_pct\":0.25"};
    (void)state;
    const struct model_config config = parsed_type(
        "gpt_neox", ",\"intermediate_size\":8,\"rope_theta\":500000.0,\"rotary_emb_base\":500000,\"rotary_pct\":0.5,"
                    "\"partial_rotary_factor\":0.5");
    assert_true(config.rope.theta == 500000 && config.rope.partial == 0.5);
    for (int i = 0; i < 4; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"model_type\":\"gpt_neox\"%s}", unlike[i]);
        expect_refusal(text, STATUS_INVALID, "mean the same");
    }
}

static void test_spread_of_fresh_weights(void **state)
{
    (void)state;
    const struct model_config opt = parsed_type("opt", ",\"ffn_dim\":8,\"init_std\":0.006"),
                              llama = parsed_type("llama", ",\"intermediate_size\":8,\"init_std\":0.006");
    assert_true(opt.initializer_range == 0.006);
    assert_true(llama.initializer_range == 0.02); /* it has no such key */
}

/* Transformers' GPT-NeoX and GPT-2 have no such key. */
static void test_fused_projections_have_no_grouped_heads(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int64_t kv_heads;
    } rows[] = {{"gpt_neox", 4}, {"gpt2", 4}, {"llama", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct model_config config =
            parsed_type(rows[i].type, ",\"intermediate_size\":8,\"num_key_value_heads\":2");
        assert_int_equal(config.kv_heads, rows[i].kv_heads);
    }
}

static void test_python_literals_and_null_are_read(void **state)
{
    struct model_config config;
    struct error error;
    (void)state;
    assert_int_equal(parse("{" LLAMA_HEAD
                           "\"limit\":[0.0,Infinity],\"per_layer_config\":{},\"rope_scaling\":null,\"head_dim\":null,"
                           "\"eos_token_id\":[2,3]," LLAMA_TAIL "}",
                           &config, &error),
                     STATUS_OK);
    assert_int_equal(config.head_dim, 8);
    assert_int_equal(config.eos_id, 2);
}

static void test_refusals_name_the_cause(void **state)
{
    (void)state;
    expect_refusal("{\"model_type\":\"rwkv\"}", STATUS_UNSUPPORTED, "rwkv");
    expect_refusal("{" LLAMA_HEAD "\"quantization_config\":{\"bits\":4}," LLAMA_TAIL "}", STATUS_UNSUPPORTED,
                   "already quantized");
    expect_refusal("{" LLAMA_HEAD "\"per_layer_config\":{\"1\":{\"skip\":[\"mlp\"]}}," LLAMA_TAIL "}",
                   STATUS_UNSUPPORTED, "per_layer_config");
    expect_refusal("{" LLAMA_HEAD "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}," LLAMA_TAIL "}",
                   STATUS_UNSUPPORTED, "yarn");
    expect_refusal("{" LLAMA_HEAD "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}," LLAMA_TAIL "}", STATUS_INVALID,
                   "llama3");
    expect_refusal("{" LLAMA_HEAD "\"rope_scaling\":{\"factor\":8.0}," LLAMA_TAIL "}", STATUS_INVALID,
                   "a factor (8) and no \"rope_type\"");
    expect_refusal("{" LLAMA_HEAD "\"hidden_act\":\"mish\"," LLAMA_TAIL "}", STATUS_UNSUPPORTED, "mish");
    expect_refusal("{" LLAMA_HEAD "\"num_key_value_heads\":3," LLAMA_TAIL "}", STATUS_INVALID, "evenly");
    expect_refusal("{" LLAMA_HEAD "\"head_dim\":7," LLAMA_TAIL "}", STATUS_INVALID, "odd");
    expect_refusal("{\"model_type\":\"llama\",\"vocab_size\":96}", STATUS_INVALID, "hidden_size");
    expect_refusal("{" LLAMA_HEAD "\"num_attention_heads\":\"4\"}", STATUS_INVALID, "num_attention_heads");
    expect_refusal("{" LLAMA_HEAD, STATUS_MALFORMED, "config.json");
}

/* Settings that no tensor's shape shows. */
static void test_difference_names_the_setting(void **state)
{
    (void)state;
    static const char base[] =
        "{\"model_type\": \"mistral\", \"vocab_size\": 8, \"hidden_size\": 8, \"num_attention_heads\": %s,"
        " \"num_key_value_heads\": 2, \"head_dim\": 4, \"num_hidden_layers\": 1, \"intermediate_size\": 8,"
        " \"max_position_embeddings\": 16, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, \"rope_theta\": %s,"
        " \"sliding_window\": %s, \"tie_word_embeddings\": false}";
    static const char *const changes[][4] = {{"2", "1e4", "4", NULL},
                                             {"4", "1e4", "4", "num_attention_heads"},
                                             {"2", "2e4", "4", "rope_theta"},
                                             {"2", "1e4", "null", "sliding_window"}};
    struct model_config first;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[512];
        struct model_config config;
        struct error error;
        const int size = snprintf(text, sizeof text, base, changes[i][0], changes[i][1], changes[i][2]);
        if (config_parse("config.json", text, (size_t)size, &config, &error) != STATUS_OK) fail_msg("%s", error.detail);
        if (i == 0) first = config;
        const char *name = config_difference(&first, &config);
        if (changes[i][3] == NULL)
            assert_null(name);
        else
            assert_string_equal(name, changes[i][3]);
    }
}

/* Which layers see a window, by the rules of Transformers' Qwen2Config and SmolLM3Config; a bit a layer. */
static void test_window_of_each_layer(void **state)
{
#define WINDOWED(rest) ",\"intermediate_size\":8,\"sliding_window\":3" rest
#define USED           ",\"use_sliding_window\":true"
#define TYPES(middle)                                                                                              \
    ",\"layer_types\":[\"sliding_attention\",\"full_attention\"," middle ",\"full_attention\",\"full_attention\"," \
    "\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","              \
    "\"full_attention\",\"sliding_attention\"]"
    static const struct {
        const char *type, *fields;
        unsigned windowed;
    } rows[] = {
        {"mistral", WINDOWED(""), 0xfff},
        {"llama", WINDOWED(USED), 0},
        {"qwen2", WINDOWED(",\"max_window_layers\":0"), 0},
        {"qwen2", WINDOWED(USED ",\"max_window_layers\":0"), 0xfff},
        {"qwen2", WINDOWED(USED ",\"max_window_layers\":9"), 0xe00},
        {"qwen3", WINDOWED(USED ",\"max_window_layers\":9"), 0xe00},
        {"qwen3", WINDOWED(USED ",\"max_window_layers\":12"), 0},
        {"qwen2", WINDOWED(USED), 0}, /* 28 by itself */
        {"qwen2", WINDOWED(USED ",\"max_window_layers\":9" TYPES("\"sliding_attention\"")), 0x805},
        {"smollm3", WINDOWED(USED), 0x888}, /* those without rotation: every fourth */
        {"smollm3", WINDOWED(USED ",\"no_rope_layers\":[1,0,1,1,1,1,1,1,1,1,1,0]"), 0x802},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct model_config config = parsed_type(rows[i].type, rows[i].fields);
        for (int64_t layer = 0; layer < 12; layer++)
            assert_int_equal(config_window(&config, layer), (rows[i].windowed >> layer & 1) != 0 ? 3 : 0);
        assert_int_equal(config.window, rows[i].windowed != 0 ? 3 : 0);
    }
    static const char qwen[] = "{\"model_type\":\"qwen2\",\"vocab_size\":96,\"hidden_size\":32,\"num_hidden_layers\":2,"
                               "\"num_attention_heads\":4,\"intermediate_size\":8,\"max_position_embeddings\":64%s}";
    static const char *const refused[][2] = {
        {USED, "sliding_window is missing"},
        {WINDOWED(USED ",\"layer_types\":[\"full_attention\"]"), "1 entries for 2 layers"},
        {WINDOWED(USED ",\"layer_types\":[\"linear_attention\",\"full_attention\"]"), "other layers"},
        {WINDOWED(",\"layer_types\":[\"sliding_attention\",\"full_attention\"]"), "use_sliding_window is not true"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char text[512];
        struct model_config config;
        struct error error;
        const int size = snprintf(text, sizeof text, qwen, refused[i][0]);
        assert_int_not_equal(config_parse("config.json", text, (size_t)size, &config, &error), STATUS_OK);
        if (strstr(error.detail, refused[i][1]) == NULL) fail_msg("%s", error.detail);
    }
#undef TYPES
#undef USED
#undef WINDOWED
}

/* What a file need not say, as the published code of each architecture has it. */
static void test_absent_settings_are_as_published(void **state)
{
    static const struct {
        const char *type;
        int64_t head_dim;
        double theta, partial, epsilon;
        bool tied, attention_bias, mlp_bias;
        enum activation_kind activation;
    } rows[] = {
        {"llama", 8, 1e4, 1, 1e-6, false, false, false, ACTIVATION_SILU},
        {"mistral", 8, 1e4, 1, 1e-6, false, false, false, ACTIVATION_SILU},
        {"qwen2", 8, 1e4, 1, 1e-6, false, true, false, ACTIVATION_SILU},
        {"qwen3", 128, 1e4, 1, 1e-6, false, false, false, ACTIVATION_SILU},
        {"opensci", 8, 1e4, 1, 1e-5, false, false, false, ACTIVATION_SILU},
        {"smollm3", 8, 2e6, 1, 1e-6, true, false, false, ACTIVATION_SILU},
        {"olmo2", 8, 1e4, 1, 1e-5, false, false, false, ACTIVATION_SILU},
        {"gpt_neox", 8, 1e4, 0.25, 1e-5, false, true, true, ACTIVATION_GELU},
        {"apertus", 8, 1.2e7, 1, 1e-5, false, false, false, ACTIVATION_SILU},
        {"olmoe", 8, 1e4, 1, 1e-5, false, false, false, ACTIVATION_SILU},
        {"gpt2", 8, 1, 0, 1e-5, true, true, true, ACTIVATION_GELU_TANH},
        {"opt", 8, 1, 0, 1e-5, true, true, true, ACTIVATION_RELU},
    };
    const struct architecture *architecture;
    (void)state;
    for (int index = 0; (architecture = architecture_at(index)) != NULL; index++) {
        bool found = architecture->block != BLOCK_ATTENTION; /* test_state_space.c has those of the others */
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            found |= strcmp(rows[i].type, architecture->model_type) == 0;
        if (!found) fail_msg("%s has no row of defaults in this test", architecture->model_type);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct model_config config = parsed_type(rows[i].type, ",\"intermediate_size\":40");
        if (config.head_dim != rows[i].head_dim || config.kv_heads != 4 || config.tied != rows[i].tied ||
            config.attention_bias != rows[i].attention_bias || config.mlp_bias != rows[i].mlp_bias)
            fail_msg("%s: head_dim %lld, %lld key heads, tied %d, biases %d %d", rows[i].type,
                     (long long)config.head_dim, (long long)config.kv_heads, config.tied, config.attention_bias,
                     config.mlp_bias);
        if (config.rope.theta != rows[i].theta || config.rope.partial != rows[i].partial ||
            config.norm_epsilon != rows[i].epsilon || config.initializer_range != 0.02)
            fail_msg("%s: theta %g, partial %g, epsilon %g, spread %g", rows[i].type, config.rope.theta,
                     config.rope.partial, config.norm_epsilon, config.initializer_range);
        if (!config.xielu) assert_int_equal(config.activation, rows[i].activation);
        assert_int_equal(config.xielu, strcmp(rows[i].type, "apertus") == 0);
        for (int64_t layer = 0; layer < 12; layer++) {
            const bool skipped = strcmp(rows[i].type, "smollm3") == 0 && (layer + 1) % 4 == 0;
            assert_int_equal(config_rotates(&config, layer), rows[i].partial > 0 && !skipped);
        }
    }
    assert_int_equal(parsed_type("gpt2", "").intermediate_size, 128);
    assert_int_equal(parsed_type("opt", ",\"intermediate_size\":40").architecture->position_offset, 2);
    const struct model_config mixture = parsed_type("olmoe", ",\"intermediate_size\":40");
    assert_true(mixture.experts == 64 && mixture.experts_per_token == 8 && !mixture.experts_normalised &&
                mixture.clip == 0);
}

/* Keys of one architecture have no effect in another, in Transformers: they may only repeat what it reads. */
static void test_keys_of_other_architectures_change_nothing(void **state)
{
    static const struct {
        const char *type, *fields;
        bool refused;
    } rows[] = {
        {"gpt2", ",\"activation_function\":\"relu\",\"layer_norm_epsilon\":0.1", false},
        {"gpt2", ",\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":1e-5", false},
        {"gpt2", ",\"hidden_act\":\"relu\"", true},
        {"gpt2", ",\"layer_norm_eps\":0.1", true},
        {"gpt_neox", ",\"intermediate_size\":8,\"activation_function\":\"relu\"", true},
        {"gpt_neox", ",\"intermediate_size\":8,\"layer_norm_epsilon\":0.1", true},
        {"opt", ",\"ffn_dim\":8,\"hidden_act\":\"gelu\"", true},
        {"opt", ",\"ffn_dim\":8,\"layer_norm_eps\":0.1", true},
        {"opensci", ",\"intermediate_size\":8,\"rms_norm_eps\":0.1,\"layer_norm_eps\":1e-5", false},
        {"mistral", ",\"intermediate_size\":8,\"layer_types\":[\"full_attention\"]", true},
        {"mistral", ",\"intermediate_size\":8,\"layer_types\":[\"sliding_attention\"]", false},
        {"mistral", ",\"intermediate_size\":8,\"layer_types\":[\"full_attention\"],\"sliding_window\":null", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        struct model_config config;
        struct error error;
        (void)snprintf(text, sizeof text,
                       "{\"model_type\":\"%s\",\"vocab_size\":96,\"hidden_size\":32,\"num_hidden_layers\":1,"
                       "\"num_attention_heads\":4,\"max_position_embeddings\":64%s}",
                       rows[i].type, rows[i].fields);
        const enum status status = parse(text, &config, &error);
        if ((status != STATUS_OK) != rows[i].refused) fail_msg("%s: status %d", text, (int)status);
    }
    const struct model_config gpt2 = parsed_type("gpt2", rows[0].fields);
    assert_true(gpt2.activation == ACTIVATION_RELU && gpt2.norm_epsilon == 0.1);
    assert_true(parsed_type("opensci", rows[8].fields).norm_epsilon == 0.1);
}

/* By Transformers' configurations: a key that is not there is the architecture's default, and null is none. */
static void test_absent_is_not_null(void **state)
{
#define SIZE ",\"intermediate_size\":8"
    static const struct {
        const char *type;
        int64_t window, padding;
        enum rope_scaling scaling;
    } rows[] = {
        {"llama", 0, -1, ROPE_SCALING_NONE}, {"mistral", 4096, -1, ROPE_SCALING_NONE},
        {"qwen2", 0, -1, ROPE_SCALING_NONE}, {"apertus", 0, 3, ROPE_SCALING_LLAMA3},
        {"olmo2", 0, 1, ROPE_SCALING_NONE},  {"olmoe", 0, 1, ROPE_SCALING_NONE},
        {"opt", 0, 1, ROPE_SCALING_NONE},    {"smollm3", 0, -1, ROPE_SCALING_NONE}, /* 128004, which is no token here */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct model_config absent = parsed_type(rows[i].type, SIZE);
        const struct model_config null =
            parsed_type(rows[i].type, SIZE ",\"sliding_window\":null,\"pad_token_id\":null,\"rope_scaling\":null");
        assert_int_equal(config_window(&absent, 11), rows[i].window);
        assert_int_equal(absent.padding_id, rows[i].padding);
        assert_int_equal(absent.rope.scaling, rows[i].scaling);
        assert_int_equal(config_window(&null, 11), 0);
        assert_int_equal(null.padding_id, -1);
        assert_int_equal(null.rope.scaling, ROPE_SCALING_NONE);
    }
    const struct rope_config rope = parsed_type("apertus", SIZE ",\"rope_theta\":5e5").rope;
    assert_true(rope.theta == 5e5 && rope.factor == 8 && rope.low_frequency_factor == 1);
    assert_true(rope.high_frequency_factor == 4 && rope.original_positions == 8192);
    const struct model_config plain = parsed_type("apertus", SIZE ",\"rope_parameters\":{\"rope_theta\":5e5}");
    assert_int_equal(plain.rope.scaling, ROPE_SCALING_NONE);
#undef SIZE
}

/* Computed apart from the engine, from the rule as it was released: base 500000, 16 columns, original length 64,
 * factors 8, 1, 4. */
static void test_llama3_scaling(void **state)
{
    static const double expected[] = {1,
                                      0.0794030091792082,
                                      0.004700753866357992,
                                      0.0009115830921521387,
                                      0.00017677669529663688,
                                      3.428102195952591e-05,
                                      6.647869871181235e-06,
                                      1.2891731721515574e-06};
    (void)state;
    const struct model_config config = parsed_type(
        "llama", ",\"intermediate_size\":40,\"head_dim\":16,\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":"
                 "\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                 "\"original_max_position_embeddings\":64}");
    double found[8];
    config_rope_frequencies(&config, found);
    for (int j = 0; j < 8; j++) assert_true(fabs(found[j] - expected[j]) < 1e-14 * expected[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_difference_names_the_setting),
        cmocka_unit_test(test_llama_defaults),
        cmocka_unit_test(test_both_dialects_agree),
        cmocka_unit_test(test_neox_keys),
        cmocka_unit_test(test_two_names_of_a_setting_agree),
        cmocka_unit_test(test_spread_of_fresh_weights),
        cmocka_unit_test(test_fused_projections_have_no_grouped_heads),
        cmocka_unit_test(test_python_literals_and_null_are_read),
        cmocka_unit_test(test_refusals_name_the_cause),
        cmocka_unit_test(test_absent_settings_are_as_published),
        cmocka_unit_test(test_window_of_each_layer),
        cmocka_unit_test(test_absent_is_not_null),
        cmocka_unit_test(test_keys_of_other_architectures_change_nothing),
        cmocka_unit_test(test_llama3_scaling),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
