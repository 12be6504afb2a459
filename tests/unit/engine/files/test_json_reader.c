/* The JSON reader: what it accepts, what it refuses and where it says the trouble is. */
#include "unit.h"

#include "files/json_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Status of skipping all of `text`, from memory of exactly its size so that ASan sees a read beyond it. */
static enum status skim(const char *text, size_t size, const struct json_reader_options *options, struct error *error)
{
    struct json_reader reader;
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    json_reader_init(&reader, "x.json", copy, size, options, error);
    const enum status status = json_reader_finish(&reader);
    free(copy);
    return status;
}

static void test_accepts_the_grammar(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-0",
        "1",
        "-12.5e+3",
        "1E-7",
        "true",
        "false",
        "null",
        "\"\"",
        "\"a\\u0000b\"",
        "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"\\ud83d\\ude00\"}",
        "\t[1 , 2\r\n,3]\n",
        "\"\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa4\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\x7f\"",
    };
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (skim(texts[i], strlen(texts[i]), NULL, &error) != STATUS_OK) fail_msg("%s: %s", texts[i], error.detail);
}

static void test_refuses_what_is_not_json(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "]",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "tru",
        "True",
        "nul",
        "nulll",
        "'a'",
        "\"a",
        "\"\\",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800x\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud83d\\u0041\"",
        "\"\n\"",
        "\"\x1f\"",
        "\"\x80\"",
        "\"\xc0\xaf\"",
        "\"\xc3\"",
        "\"\xe0\x80\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xff\"",
        "[1] x",
        "{} {}",
        "1 2",
        "// c\n1",
        "[1/*c*/]",
        "\xef\xbb\xbf{}",
        "NaN",
        "Infinity",
        "-Infinity",
        "[NaN]",
        "\v1",
        "{\"a\":1,\"b\"",
        "\"abcdefgh\\q\"",
    };
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (skim(texts[i], strlen(texts[i]), NULL, &error) != STATUS_MALFORMED) fail_msg("accepted: %s", texts[i]);
    assert_int_equal(skim("\"a\0b\"", 5, NULL, &error), STATUS_MALFORMED);
    assert_int_equal(skim("1\0", 2, NULL, &error), STATUS_MALFORMED);
}

static void test_every_cut_of_a_document_is_malformed(void **state)
{
    static const char text[] =
        "{\"a\\n\":[1.5e3,true,null,\"\\ud83d\\ude00\xe2\x82\xac\"],\"b\":{\"c\":false,\"d\":-0}}";
    struct error error;
    (void)state;
    for (size_t size = 0; size < sizeof text - 1; size++)
        assert_int_equal(skim(text, size, NULL, &error), STATUS_MALFORMED);
    assert_int_equal(skim(text, sizeof text - 1, NULL, &error), STATUS_OK);
}

static void test_depth_is_capped(void **state)
{
    char text[202];
    struct error error;
    (void)state;
    static const int limits[] = {0, 1, 64};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct json_reader_options options = {.depth = limits[i]};
        const size_t depth = limits[i] ? (size_t)limits[i] : 32;
        memset(text, '[', depth + 1);
        memset(text + depth + 1, ']', depth + 1);
        assert_int_equal(skim(text + 1, 2 * depth, &options, &error), STATUS_OK);
        assert_int_equal(skim(text, 2 * depth + 2, &options, &error), STATUS_MALFORMED);
        assert_non_null(strstr(error.detail, "nested deeper"));
    }
}

