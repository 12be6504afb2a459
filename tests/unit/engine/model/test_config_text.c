/* One configuration out of several texts. */
#include "unit.h"

#include "base/memory.h"
#include "model/config_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status merge(const char *const *texts, int count, char **out, struct error *error)
{
    static const char *const names[] = {"first", "second", "third"};
    struct config_text list[3];
    size_t size = 0;
    for (int i = 0; i < count; i++) list[i] = (struct config_text){names[i], texts[i], strlen(texts[i])};
    const enum status status = config_text_merge(list, count, out, &size, error);
    if (status == STATUS_OK) assert_true((*out)[size - 1] == '}');
    return status;
}

static void test_the_first_text_that_has_a_key_counts(void **state)
{
    static const struct {
        const char *texts[3], *merged;
    } cases[] = {
        {{"{}", "{}", "{}"}, "{}"},
        {{"{\"a\": 1}", "{\"a\": 2, \"b\": 3}", "{\"b\": 4, \"c\": 5}"}, "{\"c\": 5, \"b\": 3, \"a\": 1}"},
        {{"{\"a\": null}", "{\"a\": {\"x\": [1, 2]}}", "{}"}, "{\"a\": null}"},
        {{"{\"a\": 1, \"a\": 2}", "{\"b\": 1, \"b\": [NaN]}", "{}"},
         "{\"b\": [NaN], \"a\": 2}"}, /* a text's last one */
        {{"{\"\\u0061\": 1}", "{\"a\": 2}", "{}"}, "{\"a\": 1}"},
        /* Two spellings of one thing; a text that has both keeps both. */
        {{"{\"rope_parameters\": 1}", "{\"rope_scaling\": 2}", "{}"}, "{\"rope_parameters\": 1}"},
        {{"{}", "{\"rope_scaling\": 2, \"rope_parameters\": 1}", "{\"rope_scaling\": 3}"},
         "{\"rope_parameters\": 1, \"rope_scaling\": 2}"},
        {{"{\"rotary_emb_base\": 1}", "{\"rope_theta\": 2, \"rotary_pct\": 3}", "{\"partial_rotary_factor\": 4}"},
         "{\"rotary_pct\": 3, \"rotary_emb_base\": 1}"},
        /* Keys that nobody reads. */
        {{"{\"a\\\"\": 1, \"\": 2, \"\\u00e4\": 3, \"ok\": 4}", "{}", "{}"}, "{\"ok\": 4}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *out = NULL;
        struct error error;
        assert_int_equal(merge(cases[i].texts, 3, &out, &error), STATUS_OK);
        const size_t size = strlen(cases[i].merged);
        if (strncmp(out, cases[i].merged, size) != 0) fail_msg("%zu: %.*s", i, (int)size, out);
        memory_free(out);
    }
}

static void test_broken_texts_are_named(void **state)
{
    static const char *const broken[] = {"[]", "{", "{\"a\": 1,}", "{\"a\": 1} x", "{\"a\": {]}"};
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *texts[] = {"{}", broken[i]};
        char *out = NULL;
        struct error error;
        const enum status status = merge(texts, 2, &out, &error);
        assert_true(status == STATUS_MALFORMED || status == STATUS_INVALID);
        assert_null(out);
        assert_non_null(strstr(error.detail, "second"));
    }
}

/* Thousands of keys are a file made to be slow. */
static void test_too_many_keys_are_refused(void **state)
{
    const size_t keys = 20000;
    char *text = malloc(keys * 16 + 2), *out = NULL;
    size_t used = 0;
    struct error error;
    (void)state;
    assert_non_null(text);
    text[used++] = '{';
    for (size_t i = 0; i < keys; i++) used += (size_t)snprintf(text + used, 16, "%s\"k%zu\": 1", i > 0 ? "," : "", i);
    memcpy(text + used, "}", 2);
    const char *texts[] = {text};
    assert_int_equal(merge(texts, 1, &out, &error), STATUS_INVALID);
    assert_null(out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_text_that_has_a_key_counts),
        cmocka_unit_test(test_broken_texts_are_named),
        cmocka_unit_test(test_too_many_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
