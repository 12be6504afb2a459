/* Opening tokenizer.json: what is refused, with which status and words. */
#include "engine/tokenizer/tokenizers.h"
#include "unit.h"

#include <stdlib.h>
#include <time.h>

#define MODEL(vocab, merges) "{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define LETTERS              "\"a\":0,\"b\":1,\"ab\":2"

static void test_refuses_models_that_contradict_themselves(void **state)
{
    static const struct {
        const char *model;
        enum status status;
        const char *says;
    } cases[] = {
        {MODEL("\"a\":0,\"b\":0", ""), STATUS_CORRUPT, "belongs to another token"},
        {MODEL("\"a\":0,\"\\u0061\":1", ""), STATUS_CORRUPT, "given twice"},
        {MODEL("\"a\":16777216", ""), STATUS_INVALID, ""},
        {MODEL("\"a\":-1", ""), STATUS_INVALID, ""},
        {MODEL("\"a\":1.5", ""), STATUS_INVALID, ""},
        {MODEL("\"a\":\"1\"", ""), STATUS_INVALID, ""},
        {MODEL(LETTERS, "\"a c\""), STATUS_CORRUPT, "merge number 1"},
        {MODEL(LETTERS, "\"a b\",\"b a\""), STATUS_CORRUPT, "\"ba\""},
        {MODEL(LETTERS, "\"a b c\""), STATUS_CORRUPT, "one space"},
        {MODEL(LETTERS, "\"ab\""), STATUS_CORRUPT, "one space"},
        {MODEL(LETTERS, "\" ab\""), STATUS_CORRUPT, "merge number 1"},
        {MODEL(LETTERS, "[\"a\"]"), STATUS_CORRUPT, "two tokens"},
        {MODEL(LETTERS, "[\"a\",\"b\",\"b\"]"), STATUS_CORRUPT, "two tokens"},
        {MODEL(LETTERS, "[\"a\",1]"), STATUS_INVALID, ""},
        {MODEL(LETTERS, "7"), STATUS_INVALID, ""},
        {"{\"type\":\"BPE\",\"vocab\":{}}", STATUS_CORRUPT, "merges"},
        {"{\"type\":\"BPE\",\"merges\":[]}", STATUS_CORRUPT, "vocab"},
        {"{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{},\"merges\":[]}", STATUS_CORRUPT, "unk_token"},
        {"{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}", STATUS_UNSUPPORTED, "dropout"},
        {"{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]}", STATUS_UNSUPPORTED,
         "end_of_word_suffix"},
        {"{\"type\":\"BPE\",\"novel\":1,\"vocab\":{},\"merges\":[]}", STATUS_UNSUPPORTED, "novel"},
        {"{\"type\":\"Unigram\",\"vocab\":[]}", STATUS_UNSUPPORTED, "Unigram"},
        {"null", STATUS_CORRUPT, "model"},
        {"[]", STATUS_INVALID, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[4096];
        struct error error = {0};
        tokenizers_json(json, sizeof json, NULL, NULL, NULL, NULL, NULL, cases[i].model);
        const enum status status = tokenizers_refuse(json, &error);
        if (status != cases[i].status || strstr(error.detail, cases[i].says) == NULL)
            fail_msg("%s: %s (%s)", cases[i].model, status_info(status)->name, error.detail);
    }
}

static void test_accepts_both_spellings_of_merges_in_any_order(void **state)
{
    static const char *const models[] = {
        MODEL(LETTERS, "\"a b\""),
        MODEL(LETTERS, "[\"a\",\"b\"]"),
        MODEL(LETTERS, "\"#version: 0.2\",\"a b\""),
        "{\"merges\":[\"a b\"],\"vocab\":{" LETTERS "}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char json[4096];
        struct tokenizer *tokenizer =
            tokenizers_open(tokenizers_json(json, sizeof json, NULL, NULL, NULL, NULL, NULL, models[i]));
        EXPECT_IDS(tokenizer, "ab", false, 2);
        tokenizer_close(tokenizer);
    }
}

static void test_takes_no_number_out_of_a_name(void **state)
{
    char json[4096];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
        json, sizeof json, NULL, NULL, NULL, NULL, "{\"type\":\"ByteFallback\"}",
        "{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"<0x-1>\":0,\"<0x+1>\":1,\"<0xGG>\":2,\"<0x0a>\":3,"
        "\"<0x41>\":4},\"merges\":[]}"));
    EXPECT_IDS(tokenizer, "A\n", false, 4); /* "\n" has no token: "<0x0a>" is not how byte 10 is written */
    const uint32_t ids[] = {0, 1, 2, 4};
    struct error error;
    char *text;
    size_t size;
    assert_int_equal(tokenizer_decode(tokenizer, ids, 4, false, &text, &size, &error), STATUS_OK);
    assert_string_equal(text, "<0x-1><0x+1><0xGG>A");
    memory_free(text);
    tokenizer_close(tokenizer);
}

