/* replay.h: runs a fuzzer over its corpus, tests/fuzz/corpus/<name>/, and over changes of it, as unit tests. Includes
 * the fuzzer's name as CORPUS. DELTAQ_FUZZ_SEED and DELTAQ_FUZZ_COUNT ask for other changes and for more of them. */
#ifndef REPLAY_H
#define REPLAY_H

#include "fuzz.h"
#include "mutate.h"
#include "unit.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPLAY_COUNT = 10000, REPLAY_KEPT = 4096 };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths of the corpus, in the same order everywhere. */
static int list_corpus(char *paths[REPLAY_KEPT])
{
    static const char folder[] = "tests/fuzz/corpus/" CORPUS;
    int count = 0;
    DIR *directory = opendir(folder);
    if (directory == NULL) fail_msg("%s is not here: run from the top of the tree", folder);
    for (const struct dirent *item; (item = readdir(directory)) != NULL && count < REPLAY_KEPT;) {
        if (item->d_name[0] == '.') continue;
        assert_true(asprintf(&paths[count++], "%s/%s", folder, item->d_name) > 0);
    }
    (void)closedir(directory);
    assert_true(count > 0 && count < REPLAY_KEPT);
    qsort(paths, (size_t)count, sizeof *paths, by_name);
    return count;
}

static void test_the_corpus_breaks_no_promise(void **state)
{
    char *paths[REPLAY_KEPT];
    const int count = list_corpus(paths);
    (void)state;
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        const long size = ftell(file);
        rewind(file);
        uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1); /* exactly the input: a read beyond it shows under ASan */
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
        (void)fclose(file);
        assert_int_equal(LLVMFuzzerTestOneInput(bytes, (size_t)size), 0);
        free(bytes);
        free(paths[i]);
    }
}

/* What the child works on, for the parent to see when the child is dead. */
struct trial {
    uint64_t seed, index;
    struct mutate_input input;
};

static void read_input(const char *path, struct mutate_input *out)
{
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL);
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    (void)fclose(file);
}

static void try_changes(struct trial *trial, uint64_t count, const struct mutate_input *corpus, size_t inputs)
{
    for (; trial->index < count; trial->index++) {
        struct mutate_dice dice = {.seed = trial->seed, .stream = trial->index};
        trial->input = corpus[mutate_below(&dice, inputs)];
        for (size_t left = 1 + mutate_below(&dice, MUTATE_MOST); left > 0; left--)
            mutate_once(&trial->input, &corpus[mutate_below(&dice, inputs)], &dice);
        uint8_t *bytes = malloc(trial->input.size > 0 ? trial->input.size : 1);
        fuzz_require(bytes != NULL);
        memcpy(bytes, trial->input.bytes, trial->input.size);
        fuzz_require(LLVMFuzzerTestOneInput(bytes, trial->input.size) == 0);
        free(bytes);
    }
}

static uint64_t asked_for(const char *variable, uint64_t otherwise)
{
    const char *given = getenv(variable);
    return given != NULL ? strtoull(given, NULL, 10) : otherwise;
}

/* Leaves the input that was worked on where it can be looked at, and given to the fuzzer again. */
static void report(const struct trial *trial, int status)
{
    char path[64] = "failed-" CORPUS ".fuzz";
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        (void)fwrite(trial->input.bytes, 1, trial->input.size, file);
        (void)fclose(file);
    }
    fail_msg("seed %llu, change %llu of the corpus: status 0x%x; the input (%zu bytes) is in %s",
             (unsigned long long)trial->seed, (unsigned long long)trial->index, (unsigned)status, trial->input.size,
             file != NULL ? path : "no file: the directory is not writable");
}

static void test_changes_of_the_corpus_break_no_promise(void **state)
{
    char *paths[REPLAY_KEPT];
    int status = 0;
    const int inputs = list_corpus(paths);
    (void)state;
    struct trial *trial = mmap(NULL, sizeof *trial, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct mutate_input *corpus = calloc((size_t)inputs, sizeof *corpus);
    assert_true(trial != MAP_FAILED && corpus != NULL);
    for (int i = 0; i < inputs; i++) {
        read_input(paths[i], &corpus[i]);
        free(paths[i]);
    }
    trial->seed = asked_for("DELTAQ_FUZZ_SEED", 1);
    (void)fflush(NULL);
    const pid_t child = fork(); /* it may die in any way */
    assert_true(child >= 0);
    if (child == 0) {
        try_changes(trial, asked_for("DELTAQ_FUZZ_COUNT", REPLAY_COUNT), corpus, (size_t)inputs);
        exit(0); /* and not _exit: leaks are looked for */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    free(corpus);
    if (status != 0) report(trial, status);
    (void)munmap(trial, sizeof *trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_corpus_breaks_no_promise),
        cmocka_unit_test(test_changes_of_the_corpus_break_no_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
