/* Datasets: every format, both packings, and what is said when they cannot be used. The tokenizer is `bytes`: a token a
 * byte. */
#include "engine/files/scratch.h"
#include "shared.h"
#include "unit.h"

#include "base/memory.h"
#include "dataset/dataset.h"

#include <string.h>

struct fixture {
    struct scratch scratch;
    struct tokenizer *bytes;
    struct sequences out;
    struct error error;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    scratch_open(&fixture->scratch);
    assert_int_equal(tokenizer_open_bytes(&fixture->bytes, &fixture->error), STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    dataset_sequences_free(&fixture->out);
    tokenizer_close(fixture->bytes);
    scratch_close(&fixture->scratch);
    free(fixture);
    return 0;
}

static enum status load(struct fixture *fixture, struct dataset_source source, struct dataset_use use)
{
    dataset_sequences_free(&fixture->out);
    return dataset_load(&source, &use, fixture->bytes, NULL, &fixture->out, &fixture->error);
}

static const char *put(struct fixture *fixture, const char *name, const char *text)
{
    scratch_write(&fixture->scratch, name, text, strlen(text));
    return fixture->scratch.path;
}

/* The sequences are the bytes of these strings. */
static void expect(const struct fixture *fixture, const char *const *sequences, int64_t count)
{
    const struct sequences *out = &fixture->out;
    assert_int_equal(out->count, count);
    assert_int_equal(out->starts[0], 0);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(out->starts[i + 1] - out->starts[i], strlen(sequences[i]));
        for (int64_t t = out->starts[i]; t < out->starts[i + 1]; t++)
            assert_int_equal(out->tokens[t], (uint8_t)sequences[i][t - out->starts[i]]);
    }
}
#define EXPECT(fixture, ...) \
    expect(fixture, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void says(const struct fixture *fixture, const char *words)
{
    if (strstr(fixture->error.detail, words) == NULL) fail_msg("\"%s\" lacks \"%s\"", fixture->error.detail, words);
    assert_null(strstr(fixture->error.detail, fixture->scratch.directory));
}

static void test_text_as_blocks(void **state)
{
    struct fixture *f = *state;
    struct dataset_source source = {.format = DATASET_TEXT, .path = put(f, "a.txt", "abcdefghij")};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 4}), STATUS_OK);
    EXPECT(f, "abcd", "efgh");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 4, .max_sequences = 1}), STATUS_OK);
    EXPECT(f, "abcd");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 10, .longest = 3}), STATUS_OK);
    EXPECT(f, "abcdefghij");
}

static void test_a_directory_is_its_files_in_order(void **state)
{
    struct fixture *f = *state;
    struct dataset_files files;
    put(f, "b.txt", "def");
    put(f, "a.txt", "abc");
    put(f, ".hidden", "xyz");
    struct dataset_source source = {.format = DATASET_TEXT, .path = f->scratch.directory};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 6}), STATUS_OK);
    EXPECT(f, "abcdef"); /* joined with no separator */
    assert_int_equal(dataset_files_list(&source, &files, &f->error), STATUS_OK);
    assert_int_equal(files.count, 2);
    assert_string_equal(strrchr(files.paths[1], '/'), "/b.txt");
    dataset_files_free(&files);
    source.format = DATASET_TOKENS;
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 6}), STATUS_NOT_FOUND);
}

static void test_jsonl_as_documents(void **state)
{
    struct fixture *f = *state;
    struct dataset_source source = {
        .format = DATASET_JSONL,
        .path =
            put(f, "a.jsonl",
                "{\"text\":\"0123456789\"}\n{\"n\":1,\"text\":\"0123456789a\"}\r\n\n{\"text\":\"abcdefghijklmnop\"}")};
    struct dataset_use use = {.packing = DATASET_DOCUMENTS, .sequence_length = 12};
    assert_int_equal(load(f, source, use), STATUS_OK);
    EXPECT(f, "0123456789a", "abcdefghijkl"); /* ten tokens are too few, eleven are not */
    use.sequence_length = 0;
    assert_int_equal(load(f, source, use), STATUS_OK);
    EXPECT(f, "0123456789a", "abcdefghijklmnop");
    use.longest = 14;
    assert_int_equal(load(f, source, use), STATUS_OK);
    EXPECT(f, "0123456789a", "abcdefghijklmn");
    use.max_sequences = 1;
    assert_int_equal(load(f, source, use), STATUS_OK);
    EXPECT(f, "0123456789a");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 20}), STATUS_OK);
    EXPECT(f, "01234567890123456789");
}

