/* One tokenizer over a text that comes by and by, and from several threads: the ids are those of the whole text. */
#include "engine/tokenizer/tokenizers.h"
#include "unit.h"

#include "tokenizer/tokenizer_stream.h"

#include <pthread.h>
#include <stdlib.h>

/* A long text of all kinds of borders, or of one word again and again. */
static char *long_text(size_t *size, const char *only)
{
    const char *words[] = {"ab", " ab", "  ", "a", " b12", "\n", "^^^", " a\xc3\xa9", "<s>", "ab<s> a", " ", "12 "};
    uint64_t state = 1;
    char *text = malloc(3 << 20);
    assert_non_null(text);
    for (*size = 0; *size < (3 << 20) - 16;) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const char *word = only != NULL ? only : words[(state >> 33) % (sizeof words / sizeof *words)];
        memcpy(text + *size, word, strlen(word));
        *size += strlen(word);
    }
    return text;
}

/* The ids of the whole text, of the text in a stream, and (by short calls at another granularity) of its parts must
 * agree. */
static void check_stream(const char *json, const char *only)
{
    struct error error;
    size_t size;
    char *text = long_text(&size, only);
    struct tokenizer *tokenizer = tokenizers_open(json);
    struct tokenizer_stream *stream;
    struct token_list whole = {0}, streamed = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, size, false, &whole, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_open(tokenizer, &stream, &error), STATUS_OK);
    for (size_t at = 0, chunk; at < size; at += chunk) {
        chunk = size - at < 77777 ? size - at : 77777;
        assert_int_equal(tokenizer_stream_feed(stream, text + at, chunk, &streamed, &error), STATUS_OK);
    }
    assert_int_equal(tokenizer_stream_end(stream, &streamed, &error), STATUS_OK);
    assert_int_equal(streamed.count, whole.count);
    assert_memory_equal(streamed.ids, whole.ids, (size_t)whole.count * sizeof *whole.ids);
    tokenizer_stream_close(stream);
    tokenizer_list_free(&whole);
    tokenizer_list_free(&streamed);
    tokenizer_close(tokenizer);
    free(text);
}

static void test_a_stream_gives_the_ids_of_the_whole_text(void **state)
{
    char json[8192];
    (void)state;
    check_stream(tokenizers_json(json, sizeof json, NULL, NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL, TOKENIZERS_LETTERS),
                 NULL);
    check_stream(tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(1, "<s>"), TOKENIZERS_DUMMY_PREFIX, NULL,
                                 TOKENIZERS_BOS, TOKENIZERS_UNFUSE, TOKENIZERS_BYTE_FALLBACK),
                 NULL);
    /* a token over the border between a letter and a space: no cuts */
    check_stream(tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(30, "b ab"), NULL, TOKENIZERS_BYTE_LEVEL, NULL,
                                 NULL, TOKENIZERS_LETTERS),
                 "b ab");
    /* merges over it, and no pre-tokenizer */
    check_stream(
        tokenizers_json(
            json, sizeof json, NULL, NULL, NULL, NULL, NULL,
            "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2,\"b \":3,\"b a\":4},\"merges\":[[\"b\",\" \"],"
            "[\"b \",\"a\"]]}"),
        "ab ");
}

static void test_a_stream_refuses_half_a_character_at_the_end_only(void **state)
{
    struct error error;
    struct tokenizer *tokenizer;
    struct tokenizer_stream *stream;
    struct token_list list = {0};
    (void)state;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_open(tokenizer, &stream, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_feed(stream, "a\xc3", 2, &list, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_feed(stream, "\xa9", 1, &list, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_end(stream, &list, &error), STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(tokenizer_stream_feed(stream, "ab\xc3", 3, &list, &error), STATUS_OK);
    assert_int_equal(tokenizer_stream_end(stream, &list, &error), STATUS_MALFORMED);
    assert_non_null(strstr(error.detail, "byte 2"));
    tokenizer_list_free(&list);
    tokenizer_stream_close(stream);
    tokenizer_close(tokenizer);
}

struct shared_work {
    const struct tokenizer *tokenizer;
    const char *text;
    size_t size;
    int64_t count;
};

static void *encode_often(void *context)
{
    struct shared_work *work = context;
    for (int i = 0; i < 50; i++) {
        struct error error;
        struct token_list list = {0};
        if (tokenizer_encode(work->tokenizer, work->text, work->size, false, &list, &error) != STATUS_OK) return NULL;
        work->count += list.count;
        tokenizer_list_free(&list);
    }
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state)
{
    char json[8192];
    pthread_t threads[4];
    struct shared_work work[4];
    static const char text[] = "ab ab 12 ^^^^ a  b ab";
    (void)state;
    struct tokenizer *tokenizer = tokenizers_open(
        tokenizers_json(json, sizeof json, NULL, NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL, TOKENIZERS_LETTERS));
    for (int i = 0; i < 4; i++) {
        work[i] = (struct shared_work){.tokenizer = tokenizer, .text = text, .size = sizeof text - 1};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &work[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(work[i].count > 0 && work[i].count == work[0].count);
    }
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_gives_the_ids_of_the_whole_text),
        cmocka_unit_test(test_a_stream_refuses_half_a_character_at_the_end_only),
        cmocka_unit_test(test_threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
