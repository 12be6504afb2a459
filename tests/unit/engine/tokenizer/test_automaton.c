/* The automaton against a search that tries every pattern at every place. */
#include "tokenizer/automaton.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 40, TEXT = 200 };

struct words {
    char bytes[PATTERNS][8];
    struct automaton_pattern patterns[PATTERNS];
    uint32_t count;
};

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245U + 12345U;
    return (*seed >> 16) % below;
}

static int ascending(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Different words of 1 to 7 letters of an alphabet of `letters`. */
static void make_words(struct words *words, unsigned *seed, unsigned letters, unsigned wanted)
{
    memset(words, 0, sizeof *words);
    for (unsigned i = 0; i < wanted; i++)
        for (unsigned at = 0, length = 1 + draw(seed, 7); at < length; at++)
            words->bytes[i][at] = (char)((letters > 3 ? 0xE0 : 'a') + (int)draw(seed, letters));
    qsort(words->bytes, wanted, sizeof words->bytes[0], ascending);
    for (unsigned i = 0; i < wanted; i++) {
        if (i > 0 && strcmp(words->bytes[i], words->bytes[i - 1]) == 0) continue;
        words->patterns[words->count++] = (struct automaton_pattern){words->bytes[i], strlen(words->bytes[i])};
    }
}

static bool look(const struct words *words, const char *text, size_t bytes, size_t from, uint32_t *which, size_t *start,
                 size_t *end)
{
    bool any = false;
    for (*start = from; !any && *start < bytes; ++*start)
        for (uint32_t i = 0; i < words->count; i++) {
            const size_t size = words->patterns[i].size;
            if (size > bytes - *start || memcmp(text + *start, words->patterns[i].bytes, size) != 0) continue;
            if (any && *start + size <= *end) continue;
            any = true;
            *which = i;
            *end = *start + size;
        }
    --*start;
    return any;
}

static void compare_on(const struct words *words, const char *text, size_t bytes)
{
    struct automaton *automaton;
    struct error error;
    assert_int_equal(automaton_new(words->patterns, words->count, &automaton, &error), STATUS_OK);
    for (size_t from = 0; from < bytes;) {
        uint32_t expected = 0, found = 0;
        size_t start = 0, end = 0, begin = 0, finish = 0;
        const bool any = look(words, text, bytes, from, &expected, &start, &end);
        assert_int_equal(automaton_find(automaton, text, bytes, from, &found, &begin, &finish), any);
        if (!any) break;
        if (found != expected || begin != start || finish != end)
            fail_msg("from %zu: [%zu, %zu), expected [%zu, %zu)", from, begin, finish, start, end);
        from = end;
    }
    automaton_free(automaton);
}

static void test_it_finds_what_a_plain_search_finds(void **state)
{
    unsigned seed = 7;
    (void)state;
    for (int trial = 0; trial < 3000; trial++) {
        struct words words;
        char text[TEXT];
        const unsigned letters = 1 + draw(&seed, 5);
        make_words(&words, &seed, letters, 1 + draw(&seed, PATTERNS));
        for (size_t i = 0; i < TEXT; i++) text[i] = (char)((letters > 3 ? 0xE0 : 'a') + (int)draw(&seed, letters + 1));
        compare_on(&words, text, TEXT);
    }
}

static void test_too_many_beginnings_are_refused(void **state)
{
    enum { LONG = 60000, MANY = 80 };
    static char bytes[MANY][LONG];
    struct automaton_pattern patterns[MANY];
    struct automaton *automaton;
    struct error error;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        memset(bytes[i], 'x', LONG);
        bytes[i][0] = (char)('!' + i);
        patterns[i] = (struct automaton_pattern){bytes[i], LONG};
    }
    assert_int_equal(automaton_new(patterns, MANY, &automaton, &error), STATUS_UNSUPPORTED);
    assert_null(automaton);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_finds_what_a_plain_search_finds),
        cmocka_unit_test(test_too_many_beginnings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