static void test_jsonl_says_which_line(void **state)
{
    static const struct {
        const char *text, *words;
        enum status status;
    } cases[] = {
        {"{\"text\":\"a\"}\n\n{\"body\":\"b\"}", "line 3", STATUS_INVALID},
        {"{\"text\":\"a\"}\n{\"text\":7}", "line 2", STATUS_INVALID},
        {"{\"text\":\"a\",\"text\":\"b\"}", "line 1", STATUS_INVALID},
        {"{\"text\":\"a\"}\n{\"text\":", "line 2", STATUS_MALFORMED},
        {"[]", "line 1", STATUS_INVALID},
        {"{\"text\":\"\\ud800\"}", "line 1", STATUS_MALFORMED},
        {"{\"text\":\"a\"} x", "line 1", STATUS_MALFORMED},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset_source source = {.format = DATASET_JSONL, .path = put(f, "a.jsonl", cases[i].text)};
        const enum status status = load(f, source, (struct dataset_use){.sequence_length = 2});
        if (status != cases[i].status) fail_msg("%s: %s", cases[i].text, f->error.detail);
        says(f, cases[i].words);
    }
}

/* A line of so many equal letters; returns its size. */
static size_t put_line(char *out, char letter, size_t length)
{
    memcpy(out, "{\"body\":\"", 9);
    memset(out + 9, letter, length);
    memcpy(out + 9 + length, "\"}\n", 3);
    return length + 12;
}

static void test_jsonl_lines_may_cross_reads(void **state)
{
    enum { COUNT = 3, LENGTH = 700000 };
    struct fixture *f = *state;
    char *text = malloc(COUNT * (LENGTH + 16) + 1);
    size_t size = 0;
    for (int i = 0; i < COUNT; i++) size += put_line(text + size, (char)('a' + i), LENGTH);
    text[size] = '\0';
    struct dataset_source source = {.format = DATASET_JSONL, .path = put(f, "a.jsonl", text), .field = "body"};
    assert_int_equal(load(f, source, (struct dataset_use){.packing = DATASET_DOCUMENTS}), STATUS_OK);
    assert_int_equal(f->out.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(f->out.starts[i + 1], (int64_t)(i + 1) * LENGTH);
        assert_int_equal(f->out.tokens[f->out.starts[i + 1] - 1], 'a' + i);
    }
    free(text);
}

/* ---- tokens ---- */

static size_t npy(char *out, int version, const char *descr, const char *order, const char *shape, const void *data,
                  size_t bytes)
{
    char header[256];
    const int size =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr, order, shape);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    out[8] = (char)(size & 255);
    out[9] = (char)(size >> 8);
    out[10] = out[11] = 0;
    const size_t start = version == 1 ? 10 : 12;
    memcpy(out + start, header, (size_t)size);
    memcpy(out + start + (size_t)size, data, bytes);
    return start + (size_t)size + bytes;
}

static void test_npy_of_every_width(void **state)
{
    static const uint16_t u2[] = {'a', 'b', 'c', 'd'};
    static const uint32_t u4[] = {'a', 'b', 'c', 'd'};
    static const int32_t i4[] = {'a', 'b', 'c', 'd'};
    static const int64_t i8[] = {'a', 'b', 'c', 'd'};
    static const struct {
        const char *descr;
        const void *data;
        size_t bytes;
    } cases[] = {{"<u2", u2, sizeof u2},
                 {"<u4", u4, sizeof u4},
                 {"<i4", i4, sizeof i4},
                 {"<i8", i8, sizeof i8},
                 {"|u1", "abcd", 4}};
    struct fixture *f = *state;
    char file[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int version = 1; version <= 3; version++) {
            size_t size = npy(file, version, cases[i].descr, "False", "4,", cases[i].data, cases[i].bytes);
            scratch_write(&f->scratch, "a.npy", file, size);
            struct dataset_source source = {.format = DATASET_TOKENS, .path = f->scratch.path};
            assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 2}), STATUS_OK);
            EXPECT(f, "ab", "cd");
            size = npy(file, version, cases[i].descr, "False", "2, 2", cases[i].data, cases[i].bytes);
            scratch_write(&f->scratch, "a.npy", file, size);
            assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 0}), STATUS_OK);
            EXPECT(f, "ab", "cd"); /* the rows as they are */
        }
    }
}

