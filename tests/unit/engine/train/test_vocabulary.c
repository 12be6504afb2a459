/* A learned tokenizer: its words are those of each document. */
#include "engine/files/scratch.h"
#include "train/vocabulary.h"
#include "unit.h"

#include "base/memory.h"
#include "files/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static struct error error;

static int open_scratch(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    scratch_open(scratch);
    *state = scratch;
    return 0;
}

static int close_scratch(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

/* The tokenizer.json that is learned from a file, or from all files of the directory `name`. */
static char *learned(const struct scratch *scratch, enum dataset_format format, const char *name)
{
    char from[600], to[600], *text = NULL;
    size_t size = 0;
    (void)snprintf(from, sizeof from, "%s/%s", scratch->directory, name);
    (void)snprintf(to, sizeof to, "%s/learned.json", scratch->directory);
    const struct dataset_source source = {.format = format, .path = from};
    assert_int_equal(vocabulary_learn(&source, 300, to, NULL, &error), STATUS_OK);
    assert_int_equal(file_read_all(AT_FDCWD, to, 1 << 20, &text, &size, &error), STATUS_OK);
    return text;
}

static void has_token(const char *json, const char *token, bool wanted)
{
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", token);
    if ((strstr(json, quoted) != NULL) != wanted) fail_msg("token %s: %s", quoted, wanted ? "missing" : "is there");
}

static void put_lines(struct scratch *scratch, const char *name, const char *const *lines)
{
    char text[20000] = "";
    size_t at = 0;
    for (int i = 0; i < 400; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "{\"text\":\"%s\"}\n", lines[i % 2]);
    scratch_write(scratch, name, text, at);
}

static void test_words_do_not_reach_over_lines_of_jsonl(void **state)
{
    put_lines(*state, "same.jsonl", (const char *const[]){"the cat sat", "the cat sat"});
    char *json = learned(*state, DATASET_JSONL, "same.jsonl");
    has_token(json, "the", true);
    has_token(json,
              "\xC4\xA0"
              "cat",
              true);
    has_token(json,
              "\xC4\xA0"
              "sat",
              true);
    has_token(json, "satthe", false);
    memory_free(json);
    /* joined, they would be one word that is too long to count */
    put_lines(*state, "two.jsonl", (const char *const[]){"cat", "dog"});
    json = learned(*state, DATASET_JSONL, "two.jsonl");
    has_token(json, "cat", true);
    has_token(json, "dog", true);
    memory_free(json);
}

static void test_words_do_not_reach_over_files_of_a_directory(void **state)
{
    struct scratch *scratch = *state;
    char name[600];
    (void)snprintf(name, sizeof name, "%s/many", scratch->directory);
    assert_int_equal(mkdir(name, 0700), 0);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "many/%d.txt", i);
        scratch_write(scratch, name, i % 2 == 0 ? "cat" : "dog", 3);
    }
    char *json = learned(scratch, DATASET_TEXT, "many");
    has_token(json, "cat", true);
    has_token(json, "dog", true);
    memory_free(json);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "%s/many/%d.txt", scratch->directory, i);
        (void)unlink(name);
    }
    (void)snprintf(name, sizeof name, "%s/many", scratch->directory);
    (void)rmdir(name);
}

static void test_one_text_file_is_one_document(void **state)
{
    scratch_write(*state, "one.txt", "catdog catdog catdog", 20);
    char *json = learned(*state, DATASET_TEXT, "one.txt");
    has_token(json, "catdog", true);
    has_token(json,
              "\xC4\xA0"
              "catdog",
              true);
    memory_free(json);
}

static void note_line(void *owner, const char *line)
{
    (void)snprintf(owner, 200, "%s", line);
}

/* A word of 256 bytes, its space included, and one of 257: half of the text at most may be of such. */
static void test_a_text_of_long_words_alone_teaches_nothing(void **state)
{
    struct scratch *scratch = *state;
    char text[8000] = "", line[200], from[600], to[600];
    const struct monitor monitor = {.owner = line, .log = note_line};
    (void)snprintf(from, sizeof from, "%s/long.txt", scratch->directory);
    (void)snprintf(to, sizeof to, "%s/learned.json", scratch->directory);
    const struct dataset_source source = {.format = DATASET_TEXT, .path = from};
    for (int length = 255; length <= 256; length++)
        for (int words = 50; words <= 150; words += 100) {
            size_t at = 0;
            for (int i = 0; i < words; i++) at += (size_t)snprintf(text + at, sizeof text - at, "cat ");
            for (int i = 0; i < length; i++) text[at + (size_t)i] = "acgt"[i * i % 7 % 4];
            scratch_write(scratch, "long.txt", text, at + (size_t)length);
            line[0] = '\0';
            const enum status status = vocabulary_learn(&source, 300, to, &monitor, &error);
            assert_int_equal(status, length == 256 && words == 50 ? STATUS_INVALID : STATUS_OK);
            assert_int_equal(strstr(line, "more than 256 bytes") != NULL, length == 256 && words == 150);
            if (status != STATUS_OK) assert_non_null(strstr(error.detail, "56.4 % of the text"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words_do_not_reach_over_lines_of_jsonl, open_scratch, close_scratch),
        cmocka_unit_test_setup_teardown(test_words_do_not_reach_over_files_of_a_directory, open_scratch, close_scratch),
        cmocka_unit_test_setup_teardown(test_one_text_file_is_one_document, open_scratch, close_scratch),
        cmocka_unit_test_setup_teardown(test_a_text_of_long_words_alone_teaches_nothing, open_scratch, close_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