static void test_names_the_part_it_does_not_do(void **state)
{
    enum { NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, PARTS };
    static const struct {
        int part;
        const char *json, *says;
    } cases[] = {
        {NORMALIZER, "{\"type\":\"BertNormalizer\"}", "BertNormalizer"},
        {NORMALIZER, "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\"}]}", "Precompiled"},
        {NORMALIZER, "{\"type\":\"NFC\",\"form\":1}", "form"},
        {PRE_TOKENIZER, "{\"type\":\"UnicodeScripts\"}", "UnicodeScripts"},
        {PRE_TOKENIZER,
         "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\",\"invert\":false}", "Sideways"},
        {POST_PROCESSOR, "{\"type\":\"Novel\"}", "Novel"},
        {DECODER, "{\"type\":\"CTC\"}", "CTC"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[4096];
        const char *parts[PARTS] = {0};
        struct error error = {0};
        parts[cases[i].part] = cases[i].json;
        tokenizers_json(json, sizeof json, NULL, parts[NORMALIZER], parts[PRE_TOKENIZER], parts[POST_PROCESSOR],
                        parts[DECODER], MODEL(LETTERS, ""));
        assert_int_equal(tokenizers_refuse(json, &error), STATUS_UNSUPPORTED);
        if (strstr(error.detail, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].json, error.detail);
    }
}

#define REGEX(pattern) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":false}"

static void test_refuses_regular_expressions_it_cannot_do_the_same(void **state)
{
    static const char *const patterns[] = {
        REGEX("(a)\\\\1"),  REGEX("(?<n>a)"), REGEX("[a[bc]]"),     REGEX("[a&&b]"),       REGEX("\\\\bword"),
        REGEX("\\\\R"),     REGEX("(?m:a)"),  REGEX("a(?i)b"),      REGEX("(a"),           REGEX("a)"),
        REGEX("[a"),        REGEX("a{"),      REGEX("*a"),          REGEX("\\\\p{Novel}"), REGEX("\\\\pL"),
        REGEX("\\\\x{zz}"), REGEX("[]a]"),    REGEX("a\\\\"),       REGEX("(?(1)a|b)"),    REGEX("(?#note)"),
        REGEX("(?R)"),      REGEX("\\\\u12"), REGEX("[[:alpha:]]"), REGEX("a{2}?"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char json[4096];
        struct error error = {0};
        tokenizers_json(json, sizeof json, NULL, NULL, patterns[i], NULL, NULL, MODEL(LETTERS, ""));
        if (tokenizers_refuse(json, &error) != STATUS_UNSUPPORTED) fail_msg("%s: %s", patterns[i], error.detail);
    }
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void test_stops_expressions_that_backtrack_without_end(void **state)
{
    static const char *const patterns[] = {REGEX("(a|aa)+$"), REGEX("(?:a+)+b"),
                                           REGEX("(?:a|b|ab)*(?:a|b|ab)*d|(?:a|aa)*c")};
    enum { COUNT = 4000 };
    char text[COUNT + 3]; /* ends with what the patterns need somewhere: PCRE2 looks for that first */
    (void)state;
    memset(text, 'a', COUNT);
    memcpy(text + COUNT, "xbc", 3);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char json[4096];
        struct error error = {0};
        struct token_list list = {0};
        struct tokenizer *tokenizer = tokenizers_open(
            tokenizers_json(json, sizeof json, NULL, NULL, patterns[i], NULL, NULL, MODEL(LETTERS, "")));
        const double start = processor_seconds();
        assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text, false, &list, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.detail, "backtracks"));
        assert_true(processor_seconds() - start < 15);
        assert_int_equal(list.count, 0);
        tokenizer_list_free(&list);
        tokenizer_close(tokenizer);
    }
}