static void test_npy_that_is_broken_or_foreign(void **state)
{
    static const uint16_t data[] = {1, 2, 3, 4};
    static const struct {
        const char *descr, *order, *shape;
        size_t bytes;
        enum status status;
    } cases[] = {
        {">u2", "False", "4,", 8, STATUS_UNSUPPORTED},
        {"<f4", "False", "2,", 8, STATUS_UNSUPPORTED},
        {"<u2", "True", "2, 2", 8, STATUS_UNSUPPORTED},
        {"<u2", "False", "", 2, STATUS_UNSUPPORTED},
        {"<u2", "False", "5,", 8, STATUS_CORRUPT},
        {"<u2", "False", "3,", 8, STATUS_CORRUPT},
        {"<u2", "False", "1, 2, 2", 8, STATUS_CORRUPT},
        {"<u2", "Maybe", "4,", 8, STATUS_CORRUPT},
        {"<u2", "False", "-4,", 8, STATUS_CORRUPT},
        {"<u2", "False", "4294967296, 4294967296", 8, STATUS_CORRUPT},
        {"<u2", "False", "99999999999999999999,", 8, STATUS_CORRUPT},
    };
    struct fixture *f = *state;
    char file[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t size = npy(file, 1, cases[i].descr, cases[i].order, cases[i].shape, data, cases[i].bytes);
        scratch_write(&f->scratch, "a.npy", file, size);
        struct dataset_source source = {.format = DATASET_TOKENS, .path = f->scratch.path};
        const enum status status = load(f, source, (struct dataset_use){.sequence_length = 2});
        if (status != cases[i].status) fail_msg("%s %s: %s", cases[i].descr, cases[i].shape, f->error.detail);
    }
    const size_t size = npy(file, 1, "<u2", "False", "4,", data, 8);
    for (size_t cut = 0; cut < size; cut++) {
        scratch_write(&f->scratch, "a.npy", file, cut);
        struct dataset_source source = {.format = DATASET_TOKENS, .path = f->scratch.path};
        assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 2}), STATUS_CORRUPT);
    }
}

static void test_bin_needs_its_dtype(void **state)
{
    struct fixture *f = *state;
    static const uint16_t data[] = {'a', 'b', 'c'};
    scratch_write(&f->scratch, "a.bin", data, sizeof data);
    struct dataset_source source = {.format = DATASET_TOKENS, .path = f->scratch.path, .dtype = DTYPE_U16};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3}), STATUS_OK);
    EXPECT(f, "abc");
    source.dtype = DTYPE_F32;
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3}), STATUS_INVALID);
    says(f, "dtype");
    source.dtype = DTYPE_U32;
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3}), STATUS_CORRUPT);
}

static void test_ids_outside_the_vocabulary_are_named(void **state)
{
    struct fixture *f = *state;
    static const int64_t data[] = {1, 2, 3, 4, 600, -7};
    scratch_write(&f->scratch, "a.bin", data, sizeof data);
    struct dataset_source source = {.format = DATASET_TOKENS, .path = f->scratch.path, .dtype = DTYPE_I64};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3}), STATUS_INVALID);
    says(f, "token -7 (sequence 1, position 2)");
    scratch_write(&f->scratch, "a.bin", data, 5 * sizeof *data);
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3, .vocabulary_size = 512}),
                     STATUS_INVALID);
    says(f, "token 600 (sequence 1, position 1) is outside the vocabulary of 512");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3, .vocabulary_size = 600}),
                     STATUS_INVALID);
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 3, .vocabulary_size = 601}), STATUS_OK);
}

static void test_inline_sequences_are_taken_as_they_are(void **state)
{
    struct fixture *f = *state;
    int64_t starts[] = {0, 3, 5, 17};
    uint32_t tokens[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q'};
    struct sequences given = {.count = 3, .starts = starts, .tokens = tokens};
    struct dataset_source source = {.format = DATASET_INLINE, .inlined = &given};
    assert_int_equal(load(f, source, (struct dataset_use){.vocabulary_size = 200}), STATUS_OK);
    EXPECT(f, "abc", "de", "fghijklmnopq");
    assert_int_equal(load(f, source, (struct dataset_use){.packing = DATASET_DOCUMENTS}), STATUS_OK);
    EXPECT(f, "fghijklmnopq");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 8}), STATUS_OK);
    EXPECT(f, "abcdefgh", "ijklmnop");
    starts[1] = 1;
    assert_int_equal(load(f, source, (struct dataset_use){0}), STATUS_INVALID);
    says(f, "sequence 0 has 1 token");
}

