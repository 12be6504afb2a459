/* Tokenizers: the same ids as the tokenizers library on its own goldens, and the rules one by one on small files. */
#include "engine/tokenizer/tokenizers.h"
#include "shared.h"
#include "unit.h"

#include "engine/files/scratch.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "tokenizer/tokenizer_gguf_writer.h"

#include <time.h>
#include <zlib.h>

/* ---- goldens ---- */

static char *unpack(const char *path, size_t *size)
{
    enum { LIMIT = 64 << 20 };
    char *bytes = malloc(LIMIT);
    gzFile file = gzopen(path, "rb");
    assert_true(bytes != NULL && file != NULL);
    const int got = gzread(file, bytes, LIMIT);
    assert_true(got > 0);
    *size = (size_t)got;
    (void)gzclose(file);
    return bytes;
}

struct golden {
    char text[8192], decoded[8192];
    size_t text_size, decoded_size;
    struct token_list ids, special;
};

static void read_ids(struct json_reader *reader, struct token_list *out)
{
    out->ids = realloc(out->ids, 8192 * sizeof *out->ids);
    assert_non_null(out->ids);
    out->count = 0;
    json_reader_array(reader);
    while (json_reader_next_item(reader)) {
        int64_t id = 0;
        json_reader_int64(reader, 0, UINT32_MAX, &id);
        assert_true(out->count < 8192);
        out->ids[out->count++] = (uint32_t)id;
    }
}

static void read_golden(const char *line, size_t size, struct golden *out)
{
    struct json_reader reader;
    struct json_reader_text key, text;
    struct error error;
    out->text_size = out->decoded_size = SIZE_MAX;
    json_reader_init(&reader, "golden", line, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        const bool is_text = json_reader_is(key, "text");
        if (json_reader_is(key, "ids")) read_ids(&reader, &out->ids);
        if (json_reader_is(key, "ids_special")) read_ids(&reader, &out->special);
        if (!is_text && !json_reader_is(key, "decoded")) continue;
        assert_true(json_reader_string(&reader, &text) && text.size <= sizeof out->text);
        memcpy(is_text ? out->text : out->decoded, text.bytes, text.size);
        *(is_text ? &out->text_size : &out->decoded_size) = text.size;
    }
    if (json_reader_finish(&reader) != STATUS_OK) fail_msg("%s", error.detail);
    assert_true(out->text_size != SIZE_MAX);
}