static void test_decodes_strings(void **state)
{
    static const char text[] =
        "[\"plain, eight bytes and more\",\"a\\u00e4\\u20ac\\ud83d\\ude00\\u0000\\/\\b\\f\\n\\r\\t\\\"\\\\z\",\"\"]";
    static const char decoded[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\0/\b\f\n\r\t\"\\z";
    struct json_reader reader;
    struct json_reader_text value = {0};
    struct error error;
    (void)state;
    json_reader_init(&reader, "x.json", text, sizeof text - 1, NULL, &error);
    assert_true(json_reader_array(&reader) && json_reader_next_item(&reader) && json_reader_string(&reader, &value));
    assert_true(json_reader_is(value, "plain, eight bytes and more"));
    assert_ptr_equal(value.bytes, text + 2); /* lent from the input */
    assert_true(json_reader_next_item(&reader) && json_reader_string(&reader, &value));
    assert_int_equal(value.size, sizeof decoded - 1);
    assert_memory_equal(value.bytes, decoded, value.size);
    assert_true(json_reader_next_item(&reader) && json_reader_string(&reader, &value));
    assert_int_equal(value.size, 0);
    assert_false(json_reader_next_item(&reader));
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
}

static void test_reads_an_object_and_skips_what_nobody_read(void **state)
{
    static const char text[] =
        "{\"skipped\":{\"a\":[1,{\"b\":2}]},\"wi\\u0064th\":64,\"rate\":1e-5,\"tied\":true,\"scaling\":null,"
        "\"list\":[1,2,3],\"name\":\"x\"}";
    struct json_reader reader;
    struct json_reader_text key;
    struct error error;
    int64_t width = 0, sum = 0;
    double rate = 0;
    bool tied = false, null = false;
    char name[2] = "";
    (void)state;
    json_reader_init(&reader, "x.json", text, sizeof text - 1, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "width")) json_reader_int64(&reader, 1, 100, &width);
        if (json_reader_is(key, "rate")) json_reader_double(&reader, &rate);
        if (json_reader_is(key, "tied")) json_reader_bool(&reader, &tied);
        if (json_reader_is(key, "scaling")) null = json_reader_null(&reader);
        if (json_reader_is(key, "name")) json_reader_string_copy(&reader, name, sizeof name);
        if (json_reader_is(key, "list")) {
            json_reader_array(&reader);
            for (int64_t item = 0; json_reader_next_item(&reader); sum += item) json_reader_int64(&reader, 0, 9, &item);
        }
    }
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
    assert_int_equal(width, 64);
    assert_int_equal(sum, 6);
    assert_true(rate == 1e-5 && tied && null);
    assert_string_equal(name, "x");
}

/* Reads `text` as one integer in [minimum, maximum]. */
static enum status read_int64(const char *text, int64_t minimum, int64_t maximum, int64_t *out)
{
    struct json_reader reader;
    struct error error;
    json_reader_init(&reader, "x.json", text, strlen(text), NULL, &error);
    json_reader_int64(&reader, minimum, maximum, out);
    return json_reader_finish(&reader);
}

