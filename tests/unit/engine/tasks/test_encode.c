/* A context and its continuation as tokens, with a token a byte: where the one ends, and what falls off a text that is
 * too long. */
#include "tasks/encode.h"
#include "unit.h"

#include <string.h>

static struct error error;

static enum status encode_texts(int64_t longest, int64_t vocabulary, const char *context, const char *continuation,
                                struct token_list *tokens, struct encoded *out)
{
    struct tokenizer *tokenizer;
    struct encode encode;
    struct phrase before = {0}, after = {0};
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    assert_int_equal(encode_init(&encode, tokenizer, true, longest, vocabulary, &error), STATUS_OK);
    assert_int_equal(phrase_add(&before, context, strlen(context), &error), STATUS_OK);
    assert_int_equal(phrase_add(&after, continuation, strlen(continuation), &error), STATUS_OK);
    const enum status status = encode_pair(&encode, &before, &after, tokens, out, &error);
    assert_int_equal(before.size, strlen(context));
    phrase_reset(&before);
    phrase_reset(&after);
    encode_reset(&encode);
    tokenizer_close(tokenizer);
    return status;
}

static void gives(int64_t longest, const char *context, const char *continuation, const char *kept, int64_t targets,
                  bool cut)
{
    struct token_list tokens = {0};
    struct encoded out;
    if (encode_texts(longest, 256, context, continuation, &tokens, &out) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(out.tokens, strlen(kept));
    assert_int_equal(tokens.count, strlen(kept));
    for (size_t i = 0; i < strlen(kept); i++) assert_int_equal(tokens.ids[i], (unsigned char)kept[i]);
    if (out.targets != targets) fail_msg("\"%s\": %d targets, expected %d", kept, (int)out.targets, (int)targets);
    assert_int_equal(out.cut, cut);
    tokenizer_list_free(&tokens);
}

static void refuses(int64_t longest, int64_t vocabulary, const char *context, const char *continuation,
                    const char *words)
{
    struct token_list tokens = {0};
    struct encoded out;
    assert_int_equal(encode_texts(longest, vocabulary, context, continuation, &tokens, &out), STATUS_INVALID);
    if (strstr(error.detail, words) == NULL) fail_msg("%s", error.detail);
    tokenizer_list_free(&tokens);
}

static void test_blanks_between_belong_to_the_continuation(void **state)
{
    (void)state;
    gives(100, "Answer:", " yes", "Answer: yes", 4, false);
    gives(100, "Answer: ", "yes", "Answer: yes", 4, false);
    gives(100, "Answer: \n ", "yes", "Answer: \n yes", 6, false);
    gives(100, " Answer:", "y", " Answer:y", 1, false);
}

/* The last token is not fed: `longest` positions take one token more. */
static void test_a_text_too_long_loses_its_beginning(void **state)
{
    (void)state;
    gives(10, "Answer:", " yes", "Answer: yes", 4, false);
    gives(9, "Answer:", " yes", "nswer: yes", 4, true);
    gives(4, "Answer:", " yes", ": yes", 4, true);
    refuses(3, 256, "Answer:", " yes", "a choice has 4 tokens, the model 3 positions");
}

static void test_what_has_no_place_is_refused(void **state)
{
    (void)state;
    refuses(100, 256, "Answer:", "", "a choice has no tokens of its own");
    refuses(100, 'z', "Answer:", " zoo", "is outside the model's vocabulary");
    gives(100, "Answer:", " zoo", "Answer: zoo", 4, false);
    refuses(100, 256, "", "yes", "a prompt is empty");
    refuses(100, 256, " \n", "yes", "a prompt has no tokens before its choice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blanks_between_belong_to_the_continuation),
        cmocka_unit_test(test_a_text_too_long_loses_its_beginning),
        cmocka_unit_test(test_what_has_no_place_is_refused),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