static void test_too_little_text_says_how_much_there_was(void **state)
{
    struct fixture *f = *state;
    struct dataset_source source = {.format = DATASET_TEXT, .path = put(f, "a.txt", "abcdefghi")};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 10}), STATUS_INVALID);
    says(f, "9 tokens found, 10 needed");
    assert_int_equal(load(f, source, (struct dataset_use){.packing = DATASET_DOCUMENTS, .sequence_length = 5}),
                     STATUS_INVALID);
    says(f, "too little text");
    source.path = put(f, "a.txt", "");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 10}), STATUS_INVALID);
    says(f, "0 tokens found");
}

static void test_refuses_uses_that_make_no_sense(void **state)
{
    struct fixture *f = *state;
    struct dataset_source source = {.format = DATASET_TEXT, .path = put(f, "a.txt", "ab\xff")};
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 1}), STATUS_INVALID);
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 0}), STATUS_INVALID);
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 2}), STATUS_MALFORMED);
    says(f, "a.txt: text is not UTF-8 at byte 2");
    source.path = scratch_path(&f->scratch, "absent");
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 2}), STATUS_NOT_FOUND);
    tokenizer_close(f->bytes);
    f->bytes = NULL;
    assert_int_equal(load(f, source, (struct dataset_use){.sequence_length = 2}), STATUS_INVALID);
    says(f, "tokenizer");
}

static void test_real_corpora_have_their_token_counts(void **state)
{
    static const struct {
        const char *file;
        int64_t count;
    } corpora[] = {{"data/corpora/wikitext2_valid.txt", 681806}, {"data/corpora/tinystories_a.txt", 49722}};
    struct fixture *f = *state;
    char path[512];
    struct tokenizer *tokenizer;
    assert_int_equal(tokenizer_open(shared_require("data/models/stories260K/tokenizer.json", path, sizeof path),
                                    &tokenizer, &f->error),
                     STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct dataset_source source = {.format = DATASET_TEXT,
                                        .path = shared_require(corpora[i].file, path, sizeof path)};
        uint32_t *tokens;
        int64_t count;
        assert_int_equal(dataset_load_tokens(&source, tokenizer, 512, NULL, &tokens, &count, &f->error), STATUS_OK);
        assert_int_equal(count, corpora[i].count);
        memory_free(tokens);
    }
    tokenizer_close(tokenizer);
}

static enum status cancel(void *owner, struct error *error)
{
    (void)owner;
    return error_set(error, STATUS_CANCELLED, "cancelled");
}

static void test_stops_when_cancelled(void **state)
{
    struct fixture *f = *state;
    const struct monitor monitor = {.check = cancel};
    struct dataset_source source = {.format = DATASET_TEXT, .path = put(f, "a.txt", "abcdef")};
    struct dataset_use use = {.sequence_length = 2};
    assert_int_equal(dataset_load(&source, &use, f->bytes, &monitor, &f->out, &f->error), STATUS_CANCELLED);
    assert_int_equal(f->out.count, 0);
}

int main(void)
{
#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_FILES(test_text_as_blocks),
        WITH_FILES(test_a_directory_is_its_files_in_order),
        WITH_FILES(test_jsonl_as_documents),
        WITH_FILES(test_jsonl_says_which_line),
        WITH_FILES(test_jsonl_lines_may_cross_reads),
        WITH_FILES(test_npy_of_every_width),
        WITH_FILES(test_npy_that_is_broken_or_foreign),
        WITH_FILES(test_bin_needs_its_dtype),
        WITH_FILES(test_ids_outside_the_vocabulary_are_named),
        WITH_FILES(test_inline_sequences_are_taken_as_they_are),
        WITH_FILES(test_too_little_text_says_how_much_there_was),
        WITH_FILES(test_refuses_uses_that_make_no_sense),
        WITH_FILES(test_real_corpora_have_their_token_counts),
        WITH_FILES(test_stops_when_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