static void check_ids(const struct tokenizer *tokenizer, const struct golden *golden, bool special, const char *name,
                      int line)
{
    struct error error;
    struct token_list list = {0};
    const struct token_list *want = special ? &golden->special : &golden->ids;
    if (tokenizer_encode(tokenizer, golden->text, golden->text_size, special, &list, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    bool same = list.count == want->count;
    for (int64_t i = 0; same && i < list.count; i++) same = list.ids[i] == want->ids[i];
    if (!same) fail_msg("%s, string %d (special %d): not the golden ids", name, line, special);
    tokenizer_list_free(&list);
}

static void check_text(const struct tokenizer *tokenizer, const struct golden *golden, const char *name, int line)
{
    struct error error;
    char *text;
    size_t size;
    const bool differs = golden->decoded_size != SIZE_MAX;
    const size_t want = differs ? golden->decoded_size : golden->text_size;
    assert_int_equal(tokenizer_decode(tokenizer, golden->ids.ids, golden->ids.count, false, &text, &size, &error),
                     STATUS_OK);
    if (size != want || memcmp(text, differs ? golden->decoded : golden->text, size) != 0)
        fail_msg("%s, string %d: decodes to \"%s\"", name, line, text);
    memory_free(text);
}

/* Written into a GGUF file and read from it again. */
static struct tokenizer *through_gguf(const struct tokenizer *tokenizer, const char *name)
{
    struct scratch scratch;
    struct gguf_metadata metadata = {0};
    struct gguf_writer *writer = NULL;
    struct tokenizer *back = NULL;
    struct error error;
    scratch_open(&scratch);
    if (tokenizer_gguf_write(tokenizer, tokenizer_vocabulary_size(tokenizer) + 3, &metadata, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.detail);
    assert_int_equal(gguf_writer_open(scratch_path(&scratch, "x.gguf"), &metadata, NULL, 0, false, &writer, &error),
                     STATUS_OK);
    assert_int_equal(gguf_writer_commit(writer, &error), STATUS_OK);
    gguf_writer_close(writer);
    gguf_metadata_reset(&metadata);
    if (tokenizer_open(scratch_path(&scratch, "x.gguf"), &back, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.detail);
    scratch_close(&scratch);
    return back;
}

static void test_gives_the_golden_ids_and_texts(void **state)
{
    static const char *const names[] = {"dolma2", "gpt-neox-20b", "gpt2",      "llama-sp",
                                        "llama3", "smollm2",      "tekken-v3", "tok512"};
    char path[512];
    (void)state;
    (void)shared_require("data/tokenizers", path, sizeof path); /* skips before anything is held */
    struct golden *golden = calloc(1, sizeof *golden);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char relative[128];
        struct error error;
        struct tokenizer *tokenizer, *back;
        size_t size;
        int line = 0;
        snprintf(relative, sizeof relative, "data/tokenizers/%s.tokenizer.json.gz", names[n]);
        char *json = unpack(shared_require(relative, path, sizeof path), &size);
        if (tokenizer_open_memory(names[n], json, size, &tokenizer, &error) != STATUS_OK) fail_msg("%s", error.detail);
        free(json);
        back = through_gguf(tokenizer, names[n]);
        snprintf(relative, sizeof relative, "data/tokenizers/goldens/%s.jsonl", names[n]);
        char *lines;
        assert_int_equal(
            file_read_all(AT_FDCWD, shared_require(relative, path, sizeof path), 1 << 24, &lines, &size, &error),
            STATUS_OK);
        for (const char *at = lines, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, line++) {
            read_golden(at, (size_t)(end - at), golden);
            check_ids(tokenizer, golden, false, names[n], line);
            check_ids(tokenizer, golden, true, names[n], line);
            check_ids(back, golden, false, names[n], line);
            check_ids(back, golden, true, names[n], line);
            check_text(tokenizer, golden, names[n], line);
        }
        assert_int_equal(line, 179);
        memory_free(lines);
        tokenizer_close(tokenizer);
        tokenizer_close(back);
    }
    free(golden->ids.ids);
    free(golden->special.ids);
    free(golden);
}

/* ---- small files ---- */

static void test_sentencepiece_style(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer =
        tokenizers_open(tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(1, "<s>"), TOKENIZERS_DUMMY_PREFIX, NULL,
                                        TOKENIZERS_BOS, TOKENIZERS_UNFUSE, TOKENIZERS_BYTE_FALLBACK));
    EXPECT_IDS(tokenizer, "ab", false, 8);
    EXPECT_IDS(tokenizer, "ab", true, 1, 8);
    EXPECT_IDS(tokenizer, "ab  ab", false, 8, 3, 8);
    EXPECT_IDS(tokenizer, "a\n", false, 7, 2);               /* byte fallback */
    EXPECT_IDS(tokenizer, "\xc3\xa9", false, 3, 9, 10);      /* of two bytes */
    EXPECT_IDS(tokenizer, "xyz", false, 3, 0);               /* unknowns fuse */
    EXPECT_IDS(tokenizer, "x\xc3\xa9y", false, 3, 9, 10, 0); /* and wait behind byte tokens, as the library has it */
    EXPECT_IDS(tokenizer, "ab<s>ab", false, 8, 1, 8);        /* each piece gets its own prefix */
    EXPECT_IDS(tokenizer, "<0x0A>", false, 3, 0);            /* the name of a byte is not the byte */
    tokenizers_expect(tokenizer, "", false, NULL, 0);
    EXPECT_IDS(tokenizer, "", true, 1);
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), -1);
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 11);
    assert_int_equal(tokenizer_find(tokenizer, "ab"), 6);
    assert_int_equal(tokenizer_find(tokenizer, "abc"), -1);
    tokenizer_close(tokenizer);
}

static void test_byte_level_style(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(json, sizeof json, NULL, NULL, TOKENIZERS_BYTE_LEVEL,
                                                                  NULL, TOKENIZERS_BYTE_LEVEL, TOKENIZERS_LETTERS));
    EXPECT_IDS(tokenizer, "ab a", false, 4, 3);
    EXPECT_IDS(tokenizer, "ab  a", false, 4, 0, 3);
    EXPECT_IDS(tokenizer, "\xc3\xa9", false, 11, 12);
    EXPECT_IDS(tokenizer, "a?b", false, 1, 2); /* no stand-in for the question mark: it is left out */
    tokenizer_close(tokenizer);
}

