#include "unit.h"

#include "kinds/hash.h"

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
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-4, "abc" */
}

static void test_equal_documents_hash_equally_whatever_their_order(void **state)
{
    struct error error;
    char first[HASH_TEXT], second[HASH_TEXT];
    json_t *a = json_loads("{\"x\": 1, \"y\": [1.5, null]}", 0, NULL), *b = json_loads("{\"y\":[1.5,null],\"x\":1}", 0, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_of_known_bytes),
        cmocka_unit_test(test_equal_documents_hash_equally_whatever_their_order),
        cmocka_unit_test(test_samples_see_changes_of_size_and_spread_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
