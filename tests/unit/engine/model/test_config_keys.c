#include "model/config_keys.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static enum status check(const char *text, struct error *error)
{
    *error = (struct error){0};
    return config_keys_check("model", "/params/model", text, strlen(text), error);
}

static void test_what_is_read_or_idle_is_taken(void **state)
{
    static const char *const good[] = {
        "{}",
        "{\"model_type\": \"llama\", \"hidden_size\": 8, \"rope_scaling\": {\"factor\": 2}, \"layer_types\": []}",
        "{\"architectures\": [\"A\"], \"torch_dtype\": \"bfloat16\", \"use_cache\": true}",
        "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}, \"rope_scaling\": null}",
        "{\"id2label\": {\"0\": \"a\"}}",
        "{\"_name_or_path\": \"x/y\", \"_attn_implementation\": null}",
        "{\"attention_dropout\": 0, \"attn_pdrop\": 0.0, \"layerdrop\": null}",
        "{\"time_step_limit\": [0, Infinity], \"scale_attn_weights\": true, \"quantization_config\": null}",
    };
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (check(good[i], &error) != STATUS_OK) fail_msg("%s: %s", good[i], error.detail);
}

static void test_what_would_be_left_out_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum status status;
        const char *pointer, *said;
    } bad[] = {
        {"{\"num_key_value_head\": 2}", STATUS_INVALID, "/params/model/num_key_value_head",
         "did you mean \"num_key_value_heads\"?"},
        {"{\"rope_thetha\": 1}", STATUS_INVALID, "/params/model/rope_thetha", "did you mean \"rope_theta\"?"},
        {"{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_thta\": 1}}", STATUS_INVALID,
         "/params/model/rope_parameters/rope_thta", "did you mean \"rope_theta\"?"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, \"attention_factor\": 1}}", STATUS_INVALID,
         "/params/model/rope_scaling/attention_factor", "no key that a rope_scaling has here"},
        {"{\"hidden_size\": 8, \"vocab_szie\": 9}", STATUS_INVALID, "/params/model/vocab_szie", "\"vocab_size\"?"},
        {"{\"something\": {\"else\": [1, 2]}}", STATUS_INVALID, "/params/model/something", "leave it out"},
        {"{\"a/b\": 1}", STATUS_INVALID, "/params/model", "\"a/b\""},
        {"{\"attn_pdrop\": 0.1}", STATUS_UNSUPPORTED, "/params/model/attn_pdrop", "no dropout"},
        {"{\"attn_pdrop\": \"x\"}", STATUS_INVALID, "", ""},
        {"{\"hidden_size\": 8", STATUS_MALFORMED, "", ""},
        {"[]", STATUS_INVALID, "", ""},
    };
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const enum status status = check(bad[i].text, &error);
        if (status != bad[i].status || strcmp(error.pointer, bad[i].pointer) != 0 ||
            strstr(error.detail, bad[i].said) == NULL)
            fail_msg("%s: %d, \"%s\", %s", bad[i].text, status, error.pointer, error.detail);
    }
}

/* A key that is longer than the message has room for, cut inside a character. */
static void test_a_long_key_is_cut(void **state)
{
    char text[400] = "{\"a";
    size_t at = strlen(text);
    struct error error;
    (void)state;
    for (int i = 0; i < 100; i++) at += (size_t)snprintf(text + at, sizeof text - at, "é");
    (void)snprintf(text + at, sizeof text - at, "\": 1}");
    assert_int_equal(check(text, &error), STATUS_INVALID);
    assert_true(strlen(error.detail) < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_or_idle_is_taken),
        cmocka_unit_test(test_what_would_be_left_out_is_refused),
        cmocka_unit_test(test_a_long_key_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
