#include "http/json_body.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static enum status parse(const char *text, size_t length, struct error *error)
{
    json_t *value;
    enum status status = json_body_parse(text, length, &value, error);
    assert_true((status == STATUS_OK) == (value != NULL));
    json_decref(value);
    return status;
}

static void test_values_of_all_kinds_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}", " [1, 2.5e3, -0] ", "\"a\\u20ac\"", "null", "true", "{\"a\": {\"b\": [\"}]\\\"\", 1]}}"};
    struct error error;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(parse(texts[i], strlen(texts[i]), &error), STATUS_OK);
}

static void test_bad_grammar_is_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "{}{}",
                                        "[1,]",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"a\":{\"b\":1,\"b\":1}}",
                                        "1e999",
                                        "nul",
                                        "\"\\u0000\"",
                                        "\"\xff\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\\ud800\"",
                                        "{\"\xc3\":1}",
                                        "01",
                                        "NaN",
                                        "\"a\nb\"",
                                        "\xef\xbb\xbf{}"};
    struct error error;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(parse(texts[i], strlen(texts[i]), &error), STATUS_MALFORMED);
    assert_int_equal(parse("[1]\0", 4, &error), STATUS_MALFORMED);
}

static void test_failure_says_line_and_column(void **state)
{
    (void)state;
    static const char text[] = "{\n  \"a\": 1,\n  \"b\" 2\n}";
    struct error error;
    assert_int_equal(parse(text, sizeof text - 1, &error), STATUS_MALFORMED);
    assert_memory_equal(error.detail, "line 3, column 7", 16);
    static const char null[] = "{\"a\": \"\\u0000\"}";
    assert_int_equal(parse(null, sizeof null - 1, &error), STATUS_MALFORMED);
    assert_non_null(strstr(error.detail, "\\u0000 is not allowed here"));
}

static void test_numbers_that_would_become_0_are_malformed(void **state)
{
    static const char *const small[] = {"1e-400",
                                        "[-1E-308]",
                                        "{\"a\": 0.9e-307}",
                                        "0.00001e-303",
                                        "12345e-312",
                                        "[1, 1e-18446744073709551616]",
                                        "{\"\\\"\": 5e-324}"};
    static const char *const fine[] = {"1e-307",     "-1.5e-307",        "0",
                                       "0.0e-400",   "[0e-999, -0.000]", "0.00001e-302",
                                       "12345e-311", "\"1e-400\"",       "{\"1e-400\": \"\\\"1e-400\"}",
                                       "1e+300"};
    char text[500] = "0.";
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (parse(small[i], strlen(small[i]), &error) != STATUS_MALFORMED) fail_msg("taken: %s", small[i]);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        if (parse(fine[i], strlen(fine[i]), &error) != STATUS_OK) fail_msg("%s: %s", fine[i], error.detail);
    memset(text + 2, '0', 306);
    text[308] = '1';
    assert_int_equal(parse(text, 309, &error), STATUS_OK);
    memmove(text + 3, text + 2, 307);
    assert_int_equal(parse(text, 310, &error), STATUS_MALFORMED);
    static const char lines[] = "{\"a\": 1,\n \"learning_rate\": 1e-400}";
    assert_int_equal(parse(lines, sizeof lines - 1, &error), STATUS_MALFORMED);
    assert_string_equal(error.detail, "line 2, column 19: the number 1e-400 is neither 0 nor at least 1e-307 in"
                                      " magnitude, and would be taken for 0");
}

static void test_depth_is_counted_outside_strings(void **state)
{
    (void)state;
    char text[200];
    struct error error;
    for (int depth = 32; depth <= 33; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        assert_int_equal(parse(text, (size_t)depth * 2, &error), depth == 32 ? STATUS_OK : STATUS_MALFORMED);
    }
    static const char in_string[] = "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[\"]";
    assert_int_equal(parse(in_string, sizeof in_string - 1, &error), STATUS_OK);
    static const char behind_quote[] = "[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]";
    assert_int_equal(parse(behind_quote, sizeof behind_quote - 1, &error), STATUS_OK);
}

static void test_too_many_objects_are_refused_before_parsing(void **state)
{
    (void)state;
    static char text[3 * 70000 + 2];
    struct error error;
    text[0] = '[';
    for (int i = 0; i < 70000; i++) memcpy(text + 1 + 3 * (size_t)i, "{},", 3);
    text[3 * 70000] = ']'; /* in the place of the last comma */
    assert_int_equal(parse(text, 3 * 70000 + 1, &error), STATUS_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_all_kinds_pass),
        cmocka_unit_test(test_bad_grammar_is_malformed),
        cmocka_unit_test(test_failure_says_line_and_column),
        cmocka_unit_test(test_numbers_that_would_become_0_are_malformed),
        cmocka_unit_test(test_depth_is_counted_outside_strings),
        cmocka_unit_test(test_too_many_objects_are_refused_before_parsing),
    };
    return cmocka_run_group_tests_name("json_body", tests, NULL, NULL);
}
