/* What an error says, whatever it quotes. */
#include "unit.h"

#include "base/error.h"
#include "base/utf8.h"

#include <string.h>

static void test_bytes_that_are_no_text_become_question_marks(void **state)
{
    struct error error;
    (void)state;
    (void)error_set_at(&error, STATUS_CORRUPT, "/\xc3(", "tensor \xff\xc3\xa9\xe2\x82");
    assert_string_equal(error.pointer, "/?(");
    assert_string_equal(error.detail, "tensor ?\xc3\xa9??");
}

static void test_a_detail_that_is_cut_within_a_character_stays_text(void **state)
{
    char name[2 * sizeof((struct error *)0)->detail];
    struct error error;
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        memset(name, 'a', sizeof name);
        for (size_t i = shift; i + 3 < sizeof name; i += 3) memcpy(name + i, "\xe2\x82\xac", 3);
        name[sizeof name - 1] = '\0';
        (void)error_set(&error, STATUS_INVALID, "%s", name);
        assert_int_equal(strlen(error.detail), sizeof error.detail - 1);
        assert_int_equal(utf8_check(error.detail, strlen(error.detail)), strlen(error.detail));
        (void)error_set(&error, STATUS_INVALID, "found \"%.10s\"", name);
        assert_int_equal(utf8_check(error.detail, strlen(error.detail)), strlen(error.detail));
    }
}

static void test_no_memory_says_for_what(void **state)
{
    struct error error = {.pointer = "/params"};
    (void)state;
    assert_int_equal(error_no_memory(&error, "100% of a list"), STATUS_NO_MEMORY);
    assert_int_equal(error.status, STATUS_NO_MEMORY);
    assert_string_equal(error.pointer, "");
    assert_string_equal(error.detail, "no memory for 100% of a list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory_says_for_what),
        cmocka_unit_test(test_bytes_that_are_no_text_become_question_marks),
        cmocka_unit_test(test_a_detail_that_is_cut_within_a_character_stays_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