/* {pre-tokenizer, text, ids}: the letters a b and digits, whose merges show where pieces end. */
static void test_pre_tokenizers_cut_where_the_library_does(void **state)
{
#define SPLIT(form, pattern, behavior, invert)                                                                        \
    "{\"type\":\"Split\",\"pattern\":{\"" form "\":\"" pattern "\"},\"behavior\":\"" behavior "\",\"invert\":" invert \
    "}"
    static const struct {
        const char *pre_tokenizer, *text;
        int64_t count;
        uint32_t ids[8];
    } cases[] = {
        {NULL, "a12b", 3, {1, 7, 2}},
        {"{\"type\":\"Digits\",\"individual_digits\":true}", "12", 2, {5, 6}},
        {"{\"type\":\"Digits\",\"individual_digits\":false}", "12", 1, {7}},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
         "\"individual_digits\":true}," TOKENIZERS_BYTE_LEVEL "]}",
         "12 a",
         3,
         {5, 6, 3}},
        {SPLIT("String", "1", "Isolated", "false"), "a12b", 4, {1, 5, 6, 2}},
        {SPLIT("String", "1", "Removed", "false"), "a1b", 2, {1, 2}},
        {SPLIT("String", "1", "MergedWithPrevious", "false"), "ab12", 3, {4, 5, 6}},
        {SPLIT("String", "1", "MergedWithNext", "false"), "ab12", 2, {4, 7}},
        {SPLIT("Regex", "[12]", "Contiguous", "false"), "ab12ab", 3, {4, 7, 4}},
        {SPLIT("Regex", "[12]", "Isolated", "false"), "12", 2, {5, 6}},
        {SPLIT("Regex", "\\\\p{N}{1,2}", "Removed", "true"), "a12b", 1, {7}},
        {SPLIT("Regex", "(?i:AB)", "Isolated", "false"), "aba", 2, {4, 1}},
        {SPLIT("Regex", "(?:a|b)|(?=1)", "Isolated", "false"), "ab12", 3, {1, 2, 7}},
        {"{\"type\":\"WhitespaceSplit\"}", "ab ab", 2, {4, 4}},
        {"{\"type\":\"Whitespace\"}", "ab^^ab", 3, {4, 9, 4}},
        {"{\"type\":\"Punctuation\"}", "^^", 2, {8, 8}},
        {"{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "^^", 1, {9}},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}", "a", 1, {3}},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}", " a", 1, {3}},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", "a1", 2, {1, 5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[8192];
        struct tokenizer *tokenizer = tokenizers_open(
            tokenizers_json(json, sizeof json, NULL, NULL, cases[i].pre_tokenizer, NULL, NULL, TOKENIZERS_LETTERS));
        tokenizers_expect(tokenizer, cases[i].text, false, cases[i].ids, cases[i].count);
        tokenizer_close(tokenizer);
    }
}

static void test_metaspace_follows_its_prepend_scheme(void **state)
{
    static const struct {
        const char *scheme, *text;
        int64_t count;
        uint32_t ids[6];
    } cases[] = {
        {"\"prepend_scheme\":\"always\"", "ab<s>ab", 3, {8, 1, 8}},
        {"\"prepend_scheme\":\"first\"", "ab<s>ab", 3, {8, 1, 6}},
        {"\"prepend_scheme\":\"never\"", "ab ab", 2, {6, 8}},
        {"\"add_prefix_space\":true", "ab", 1, {8}},
        {"\"prepend_scheme\":\"always\",\"split\":false", "a b", 3, {7, 3, 5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[8192], metaspace[256];
        snprintf(metaspace, sizeof metaspace, "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",%s}",
                 cases[i].scheme);
        struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
            json, sizeof json, TOKENIZERS_ADDED(1, "<s>"), NULL, metaspace, NULL, metaspace, TOKENIZERS_BYTE_FALLBACK));
        tokenizers_expect(tokenizer, cases[i].text, false, cases[i].ids, cases[i].count);
        tokenizer_close(tokenizer);
    }
}

