/* replay.h: runs a fuzzer over its corpus, tests/fuzz/corpus/<name>/, as a unit test. Includes the fuzzer's name as CORPUS. */
#ifndef REPLAY_H
#define REPLAY_H

#include "fuzz.h"
#include "unit.h"

#include <dirent.h>
#include <string.h>

static void test_the_corpus_breaks_no_promise(void **state)
{
    static const char folder[] = "tests/fuzz/corpus/" CORPUS;
    int count = 0;
    (void)state;
    DIR *directory = opendir(folder);
    if (!directory) fail_msg("%s is not here: run from the top of the tree", folder);
    for (const struct dirent *item; (item = readdir(directory));) {
        char path[512];
        if (item->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        FILE *file = fopen(path, "rb");
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
        count++;
    }
    (void)closedir(directory);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_corpus_breaks_no_promise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