static void test_integers_are_exact_or_refused(void **state)
{
    static const char *const wrong[] = {"9223372036854775808",
                                        "-9223372036854775809",
                                        "18446744073709551616",
                                        "1.0",
                                        "1e2",
                                        "99999999999999999999999999",
                                        "\"1\"",
                                        "true",
                                        "null",
                                        "[1]"};
    int64_t value = 7;
    struct json_reader reader;
    struct error error;
    uint64_t large = 0;
    (void)state;
    assert_int_equal(read_int64("9223372036854775807", INT64_MIN, INT64_MAX, &value), STATUS_OK);
    assert_true(value == INT64_MAX);
    assert_int_equal(read_int64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), STATUS_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(read_int64("-0", 0, 9, &value), STATUS_OK);
    assert_int_equal(value, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(read_int64(wrong[i], INT64_MIN, INT64_MAX, &value), STATUS_INVALID);
    assert_int_equal(read_int64("10", 0, 9, &value), STATUS_INVALID);
    assert_int_equal(read_int64("-1", 0, 9, &value), STATUS_INVALID);
    assert_int_equal(value, 0); /* untouched by failures */
    json_reader_init(&reader, "x.json", "18446744073709551615", 20, NULL, &error);
    assert_true(json_reader_uint64(&reader, UINT64_MAX, &large));
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
    assert_true(large == UINT64_MAX);
}

static enum status read_double(const char *text, bool not_finite, double *out)
{
    const struct json_reader_options options = {.not_finite = not_finite};
    struct json_reader reader;
    struct error error;
    json_reader_init(&reader, "x.json", text, strlen(text), &options, &error);
    json_reader_double(&reader, out);
    return json_reader_finish(&reader);
}

static void test_doubles_are_nearest_and_finite(void **state)
{
    double value = 0;
    (void)state;
    assert_int_equal(read_double("1e-05", false, &value), STATUS_OK);
    assert_true(value == 1e-05);
    assert_int_equal(read_double("0.1", false, &value), STATUS_OK);
    assert_true(value == 0.1);
    assert_int_equal(read_double("500000", false, &value), STATUS_OK);
    assert_true(value == 500000);
    assert_int_equal(read_double("1e999", false, &value), STATUS_INVALID);
    assert_int_equal(read_double("1e999", true, &value), STATUS_INVALID);
    assert_int_equal(read_double("-Infinity", false, &value), STATUS_MALFORMED);
    assert_int_equal(read_double("-Infinity", true, &value), STATUS_OK);
    assert_true(isinf(value) && value < 0);
    assert_int_equal(read_double("Infinity", true, &value), STATUS_OK);
    assert_int_equal(read_double("NaN", true, &value), STATUS_OK);
    assert_true(isnan(value));
    char digits[500];
    memset(digits, '1', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    assert_int_equal(read_double(digits, false, &value), STATUS_MALFORMED);
}

static void test_errors_stick_and_name_the_place(void **state)
{
    static const char text[] = "{\"a\":1,\"hidden_size\":\"64\",\"b\":2}";
    const struct json_reader_options options = {.offset = 8};
    struct json_reader reader;
    struct json_reader_text key;
    struct error error;
    int64_t a = 0, width = 5, b = 6;
    (void)state;
    json_reader_init(&reader, "config.json", text, sizeof text - 1, &options, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "a")) json_reader_int64(&reader, 0, 9, &a);
        if (json_reader_is(key, "hidden_size")) json_reader_int64(&reader, 0, 99, &width);
        if (json_reader_is(key, "b")) json_reader_int64(&reader, 0, 9, &b);
    }
    assert_false(json_reader_fail(&reader, STATUS_INTERNAL, "a later one"));
    assert_int_equal(json_reader_finish(&reader), STATUS_INVALID);
    assert_string_equal(error.detail,
                        "config.json: byte 29, after key \"hidden_size\": expected a number, found a string");
    assert_int_equal(a, 1);
    assert_int_equal(width, 5);
    assert_int_equal(b, 6);
}

static void test_misuse_is_an_error_and_not_a_crash(void **state)
{
    struct json_reader reader;
    struct json_reader_text key;
    struct error error;
    int64_t value;
    (void)state;
    json_reader_init(&reader, "x.json", "[1]", 3, NULL, &error);
    assert_true(json_reader_array(&reader));
    assert_false(json_reader_int64(&reader, 0, 9, &value)); /* no next_item before */
    assert_int_equal(json_reader_finish(&reader), STATUS_INTERNAL);
    json_reader_init(&reader, "x.json", "[1]", 3, NULL, &error);
    assert_true(json_reader_array(&reader));
    assert_false(json_reader_next_key(&reader, &key));
    assert_int_equal(json_reader_finish(&reader), STATUS_INTERNAL);
    json_reader_init(&reader, "x.json", "[1]", 3, NULL, &error);
    assert_true(json_reader_array(&reader));
    assert_int_equal(json_reader_finish(&reader), STATUS_INTERNAL); /* not read to its end */
    json_reader_init(&reader, "x.json", "1", 1, NULL, &error);
    assert_false(json_reader_next_item(&reader));
    assert_int_equal(json_reader_finish(&reader), STATUS_INTERNAL);
}

static void test_leave_skips_the_rest(void **state)
{
    static const char text[] = "{\"a\":[1,[2],{\"b\":3}],\"c\":4}";
    struct json_reader reader;
    struct json_reader_text key;
    struct error error;
    int64_t value = 0;
    (void)state;
    json_reader_init(&reader, "x.json", text, sizeof text - 1, NULL, &error);
    assert_true(json_reader_object(&reader) && json_reader_next_key(&reader, &key));
    assert_true(json_reader_array(&reader) && json_reader_next_item(&reader));
    assert_true(json_reader_leave(&reader));
    assert_true(json_reader_next_key(&reader, &key) && json_reader_is(key, "c") &&
                json_reader_int64(&reader, 0, 9, &value));
    assert_int_equal(value, 4);
    assert_true(json_reader_leave(&reader));
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
}