static void test_added_tokens_strip_and_stand_alone(void **state)
{
#define ADDED(content, single, left, right)                                                                   \
    "{\"id\":20,\"content\":\"" content "\",\"single_word\":" single ",\"lstrip\":" left ",\"rstrip\":" right \
    ",\"normalized\":false,\"special\":false}"
    static const struct {
        const char *added, *text;
        int64_t count;
        uint32_t ids[6];
    } cases[] = {
        {ADDED("zz", "true", "false", "false"), "zz azz zz", 4, {20, 3, 0, 20}},
        {ADDED("<m>", "false", "true", "true"), "a  <m> \\u00a0b", 3, {1, 20, 2}},
        {ADDED("<m>", "false", "true", "false"), "a <m> a", 3, {1, 20, 3}},
        {ADDED("<m>", "false", "false", "true"), "a<m> a", 3, {1, 20, 1}},
        {ADDED("<m>", "false", "false",
               "false") ",{\"id\":21,\"content\":\"<m><m>\",\"single_word\":false,\"lstrip\":false,"
                        "\"rstrip\":false,\"normalized\":true,\"special\":true}",
         "<m><m><m>",
         3,
         {20, 20, 20}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[8192], text[64];
        struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
            json, sizeof json, cases[i].added, NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL, TOKENIZERS_LETTERS));
        snprintf(text, sizeof text, "%s", cases[i].text);
        char *escaped = strstr(text, "\\u00a0");
        if (escaped != NULL) {
            memmove(escaped + 2, escaped + 6, strlen(escaped + 6) + 1);
            memcpy(escaped, "\xc2\xa0", 2);
        }
        tokenizers_expect(tokenizer, text, false, cases[i].ids, cases[i].count);
        tokenizer_close(tokenizer);
    }
}

static void test_nfc_composes_before_splitting(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(
        tokenizers_json(json, sizeof json, NULL, "{\"type\":\"NFC\"}", NULL, NULL, NULL,
                        "{\"type\":\"BPE\",\"vocab\":{\"e\":0,\"\xc3\xa9\":1,\"\xcc\x81\":2},\"merges\":[]}"));
    EXPECT_IDS(tokenizer, "e\xcc\x81", false, 1);
    tokenizer_close(tokenizer);
}

static void test_a_stripped_beginning_is_no_beginning_for_metaspace(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(
        tokenizers_json(json, sizeof json, NULL, "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
                        "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\"}", NULL,
                        NULL, TOKENIZERS_BYTE_FALLBACK));
    EXPECT_IDS(tokenizer, "ab ", false, 8);
    EXPECT_IDS(tokenizer, " ab", false, 6); /* as the library has it: the text does not begin at 0 any more */
    tokenizer_close(tokenizer);
}

static void test_a_removed_beginning_is_no_beginning_for_metaspace(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
        json, sizeof json, NULL, NULL,
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\","
        "\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\"}]}",
        NULL, NULL, TOKENIZERS_BYTE_FALLBACK));
    EXPECT_IDS(tokenizer, "ab ab", false, 8, 6);
    EXPECT_IDS(tokenizer, " ab ab", false, 6, 6);
    tokenizer_close(tokenizer);
}

/* What \w of Oniguruma matches: six numbers of Latin-1, unless it stands in a class. */
static void test_word_characters_are_onigurumas(void **state)
{
    static const struct {
        const char *pattern;
        int64_t count;
        uint32_t ids[2];
    } cases[] = {{"\\\\w+", 1, {2}}, {"[\\\\w]+", 2, {0, 1}}, {"\\\\W", 1, {2}}, {"[^\\\\w]", 2, {0, 1}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[8192], split[256];
        snprintf(split, sizeof split,
                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\",\"invert\":false}",
                 cases[i].pattern);
        struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
            json, sizeof json, NULL, NULL, split, NULL, NULL,
            "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xc2\xbd\":1,\"a\xc2\xbd\":2},\"merges\":[\"a \xc2\xbd\"]}"));
        tokenizers_expect(tokenizer, "a\xc2\xbd", false, cases[i].ids, cases[i].count);
        tokenizer_close(tokenizer);
    }
}

static void test_ignore_merges_takes_whole_words(void **state)
{
    char json[8192];
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(tokenizers_json(
        json, sizeof json, NULL, NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL,
        "{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"abc\":3,\"bc\":4},"
        "\"merges\":[\"b c\"]}"));
    EXPECT_IDS(tokenizer, "abc", false, 3);
    EXPECT_IDS(tokenizer, "aabc", false, 0, 0, 4);
    tokenizer_close(tokenizer);
}

