/* Learning a byte-level vocabulary. */
#include "engine/files/scratch.h"
#include "engine/tokenizer/tokenizers.h"
#include "unit.h"

#include "files/file.h"
#include "tokenizer/tokenizer_train.h"

static enum status train(const char *text, int64_t size, const char *path, struct error *error)
{
    struct tokenizer_trainer *trainer;
    assert_int_equal(tokenizer_train_new(&trainer, error), STATUS_OK);
    enum status status = tokenizer_train_add(trainer, text, strlen(text), error);
    if (status == STATUS_OK) status = tokenizer_train_write(trainer, size, path, error);
    tokenizer_train_free(trainer);
    return status;
}

static struct tokenizer *train_and_open(struct scratch *scratch, const char *text, int64_t size)
{
    struct error error = {0};
    struct tokenizer *tokenizer = NULL;
    if (train(text, size, scratch_path(scratch, "tokenizer.json"), &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (tokenizer_open(scratch->path, &tokenizer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return tokenizer;
}

static void test_merges_the_most_frequent_pair_first(void **state)
{
    struct scratch scratch;
    (void)state;
    scratch_open(&scratch);
    /* words: "low" 1, " low" 4, " lower" 2: "lo" 7 and "ow" 7 tie, the pair with the smaller ids wins */
    struct tokenizer *tokenizer = train_and_open(&scratch, "low low low low low lower lower", 260);
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 260);
    assert_int_equal(tokenizer_find(tokenizer, "lo"), 257);
    assert_int_equal(tokenizer_find(tokenizer, "low"), 258);
    assert_int_equal(tokenizer_find(tokenizer, "\xc4\xa0low"), 259);
    assert_int_equal(tokenizer_eos(tokenizer), 0);
    EXPECT_IDS(tokenizer, "low low<|endoftext|>", true, 258, 259, 0);
    tokenizer_close(tokenizer);
    scratch_close(&scratch);
}

static void test_stops_where_no_pair_comes_twice(void **state)
{
    struct scratch scratch;
    (void)state;
    scratch_open(&scratch);
    struct tokenizer *tokenizer = train_and_open(&scratch, "abc", 1000);
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 257);
    tokenizer_close(tokenizer);
    tokenizer = train_and_open(&scratch, "", 300);
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 257);
    tokenizer_close(tokenizer);
    scratch_close(&scratch);
}

static void test_runs_of_one_letter_merge_as_encoding_does(void **state)
{
    struct scratch scratch;
    (void)state;
    scratch_open(&scratch);
    struct tokenizer *tokenizer = train_and_open(&scratch, "aaaaa aaaaa \"\\\" \"\\\"", 265);
    EXPECT_IDS(tokenizer, "aaaaa", false, (uint32_t)tokenizer_find(tokenizer, "aaaaa"));
    assert_true(tokenizer_find(tokenizer, "aaa") > 0);  /* "aa" + "a" ties with "aa" + "aa": smaller ids first */
    assert_true(tokenizer_find(tokenizer, "\\\"") > 0); /* quotes and backslashes survive the file */
    tokenizer_close(tokenizer);
    scratch_close(&scratch);
}

static void test_the_same_text_gives_the_same_file(void **state)
{
    struct scratch scratch;
    struct error error;
    char text[4096], *files[2];
    size_t sizes[2];
    (void)state;
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = "abcde fgh\n"[(i * i / 7 + i) % 10];
    text[sizeof text - 1] = '\0';
    scratch_open(&scratch);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(train(text, 400, scratch_path(&scratch, "tokenizer.json"), &error), STATUS_OK);
        assert_int_equal(file_read_all(AT_FDCWD, scratch.path, 1 << 24, &files[i], &sizes[i], &error), STATUS_OK);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(files[0], files[1], sizes[0]);
    memory_free(files[0]);
    memory_free(files[1]);
    scratch_close(&scratch);
}

static void test_refuses_sizes_and_text_it_cannot_use(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(train("ab", 256, scratch_path(&scratch, "t"), &error), STATUS_INVALID);
    assert_int_equal(train("ab", 1 << 21, scratch_path(&scratch, "t"), &error), STATUS_INVALID);
    assert_int_equal(train("ab\xff", 300, scratch_path(&scratch, "t"), &error), STATUS_MALFORMED);
    assert_int_equal(train("ab", 300, scratch_path(&scratch, "no/t"), &error), STATUS_NOT_FOUND);
    assert_int_equal(scratch_entries(&scratch, 0), 0);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_the_most_frequent_pair_first),
        cmocka_unit_test(test_stops_where_no_pair_comes_twice),
        cmocka_unit_test(test_runs_of_one_letter_merge_as_encoding_does),
        cmocka_unit_test(test_the_same_text_gives_the_same_file),
        cmocka_unit_test(test_refuses_sizes_and_text_it_cannot_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
