#include "unit.h"

#include "http/json_answer.h"

#include <stdlib.h>
#include <string.h>

static void expect(const char *given, const char *wanted)
{
    json_t *value = json_loads(given, JSON_DECODE_ANY, NULL);
    char *text = json_answer_dump(value);
    assert_string_equal(text, wanted);
    free(text);
    json_decref(value);
}

static void test_fractions_are_as_short_as_they_can_be(void **state)
{
    (void)state;
    expect("0.003", "0.003");
    expect("[0.1,1e-05,-2.5,3.0]", "[0.1,1e-05,-2.5,3.0]");
    expect("1e300", "1e+300");
    expect("0.30000000000000004", "0.30000000000000004");
}

static void test_integers_and_strings_stay(void **state)
{
    (void)state;
    expect("{\"a\":12345678901234567,\"b\":\"0.0030000000000000001 \\\" 0.1\"}",
           "{\"a\":12345678901234567,\"b\":\"0.0030000000000000001 \\\" 0.1\"}");
    expect("\"\\\\\"", "\"\\\\\"");
}

static void test_every_double_reads_back(void **state)
{
    (void)state;
    unsigned long long bits = 88172645463325252ULL;
    for (int i = 0; i < 20000; i++) {
        double value;
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        memcpy(&value, &bits, sizeof value);
        json_t *real = json_real(value);
        if (real == NULL) continue; /* not finite */
        char *text = json_answer_dump(real);
        assert_true(strtod(text, NULL) == value);
        free(text);
        json_decref(real);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fractions_are_as_short_as_they_can_be),
        cmocka_unit_test(test_integers_and_strings_stay),
        cmocka_unit_test(test_every_double_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
