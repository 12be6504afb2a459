/* What state space models have of their own: their settings, fresh weights, and where they are cut to quantize them.
 * Their passes are held to differences and reference values with all others (test_gradient.c, test_tangent.c,
 * test_reference.c, test_forest.c). */
#include "engine/model/tiny_models.h"
#include "model/decoder.h"
#include "quant/cuts.h"

#include <math.h>
#include <stdio.h>

static enum status parse(const char *fields, struct model_config *config, struct error *error)
{
    char text[512];
    (void)snprintf(text, sizeof text, "{\"vocab_size\":20,\"hidden_size\":24,\"num_hidden_layers\":2%s}", fields);
    return config_parse("config.json", text, strlen(text), config, error);
}

static struct model_config parsed(const char *fields)
{
    struct model_config config;
    struct error error;
    if (parse(fields, &config, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return config;
}

static void test_absent_settings_are_as_published(void **state)
{
    (void)state;
    const struct model_config mamba =
        parsed(",\"model_type\":\"mamba\",\"time_step_rank\":\"auto\",\"layer_norm_epsilon\":0.25");
    const struct state_space_config one = mamba.state_space;
    assert_true(mamba.initializer_range == 0.1 && mamba.tied && mamba.norm_epsilon == 0.25 && !one.bias &&
                one.kernel_bias);
    assert_true(one.width == 48 && one.heads == 48 && one.states == 16 && one.kernel == 4 && one.rank == 2);
    assert_true(one.step_least == 0 && isinf(one.step_most));
    const struct model_config mamba2 = parsed(
        ",\"model_type\":\"mamba2\",\"expand\":4,\"num_heads\":12,\"n_groups\":3,\"time_step_limit\":[0.001,Infinity]");
    const struct state_space_config two = mamba2.state_space;
    assert_true(mamba2.initializer_range == 0.1 && !mamba2.tied && two.width == 96 && two.heads == 12 &&
                two.groups == 3 && two.states == 128);
    assert_true(two.step_least == 0.001 && isinf(two.step_most));
    assert_null(config_difference(&mamba2, &mamba2));
    struct model_config bare;
    struct error error;
    const char text[] = "{\"model_type\":\"mamba2\",\"vocab_size\":20,\"hidden_size\":64,\"num_hidden_layers\":2}";
    assert_int_equal(config_parse("config.json", text, strlen(text), &bare, &error), STATUS_OK);
    const struct state_space_config most = bare.state_space;
    assert_true(most.width == 128 && most.heads == 128 && most.groups == 8 && most.kernel == 4 && !most.bias &&
                most.kernel_bias);
    assert_true(bare.norm_epsilon == 1e-5 && most.step_least == 0 && isinf(most.step_most));
    const struct model_config other = parsed(",\"model_type\":\"mamba2\",\"expand\":4,\"num_heads\":12,\"n_groups\":3");
    assert_string_equal(config_difference(&mamba2, &other), "time_step_limit");
}

static void test_infinite_limits_are_read_as_either_version_writes_them(void **state)
{
#define HEADS ",\"model_type\":\"mamba2\",\"expand\":4,\"num_heads\":12,\"n_groups\":3,\"time_step_limit\":"
    const struct model_config literal = parsed(HEADS "[0.001,Infinity]"),
                              tagged = parsed(HEADS "[0.001,{\"__float__\":\"Infinity\"}]");
    const char *const refused[] = {HEADS "[0,{\"__float__\":\"NaN\"}]", HEADS "[0,{\"__float__\":1}]", HEADS "[0,{}]"};
    (void)state;
    assert_true(tagged.state_space.step_least == 0.001 && isinf(tagged.state_space.step_most));
    assert_null(config_difference(&literal, &tagged));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct model_config config;
        struct error error;
        assert_int_equal(parse(refused[i], &config, &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, "config.json: byte"));
    }
#undef HEADS
}

static void test_what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *fields, *detail;
        enum status status;
    } cases[] = {
        {",\"model_type\":\"mamba\",\"state_size\":257", "state_size 257", STATUS_UNSUPPORTED},
        {",\"model_type\":\"mamba\",\"conv_kernel\":17", "conv_kernel 17", STATUS_UNSUPPORTED},
        {",\"model_type\":\"mamba\",\"conv_kernel\":0", "conv_kernel 0", STATUS_UNSUPPORTED},
        {",\"model_type\":\"mamba\",\"intermediate_size\":50", "intermediate_size 50", STATUS_INVALID},
        {",\"model_type\":\"mamba\",\"time_step_rank\":\"some\"", "time_step_rank", STATUS_INVALID},
        {",\"model_type\":\"mamba\",\"expand\":1e30", "expand", STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":5,\"n_groups\":1", "num_heads 5", STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":4,\"n_groups\":3", "n_groups 3", STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":4,\"n_groups\":2,\"head_dim\":13", "head_dim 13", STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":4,\"n_groups\":2,\"time_step_limit\":[1,0]", "time_step_limit",
         STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":4,\"n_groups\":2,\"time_step_limit\":[0,1,2]", "time_step_limit",
         STATUS_INVALID},
        {",\"model_type\":\"mamba2\",\"num_heads\":4,\"n_groups\":2,\"time_step_limit\":[-1,1]", "time_step_limit",
         STATUS_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_config config;
        struct error error;
        assert_int_equal(parse(cases[i].fields, &config, &error), cases[i].status);
        if (strstr(error.detail, cases[i].detail) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", error.detail, cases[i].detail);
    }
}

static void test_fresh_weights_are_as_published(void **state)
{
    static const char *const texts[] = {",\"model_type\":\"mamba\"",
                                        ",\"model_type\":\"mamba2\",\"num_heads\":6,\"n_groups\":2"};
    (void)state;
    for (int heads = 0; heads < 2; heads++) {
        const struct model_config config = parsed(texts[heads]);
        struct backend *backend = NULL;
        struct parameters_layout *layout = NULL;
        struct parameters parameters;
        struct error error;
        assert_int_equal(backend_reference_new(true, NULL, &backend, &error), STATUS_OK);
        assert_int_equal(parameters_layout_new(&config, &layout, &error), STATUS_OK);
        assert_int_equal(parameters_init(&parameters, layout, backend, "parameters", &error), STATUS_OK);
        assert_int_equal(parameters_initialise(&parameters, 1, &error), STATUS_OK);
        const int64_t decay = parameters_find(layout, "backbone.layers.1.mixer.A_log");
        const int64_t bias =
            parameters_find(layout, heads ? "backbone.layers.1.mixer.dt_bias" : "backbone.layers.1.mixer.dt_proj.bias");
        const int64_t kernel = parameters_find(layout, "backbone.layers.1.mixer.conv1d.weight");
        assert_true(decay >= 0 && bias >= 0 && kernel >= 0);
        assert_true(!layout->tensors[decay].decays && layout->tensors[kernel].decays);
        const struct matrix a = parameters_view(&parameters, decay), b = parameters_view(&parameters, bias);
        const struct matrix k = parameters_view(&parameters, kernel);
        for (int64_t r = 0; r < a.rows; r++)
            for (int64_t c = 0; c < a.columns; c++)
                assert_true(fabs(((const double *)a.data)[r * a.columns + c] - log((double)c + 1)) < 1e-15);
        double least = 1, most = 0;
        for (int64_t c = 0; c < b.columns; c++) {
            least = fmin(least, log1p(exp(((const double *)b.data)[c])));
            most = fmax(most, log1p(exp(((const double *)b.data)[c])));
        }
        assert_true(least > 0.000999 && most < 0.1001 && most > 3 * least);
        for (int64_t i = 0; i < k.rows * k.columns; i++) assert_true(fabs(((const double *)k.data)[i]) <= 0.5);
        parameters_reset(&parameters);
        parameters_layout_free(layout);
        backend_free(backend);
    }
}

/* In, selection and out; the step sizes' projection is no quantizer's. What waits is the gate beside what the linear
 * reads. */
static void test_cut_before_projections(void **state)
{
    static const char *const names[2][3] = {{"in_proj", "x_proj", "out_proj"}, {"in_proj", "out_proj", NULL}};
    static const int64_t held[2][3] = {{0, 96, 48}, {0, 48, 0}};
    const struct model_config configs[] = {parsed(",\"model_type\":\"mamba\""),
                                           parsed(",\"model_type\":\"mamba2\",\"num_heads\":6,\"n_groups\":2")};
    (void)state;
    for (int heads = 0; heads < 2; heads++) {
        struct program program;
        struct cuts cuts;
        decoder_block(&configs[heads], 0, &program);
        cuts_plan(&program, 1000, &cuts);
        assert_int_equal(cuts.count, heads ? 2 : 3);
        for (int i = 0; i < cuts.count; i++) {
            const struct step *linear = &program.steps[cuts.cuts[i].step];
            assert_non_null(strstr(program.parameters[linear->parameter[0]].name, names[heads][i]));
            assert_int_equal(cuts.cuts[i].count, 1);
            assert_true(cuts.cuts[i].held);
            assert_int_equal(cuts.cuts[i].live_width, held[heads][i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_settings_are_as_published),
        cmocka_unit_test(test_infinite_limits_are_read_as_either_version_writes_them),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_fresh_weights_are_as_published),
        cmocka_unit_test(test_cut_before_projections),
    };
    return cmocka_run_group_tests_name("state space models", tests, NULL, NULL);
}
