/* Digits stand for bytes, either way, and nothing else does. */
#include "base/hex.h"
#include "unit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void test_every_byte_is_written_and_read(void **state)
{
    (void)state;
    unsigned char bytes[256], again[256];
    char text[513], expected[3];
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
    memset(text, '!', sizeof text);
    hex_write(bytes, sizeof bytes, text);
    assert_int_equal(strlen(text), 512);
    for (int i = 0; i < 256; i++) {
        (void)snprintf(expected, sizeof expected, "%02x", (unsigned)i);
        assert_memory_equal(text + 2 * i, expected, 2);
    }
    assert_true(hex_read(text, again, sizeof again));
    assert_memory_equal(again, bytes, sizeof bytes);
}

static void test_only_digits_have_a_value(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    for (int c = 0; c < 256; c++) {
        const char *found = c == 0 ? NULL : strchr(digits, c);
        assert_int_equal(hex_value((char)c), found == NULL ? -1 : (int)((found - digits) % 16));
    }
}

static void test_other_texts_are_not_read(void **state)
{
    (void)state;
    unsigned char out[2];
    assert_true(hex_read("0aFf", out, 2));
    assert_int_equal(out[0], 0x0a);
    assert_int_equal(out[1], 0xff);
    assert_true(hex_read("", out, 0));
    static const char *const wrong[] = {"", "0", "0a", "0af", "0aff0", "0aff00", "0x0a", " a f", "0ag0", "-1-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(hex_read(wrong[i], out, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_written_and_read),
        cmocka_unit_test(test_only_digits_have_a_value),
        cmocka_unit_test(test_other_texts_are_not_read),
    };
    return cmocka_run_group_tests_name("hex", tests, NULL, NULL);
}
