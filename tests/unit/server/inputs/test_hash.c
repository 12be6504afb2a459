#include "unit.h"

#include "inputs/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_sha256_of_known_bytes(void **state)
{
    struct hash *hash;
    struct error error;
    char text[HASH_TEXT];
    (void)state;
    assert_int_equal(hash_new(&hash, &error), STATUS_OK);
    hash_add(hash, "a", 1);
    hash_add(hash, "bc", 2);
    assert_int_equal(hash_finish(hash, text, &error), STATUS_OK);
    assert_string_equal(text,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-4, "abc" */
}

static void test_equal_documents_hash_equally_whatever_their_order(void **state)
{
    struct error error;
    char first[HASH_TEXT], second[HASH_TEXT];
    json_t *a = json_loads("{\"x\": 1, \"y\": [1.5, null]}", 0, NULL),
           *b = json_loads("{\"y\":[1.5,null],\"x\":1}", 0, NULL);
    (void)state;
    assert_int_equal(hash_json(a, first, &error) | hash_json(b, second, &error), STATUS_OK);
    assert_string_equal(first, second);
    assert_int_equal(json_object_set_new(b, "x", json_integer(2)), 0);
    assert_int_equal(hash_json(b, second, &error), STATUS_OK);
    assert_string_not_equal(first, second);
    json_decref(a);
    json_decref(b);
}

static void hash_of(const char *path, bool sample, char out[HASH_TEXT])
{
    struct hash *hash;
    struct error error;
    assert_int_equal(hash_new(&hash, &error), STATUS_OK);
    assert_int_equal(sample ? hash_add_sample(hash, path, &error) : hash_add_file(hash, path, &error), STATUS_OK);
    assert_int_equal(hash_finish(hash, out, &error), STATUS_OK);
}

static void test_samples_see_changes_of_size_and_spread_content(void **state)
{
    char path[] = "/tmp/deltaq-hash-XXXXXX", before[HASH_TEXT], after[HASH_TEXT];
    const int file = mkstemp(path);
    char *bytes = calloc(1, 4 << 20);
    (void)state;
    assert_true(file >= 0 && bytes != NULL);
    for (int sample = 0; sample < 2; sample++) {
        memset(bytes, 1, 4 << 20);
        assert_int_equal(pwrite(file, bytes, 4 << 20, 0), 4 << 20);
        hash_of(path, sample, before);
        memset(bytes, 2, 4 << 20);
        assert_int_equal(pwrite(file, bytes, 4 << 20, 0), 4 << 20);
        hash_of(path, sample, after);
        assert_string_not_equal(before, after);
        assert_int_equal(ftruncate(file, (4 << 20) - 1), 0);
        hash_of(path, sample, before);
        assert_string_not_equal(before, after);
        assert_int_equal(ftruncate(file, 0), 0);
    }
    free(bytes);
    (void)close(file);
    (void)unlink(path);
}

/* 64 chunks of 16 KiB, at equal distances up to the end. */
static void test_samples_are_spread_to_the_end(void **state)
{
    enum { SIZE = 4 << 20, DISTANCE = SIZE / 64 };
    char path[] = "/tmp/deltaq-hash-XXXXXX", before[HASH_TEXT], after[HASH_TEXT];
    const int file = mkstemp(path);
    (void)state;
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, SIZE), 0);
    hash_of(path, true, before);
    for (int i = 0; i < 64; i += 9) { /* the last byte of a chunk is seen, the one behind it is not */
        assert_int_equal(pwrite(file, "x", 1, i * DISTANCE + (16 << 10)), 1);
        hash_of(path, true, after);
        assert_string_equal(before, after);
        assert_int_equal(pwrite(file, "x", 1, i * DISTANCE + (16 << 10) - 1), 1);
        hash_of(path, true, after);
        assert_string_not_equal(before, after);
        memcpy(before, after, sizeof before);
    }
    (void)close(file);
    (void)unlink(path);
}

/* Where one file ends and the next begins is part of a hash. */
static void test_files_do_not_run_into_each_other(void **state)
{
    char paths[2][40] = {"/tmp/deltaq-hash-XXXXXX", "/tmp/deltaq-hash-XXXXXX"}, texts[2][HASH_TEXT];
    const int files[] = {mkstemp(paths[0]), mkstemp(paths[1])};
    (void)state;
    for (int cut = 1; cut <= 2; cut++) {
        struct hash *hash;
        struct error error;
        assert_int_equal(hash_new(&hash, &error), STATUS_OK);
        for (int i = 0; i < 2; i++) {
            const size_t size = i == 0 ? (size_t)cut : 3 - (size_t)cut;
            assert_int_equal(ftruncate(files[i], 0), 0);
            assert_int_equal(pwrite(files[i], "abc" + (i == 0 ? 0 : cut), size, 0), size);
            assert_int_equal(hash_add_file(hash, paths[i], &error), STATUS_OK);
        }
        assert_int_equal(hash_finish(hash, texts[cut - 1], &error), STATUS_OK);
    }
    assert_string_not_equal(texts[0], texts[1]);
    for (int i = 0; i < 2; i++) {
        (void)close(files[i]);
        (void)unlink(paths[i]);
    }
}

/* What a run that hashes tells, and after how many questions it is stopped. */
struct listener {
    int64_t done, total;
    int questions, patience;
};

static void hear(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct listener *listener = owner;
    assert_string_equal(unit, "byte");
    assert_true(done > listener->done);
    listener->done = done;
    listener->total = total;
}

static enum status ask_on(void *owner, struct error *error)
{
    struct listener *listener = owner;
    return listener->questions++ < listener->patience ? STATUS_OK : error_set(error, STATUS_CANCELLED, "enough");
}

/* 64 GiB would take minutes: it is told of, and stopped, within a few mebibytes. */
static void test_hashing_is_told_of_and_can_be_stopped(void **state)
{
    char path[] = "/tmp/deltaq-hash-XXXXXX";
    const int file = mkstemp(path);
    struct listener listener = {.patience = 3};
    const struct monitor monitor = {.owner = &listener, .progress = hear, .check = ask_on};
    const int64_t size = INT64_C(64) << 30;
    struct hash *hash;
    struct error error;
    (void)state;
    assert_int_equal(ftruncate(file, size), 0);
    assert_int_equal(hash_new(&hash, &error), STATUS_OK);
    hash_watch(hash, &monitor, size);
    assert_int_equal(hash_add_file(hash, path, &error), STATUS_CANCELLED);
    assert_true(listener.done == INT64_C(4) << 20 && listener.total == size);
    assert_int_equal(hash_add_small_file(hash, path, 1 << 20, &error), STATUS_TOO_LARGE);
    hash_free(hash);
    (void)close(file);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_of_known_bytes),
        cmocka_unit_test(test_equal_documents_hash_equally_whatever_their_order),
        cmocka_unit_test(test_samples_see_changes_of_size_and_spread_content),
        cmocka_unit_test(test_samples_are_spread_to_the_end),
        cmocka_unit_test(test_files_do_not_run_into_each_other),
        cmocka_unit_test(test_hashing_is_told_of_and_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