static void test_fields_given_twice_are_refused_as_decoded(void **state)
{
    static const char *const names[] = {"a", "b", NULL};
    static const char text[] = "{\"a\":1,\"z\":0,\"z\":0,\"b\":2,\"\\u0061\":3}";
    static const int expected[] = {0, -1, -1, 1, -1};
    struct json_reader reader;
    struct json_reader_text key;
    struct error error;
    uint64_t seen = 0;
    int i = 0;
    (void)state;
    json_reader_init(&reader, "x.json", text, sizeof text - 1, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key))
        assert_int_equal(json_reader_field(&reader, key, names, &seen), expected[i++]);
    assert_int_equal(i, 5);
    assert_int_equal(seen, 3);
    assert_int_equal(json_reader_finish(&reader), STATUS_MALFORMED);
}

static void test_skip_lends_text_that_another_reader_reads(void **state)
{
    static const char text[] = "{\"a\": [1, 2] }";
    struct json_reader reader, inner;
    struct json_reader_text key, span = {0};
    struct error error;
    int count = 0;
    (void)state;
    json_reader_init(&reader, "x.json", text, sizeof text - 1, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) json_reader_skip(&reader, &span);
    assert_int_equal(json_reader_finish(&reader), STATUS_OK);
    assert_true(json_reader_is(span, "[1, 2]"));
    json_reader_init(&inner, "x.json", span.bytes, span.size, NULL, &error);
    json_reader_array(&inner);
    while (json_reader_next_item(&inner)) count++;
    assert_int_equal(json_reader_finish(&inner), STATUS_OK);
    assert_int_equal(count, 2);
}

static void test_restart_reads_lines(void **state)
{
    static const char *const lines[] = {"{\"text\":\"a\\nb\"}", "{\"text\":\"c\"}", "{\"text\":}", "{\"text\":\"d\"}"};
    struct json_reader reader;
    struct json_reader_text key, text;
    struct error error;
    int good = 0;
    (void)state;
    json_reader_init(&reader, "x.jsonl", NULL, 0, NULL, &error);
    for (size_t i = 0; i < 4; i++) {
        json_reader_restart(&reader, lines[i], strlen(lines[i]), 100 * i);
        json_reader_object(&reader);
        while (json_reader_next_key(&reader, &key)) json_reader_string(&reader, &text);
        good += json_reader_end(&reader);
    }
    assert_int_equal(good, 2);
    assert_int_equal(json_reader_finish(&reader), STATUS_MALFORMED);
    assert_non_null(strstr(error.detail, "byte 208"));
}

static void test_messages_stay_utf8_when_keys_are_long(void **state)
{
    char text[200] = "{\"";
    struct error error;
    (void)state;
    for (int i = 0; i < 40; i++) memcpy(text + 2 + 3 * i, "\xe2\x82\xac", 3);
    memcpy(text + 122, "\":x}", 5);
    assert_int_equal(skim(text, strlen(text), NULL, &error), STATUS_MALFORMED);
    const char *open = strchr(error.detail, '"'), *close = strrchr(error.detail, '"');
    assert_int_equal(close - open - 1, 39); /* 13 whole characters */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_the_grammar),
        cmocka_unit_test(test_refuses_what_is_not_json),
        cmocka_unit_test(test_every_cut_of_a_document_is_malformed),
        cmocka_unit_test(test_depth_is_capped),
        cmocka_unit_test(test_decodes_strings),
        cmocka_unit_test(test_reads_an_object_and_skips_what_nobody_read),
        cmocka_unit_test(test_integers_are_exact_or_refused),
        cmocka_unit_test(test_doubles_are_nearest_and_finite),
        cmocka_unit_test(test_errors_stick_and_name_the_place),
        cmocka_unit_test(test_misuse_is_an_error_and_not_a_crash),
        cmocka_unit_test(test_leave_skips_the_rest),
        cmocka_unit_test(test_fields_given_twice_are_refused_as_decoded),
        cmocka_unit_test(test_skip_lends_text_that_another_reader_reads),
        cmocka_unit_test(test_restart_reads_lines),
        cmocka_unit_test(test_messages_stay_utf8_when_keys_are_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
