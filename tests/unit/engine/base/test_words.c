#include "base/words.h"
#include "unit.h"

#include <string.h>

static void test_edits(void **state)
{
    static const struct {
        const char *a, *b;
        size_t edits;
    } cases[] = {
        {"", "", 0},           {"", "abc", 3},         {"abc", "", 3},       {"delta", "delta", 0},
        {"dleta", "delta", 1}, {"delat", "delta", 1},  {"dlta", "delta", 1}, {"deelta", "delta", 1},
        {"dolta", "delta", 1}, {"dletaa", "delta", 2}, {"ca", "abc", 3},     {"kitten", "sitting", 3},
    };
    char longer[WORDS_EDITS_MOST + 2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (words_edits(cases[i].a, cases[i].b) != cases[i].edits)
            fail_msg("%s, %s: %zu", cases[i].a, cases[i].b, words_edits(cases[i].a, cases[i].b));
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(words_edits(longer, longer), WORDS_EDITS_MOST);
    assert_int_equal(words_edits(longer + 1, longer + 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_edits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
