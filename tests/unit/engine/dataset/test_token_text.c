/* A token in the text around it: characters of several tokens, byte fallback, decoders that touch the beginning. */
#include "dataset/token_text.h"
#include "engine/tokenizer/tokenizers.h"
#include "unit.h"

static void hold(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count, int64_t place,
                 const char *before, const char *token, const char *after)
{
    struct token_text text;
    struct error error = {0};
    if (token_text_of(tokenizer, ids, count, place, &text, &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (strcmp(text.before, before) != 0 || strcmp(text.token, token) != 0 || strcmp(text.after, after) != 0)
        fail_msg("place %d: [%s|%s|%s] instead of [%s|%s|%s]", (int)place, text.before, text.token, text.after, before,
                 token, after);
    token_text_reset(&text);
}

static void test_a_character_stands_with_the_byte_that_completes_it(void **state)
{
    static const uint32_t ids[] = {'a', 0xE2, 0x82, 0xAC, 'b', 0, 0xFF, 'c', 0xC3};
    struct tokenizer *tokenizer = NULL;
    struct error error;
    (void)state;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    hold(tokenizer, ids, 9, 0, "", "a", "€b\uFFFD\uFFFDc\uFFFD");
    hold(tokenizer, ids, 9, 1, "a", "", "€b\uFFFD\uFFFDc\uFFFD");
    hold(tokenizer, ids, 9, 2, "a", "", "€b\uFFFD\uFFFDc\uFFFD");
    hold(tokenizer, ids, 9, 3, "a", "€", "b\uFFFD\uFFFDc\uFFFD");
    hold(tokenizer, ids, 9, 5, "a€b", "\uFFFD", "\uFFFDc\uFFFD"); /* byte 0 */
    hold(tokenizer, ids, 9, 6, "a€b\uFFFD", "\uFFFD", "c\uFFFD");
    hold(tokenizer, ids, 9, 8, "a€b\uFFFD\uFFFDc", "\uFFFD", ""); /* the window ends within a character */
    hold(tokenizer, ids, 1, 0, "", "a", "");
    hold(tokenizer, ids + 2, 3, 2, "\uFFFD\uFFFD", "b", ""); /* and begins within one */
    tokenizer_close(tokenizer);
}

static void test_spaces_of_words_are_kept(void **state)
{
    char json[4096];
    static const uint32_t ids[] = {0, 1, 2, 3, 4, 1};
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
        json, sizeof json, NULL, NULL, NULL, NULL,
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"},"
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
        "\"stop\":0}]}",
        "{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"▁one\":0,\"▁two\":1,\"<0xC3>\":2,\"<0xA9>\":3,"
        "\"▁\":4},\"merges\":[]}"));
    hold(tokenizer, ids, 6, 0, "", "one", " twoé  two");
    hold(tokenizer, ids, 6, 1, "one", " two", "é  two");
    hold(tokenizer, ids, 6, 2, "one two", "", "é  two");
    hold(tokenizer, ids, 6, 3, "one two", "é", "  two");
    hold(tokenizer, ids, 6, 5, "one twoé ", " two", "");
    tokenizer_close(tokenizer);
}

static void test_an_id_that_is_not_there_is_refused(void **state)
{
    static const uint32_t ids[] = {'a', 256, 'b'};
    struct tokenizer *tokenizer = NULL;
    struct token_text text;
    struct error error;
    (void)state;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    assert_int_equal(token_text_of(tokenizer, ids, 3, 0, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "256"));
    token_text_reset(&text);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_character_stands_with_the_byte_that_completes_it),
        cmocka_unit_test(test_spaces_of_words_are_kept),
        cmocka_unit_test(test_an_id_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
