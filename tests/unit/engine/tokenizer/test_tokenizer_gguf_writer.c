/* Small tokenizers written into GGUF files and read from them again, and what GGUF cannot say of one. (The published
 * ones, on all goldens: test_tokenizer.c.) */
#include "engine/files/scratch.h"
#include "engine/tokenizer/tokenizers.h"
#include "tokenizer/tokenizer_gguf_writer.h"

#define SPACE "\xe2\x96\x81"

static enum status put(const char *json, int64_t vocabulary_size, struct scratch *scratch, struct error *error)
{
    struct tokenizer *tokenizer = tokenizers_open(json);
    struct gguf_metadata metadata = {0};
    struct gguf_writer *writer = NULL;
    const enum status status = tokenizer_gguf_write(tokenizer, vocabulary_size, &metadata, error);
    if (status == STATUS_OK) {
        assert_int_equal(gguf_writer_open(scratch_path(scratch, "x.gguf"), &metadata, NULL, 0, false, &writer, error),
                         STATUS_OK);
        assert_int_equal(gguf_writer_commit(writer, error), STATUS_OK);
        gguf_writer_close(writer);
    }
    gguf_metadata_reset(&metadata);
    tokenizer_close(tokenizer);
    return status;
}

/* As `json` has it, and as what is read from the file has it. */
static void assert_round_trip(const char *json, int64_t vocabulary_size, const char *const *texts)
{
    struct scratch scratch;
    struct error error;
    struct tokenizer *before = tokenizers_open(json), *after = NULL;
    scratch_open(&scratch);
    if (put(json, vocabulary_size, &scratch, &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (tokenizer_open(scratch_path(&scratch, "x.gguf"), &after, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (; *texts != NULL; texts++) {
        for (int special = 0; special < 2; special++) {
            struct token_list ids = {0};
            assert_int_equal(tokenizer_encode(before, *texts, strlen(*texts), special, &ids, &error), STATUS_OK);
            tokenizers_expect(after, *texts, special, ids.ids, ids.count);
            tokenizer_list_free(&ids);
        }
    }
    assert_int_equal(tokenizer_bos(before), tokenizer_bos(after));
    assert_int_equal(tokenizer_eos(before), tokenizer_eos(after));
    tokenizer_close(before);
    tokenizer_close(after);
    scratch_close(&scratch);
}

static const char *const texts[] = {"", "ab", " ab ab", "a\nb", "aab<s>b<unk>", "\xc3\xa9", "b ba a", NULL};

/* Every piece's cuts are merges, in the order of the pieces. */
static const char scored[] =
    "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"<0x0A>\":2,\"" SPACE "\":3,\"a\":4,\"b\":5,\"ab\":6,\"" SPACE
    "ab\":7,\"<0xC3>\":8,\"<0xA9>\":9},\"merges\":[\"a b\",\"" SPACE " ab\"]}";
static const char specials[] = TOKENIZERS_ADDED(0, "<unk>") "," TOKENIZERS_ADDED(1, "<s>");

static void test_sentencepiece_comes_back(void **state)
{
    char json[4096];
    (void)state;
    assert_round_trip(tokenizers_json(json, sizeof json, specials, TOKENIZERS_DUMMY_PREFIX, NULL, TOKENIZERS_BOS,
                                      TOKENIZERS_UNFUSE, scored),
                      12, texts);
    assert_round_trip(tokenizers_json(json, sizeof json, specials,
                                      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}",
                                      NULL, NULL, TOKENIZERS_UNFUSE, scored),
                      10, texts);
}

static void test_bytes_come_back(void **state)
{
    struct scratch scratch;
    struct error error;
    struct tokenizer *bytes = NULL;
    const char *json;
    size_t size;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(tokenizer_open_bytes(&bytes, &error), STATUS_OK);
    tokenizer_source(bytes, &json, &size);
    char *copy = calloc(1, size + 1);
    memcpy(copy, json, size);
    assert_round_trip(copy, 256, texts);
    assert_round_trip(copy, 300, texts);
    assert_int_equal(put(copy, 255, &scratch, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "256 tokens"));
    free(copy);
    tokenizer_close(bytes);
    scratch_close(&scratch);
}

static void refuses(const char *json, const char *words)
{
    struct scratch scratch;
    struct error error;
    scratch_open(&scratch);
    assert_int_equal(put(json, 100, &scratch, &error), STATUS_UNSUPPORTED);
    if (strstr(error.detail, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, words);
    scratch_close(&scratch);
}

static void test_what_gguf_cannot_say_is_refused_by_name(void **state)
{
    char json[4096];
    (void)state;
    refuses(tokenizers_json(json, sizeof json, specials, TOKENIZERS_DUMMY_PREFIX, NULL, TOKENIZERS_BOS,
                            TOKENIZERS_UNFUSE,
                            TOKENIZERS_BYTE_FALLBACK), /* "a" joins the space after all of "ab" did */
            "no scores of its pieces");
    refuses(tokenizers_json(json, sizeof json, specials, "{\"type\":\"NFKC\"}", NULL, NULL, TOKENIZERS_UNFUSE, scored),
            "no name for how text is normalized and split");
    refuses(tokenizers_json(json, sizeof json, NULL, TOKENIZERS_DUMMY_PREFIX, NULL, NULL, TOKENIZERS_UNFUSE, scored),
            "its unknown token is not a special one");
    refuses(tokenizers_json(
                json, sizeof json,
                TOKENIZERS_ADDED(0, "<unk>") ",{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":true,"
                                             "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                TOKENIZERS_DUMMY_PREFIX, NULL, NULL, TOKENIZERS_UNFUSE, scored),
            "token \"<s>\" takes what stands beside it");
    refuses(tokenizers_json(
                json, sizeof json,
                TOKENIZERS_ADDED(0, "<unk>") ",{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,"
                                             "\"rstrip\":false,\"normalized\":true,\"special\":true}",
                TOKENIZERS_DUMMY_PREFIX, NULL, NULL, TOKENIZERS_UNFUSE, scored),
            "token \"<s>\" is looked for in normalized text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentencepiece_comes_back),
        cmocka_unit_test(test_bytes_come_back),
        cmocka_unit_test(test_what_gguf_cannot_say_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