/* Of equal pairs the first is merged first, however long the word is: 51 are twelve fours, a two and a one. */
static void test_equal_pairs_are_merged_from_the_left(void **state)
{
    char json[8192], text[64];
    uint32_t ids[14];
    (void)state;
    struct tokenizer *tokenizer =
        tokenizers_open(tokenizers_json(json, sizeof json, NULL, NULL, NULL, NULL, NULL, TOKENIZERS_LETTERS));
    for (int fours = 0; fours <= 12; fours += 2) {
        for (int i = 0; i < fours; i++) ids[i] = 10;
        ids[fours] = 9;
        ids[fours + 1] = 8;
        memset(text, '^', (size_t)(4 * fours + 3));
        text[4 * fours + 3] = '\0';
        tokenizers_expect(tokenizer, text, false, ids, fours + 2);
    }
    tokenizer_close(tokenizer);
}

static void test_says_where_text_is_not_utf8(void **state)
{
    struct error error;
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    (void)state;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    static const char *const bad[] = {"ab\xff",        "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
                                      "ab\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tokenizer_encode(tokenizer, bad[i], strlen(bad[i]), false, &list, &error), STATUS_MALFORMED);
        assert_non_null(strstr(error.detail, "byte 2"));
        assert_int_equal(list.count, 0);
    }
    tokenizer_list_free(&list);
    tokenizer_close(tokenizer);
}

static void test_bytes_are_their_own_ids(void **state)
{
    struct error error;
    struct tokenizer *tokenizer, *again;
    struct token_list list = {0};
    char text[512];
    size_t size = 0, decoded;
    char *back;
    struct scratch scratch;
    (void)state;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 256);
    for (unsigned c = 0; c < 128; c++) text[size++] = (char)c;
    memcpy(text + size, "\xc3\xa9 \xf0\x9f\x98\x80", 7);
    size += 7;
    scratch_open(&scratch);
    assert_int_equal(tokenizer_write(tokenizer, scratch_path(&scratch, "tokenizer.json"), &error), STATUS_OK);
    assert_int_equal(tokenizer_open(scratch.path, &again, &error), STATUS_OK);
    for (int round = 0; round < 2; round++) {
        list.count = 0;
        assert_int_equal(tokenizer_encode(round ? again : tokenizer, text, size, true, &list, &error), STATUS_OK);
        assert_int_equal(list.count, size);
        for (size_t i = 0; i < size; i++) assert_int_equal(list.ids[i], (uint8_t)text[i]);
    }
    assert_int_equal(tokenizer_decode(again, list.ids, list.count, false, &back, &decoded, &error), STATUS_OK);
    assert_int_equal(decoded, size);
    assert_memory_equal(back, text, size);
    memory_free(back);
    tokenizer_list_free(&list);
    tokenizer_close(tokenizer);
    tokenizer_close(again);
    scratch_close(&scratch);
}

static void test_a_million_equal_characters_are_quick(void **state)
{
    enum { COUNT = 1000000 };
    char json[8192], *text = malloc(COUNT);
    struct error error;
    struct token_list list = {0};
    struct timespec start, end;
    (void)state;
    memset(text, '^', COUNT);
    struct tokenizer *tokenizer = tokenizers_open(
        tokenizers_json(json, sizeof json, NULL, NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL, TOKENIZERS_LETTERS));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    assert_int_equal(tokenizer_encode(tokenizer, text, COUNT, false, &list, &error), STATUS_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_int_equal(list.count, COUNT / 4);
    for (int64_t i = 0; i < list.count; i++) assert_int_equal(list.ids[i], 10);
    const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    assert_true(seconds < 30.0); /* about 0.2 s; the rest is for sanitizers; a quadratic merge takes hours */
    tokenizer_list_free(&list);
    tokenizer_close(tokenizer);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_the_golden_ids_and_texts),
        cmocka_unit_test(test_sentencepiece_style),
        cmocka_unit_test(test_byte_level_style),
        cmocka_unit_test(test_pre_tokenizers_cut_where_the_library_does),
        cmocka_unit_test(test_metaspace_follows_its_prepend_scheme),
        cmocka_unit_test(test_added_tokens_strip_and_stand_alone),
        cmocka_unit_test(test_nfc_composes_before_splitting),
        cmocka_unit_test(test_a_stripped_beginning_is_no_beginning_for_metaspace),
        cmocka_unit_test(test_a_removed_beginning_is_no_beginning_for_metaspace),
        cmocka_unit_test(test_word_characters_are_onigurumas),
        cmocka_unit_test(test_ignore_merges_takes_whole_words),
        cmocka_unit_test(test_equal_pairs_are_merged_from_the_left),
        cmocka_unit_test(test_says_where_text_is_not_utf8),
        cmocka_unit_test(test_bytes_are_their_own_ids),
        cmocka_unit_test(test_a_million_equal_characters_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