static void test_refuses_added_tokens_that_contradict_the_model(void **state)
{
    static const struct {
        const char *added;
        enum status status;
    } cases[] = {
        {TOKENIZERS_ADDED(0, "x"), STATUS_CORRUPT},                              /* the id of "a" */
        {TOKENIZERS_ADDED(7, "a"), STATUS_CORRUPT},                              /* "a" has another */
        {TOKENIZERS_ADDED(7, "x") "," TOKENIZERS_ADDED(7, "y"), STATUS_CORRUPT}, /* one id for two */
        {TOKENIZERS_ADDED(7, "x") "," TOKENIZERS_ADDED(8, "x"), STATUS_CORRUPT},
        {TOKENIZERS_ADDED(7, ""), STATUS_UNSUPPORTED},
        {TOKENIZERS_ADDED(16777216, "x"), STATUS_INVALID},
        {"{\"content\":\"x\"}", STATUS_CORRUPT},
        {"{\"id\":7}", STATUS_CORRUPT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[4096];
        struct error error = {0};
        tokenizers_json(json, sizeof json, cases[i].added, NULL, NULL, NULL, NULL, MODEL(LETTERS, ""));
        const enum status status = tokenizers_refuse(json, &error);
        if (status != cases[i].status) fail_msg("%s: %s (%s)", cases[i].added, status_info(status)->name, error.detail);
    }
}

static void test_refuses_templates_it_cannot_fill(void **state)
{
#define TEMPLATE(single, tokens) \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[],\"special_tokens\":{" tokens "}}"
    static const struct {
        const char *json;
        enum status status;
    } cases[] = {
        {TEMPLATE("", ""), STATUS_CORRUPT},
        {TEMPLATE("{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}", ""), STATUS_UNSUPPORTED},
        {TEMPLATE("{\"SpecialToken\":{\"id\":\"s\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}", ""),
         STATUS_CORRUPT},
        {TEMPLATE("{\"SpecialToken\":{\"id\":\"s\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
                  "\"s\":{\"id\":\"s\",\"ids\":[99],\"tokens\":[\"s\"]}"),
         STATUS_CORRUPT},
        {"{\"type\":\"BertProcessing\",\"sep\":[\"b\",1]}", STATUS_CORRUPT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[4096];
        struct error error = {0};
        tokenizers_json(json, sizeof json, NULL, NULL, NULL, cases[i].json, NULL, MODEL(LETTERS, ""));
        const enum status status = tokenizers_refuse(json, &error);
        if (status != cases[i].status) fail_msg("%s: %s (%s)", cases[i].json, status_info(status)->name, error.detail);
    }
    char json[4096];
    struct tokenizer *tokenizer = tokenizers_open(
        tokenizers_json(json, sizeof json, NULL, NULL, NULL,
                        "{\"type\":\"RobertaProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0],\"trim_offsets\":true}",
                        NULL, MODEL(LETTERS, "")));
    EXPECT_IDS(tokenizer, "b", true, 0, 1, 1);
    tokenizer_close(tokenizer);
}

static void test_survives_every_cut_and_flip_of_a_file(void **state)
{
    char json[8192];
    (void)state;
    tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(1, "<s>"), TOKENIZERS_DUMMY_PREFIX, TOKENIZERS_BYTE_LEVEL,
                    TOKENIZERS_BOS, TOKENIZERS_UNFUSE, TOKENIZERS_BYTE_FALLBACK);
    const size_t size = strlen(json);
    for (size_t i = 0; i < size; i++) {
        struct error error;
        struct tokenizer *tokenizer = NULL;
        char *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, json, i);
        assert_int_not_equal(tokenizer_open_memory("x", copy, i, &tokenizer, &error), STATUS_OK);
        assert_null(tokenizer);
        memcpy(copy, json, size);
        copy[i] ^= 1;
        if (tokenizer_open_memory("x", copy, size, &tokenizer, &error) == STATUS_OK) {
            struct token_list list = {0};
            assert_int_equal(tokenizer_encode(tokenizer, "ab <s>\xc3\xa9", 8, true, &list, &error), STATUS_OK);
            tokenizer_list_free(&list);
        }
        tokenizer_close(tokenizer);
        free(copy);
    }
}

/* 1024 bytes that the normalizer makes 64 times as long: one more than the automaton takes. */
static void test_refuses_an_added_token_that_is_too_long_when_normalized(void **state)
{
    char json[8192], added[2048], normalizer[256];
    struct error error = {0};
    (void)state;
    (void)snprintf(normalizer, sizeof normalizer,
                   "{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"%064d\"}", 0);
    for (int length = 1023; length <= 1024; length++) {
        char content[1025] = {0};
        memset(content, 'x', (size_t)length);
        (void)snprintf(added, sizeof added, "{\"id\":9,\"content\":\"%s\",\"normalized\":true}", content);
        tokenizers_json(json, sizeof json, added, normalizer, NULL, NULL, NULL, MODEL(LETTERS, ""));
        const enum status status = tokenizers_refuse(json, &error);
        assert_int_equal(status, length == 1023 ? STATUS_OK : STATUS_UNSUPPORTED);
    }
    assert_string_equal(error.detail,
                        "tokenizer.json: an added token has 65536 normalized bytes, at most 65535 are done");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_models_that_contradict_themselves),
        cmocka_unit_test(test_accepts_both_spellings_of_merges_in_any_order),
        cmocka_unit_test(test_takes_no_number_out_of_a_name),
        cmocka_unit_test(test_names_the_part_it_does_not_do),
        cmocka_unit_test(test_refuses_regular_expressions_it_cannot_do_the_same),
        cmocka_unit_test(test_stops_expressions_that_backtrack_without_end),
        cmocka_unit_test(test_refuses_added_tokens_that_contradict_the_model),
        cmocka_unit_test(test_refuses_templates_it_cannot_fill),
        cmocka_unit_test(test_survives_every_cut_and_flip_of_a_file),
        cmocka_unit_test(test_refuses_an_added_token_that_is_too_long_when_normalized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
