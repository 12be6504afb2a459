/* JSON as PostgreSQL prints a jsonb: integers of any length. */
#include "unit.h"

#include "json/jsonb.h"

#include <stdlib.h>
#include <string.h>

static json_t *read_text(const char *text)
{
    struct error error;
    json_t *value;
    assert_int_equal(jsonb_read(text, strlen(text), &value, &error), STATUS_OK);
    return value;
}

static void test_an_integer_beyond_64_bits_is_a_real_and_the_others_stay(void **state)
{
    (void)state;
    json_t *read = read_text("[100000000000000000000, -9223372036854775809, 9223372036854775807, 1, 2.5,"
                             " \"100000000000000000000 \\\" 100000000000000000000\", {\"99999999999999999999\":1e30}]");
    assert_true(json_real_value(json_array_get(read, 0)) == 1e20);
    assert_true(json_real_value(json_array_get(read, 1)) == -9223372036854775808.0);
    assert_true(json_is_integer(json_array_get(read, 2)) && json_integer_value(json_array_get(read, 2)) == INT64_MAX);
    assert_true(json_is_integer(json_array_get(read, 3)) && json_is_real(json_array_get(read, 4)));
    assert_string_equal(json_string_value(json_array_get(read, 5)), "100000000000000000000 \" 100000000000000000000");
    assert_true(json_real_value(json_object_get(json_array_get(read, 6), "99999999999999999999")) == 1e30);
    json_decref(read);
    read = read_text("100000000000000000000");
    assert_true(json_real_value(read) == 1e20);
    json_decref(read);
}

/* Every allocation of jansson and of the text with reals fits: many numbers one after the other grow the text most. */
static void test_many_of_them(void **state)
{
    (void)state;
    char text[20 * 1000 + 2];
    size_t length = 0;
    for (size_t i = 0; i < 1000; i++) {
        memcpy(text + length, ",9999999999999999999", 20);
        length += 20;
    }
    text[0] = '[';
    memcpy(text + length, "]", 2);
    json_t *read = read_text(text);
    assert_int_equal(json_array_size(read), 1000);
    json_decref(read);
}

static void test_what_is_no_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",     "[1", "[100000000000000000000", "[100000000000000000000, \"", "tru", "[100000000000000000000, \"\\",
        "1e400"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error;
        json_t *value;
        assert_int_equal(jsonb_read(bad[i], strlen(bad[i]), &value, &error), STATUS_CORRUPT);
        assert_null(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_integer_beyond_64_bits_is_a_real_and_the_others_stay),
        cmocka_unit_test(test_many_of_them),
        cmocka_unit_test(test_what_is_no_json_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
