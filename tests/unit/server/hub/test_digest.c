#include "unit.h"

#include "hub/digest.h"
#include "transfer/escape.h"

#include <stdlib.h>
#include <string.h>

/* Whether `text` is what `expected` says, added in chunks of `chunk` bytes. */
static bool matches(const char *expected, const char *text, size_t chunk)
{
    struct error error;
    struct digest *digest = NULL;
    bool right = false;
    const size_t length = strlen(text);
    assert_int_equal(digest_new(expected, (int64_t)length, &digest, &error), STATUS_OK);
    assert_int_equal(digest_add(digest, "what is forgotten", 17, &error), STATUS_OK);
    assert_int_equal(digest_restart(digest, &error), STATUS_OK);
    for (size_t at = 0; at < length; at += chunk)
        assert_int_equal(digest_add(digest, text + at, length - at < chunk ? length - at : chunk, &error), STATUS_OK);
    assert_int_equal(digest_matches(digest, &right, &error), STATUS_OK);
    digest_free(digest);
    return right;
}

/* FIPS 180-4, RFC 1321, git hash-object, the catalogue of parametrised CRC algorithms (CRC-64/NVME). */
static void test_published_values(void **state)
{
    (void)state;
    static const struct {
        const char *expected, *text;
    } rows[] = {
        {"sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "abc"},
        {"md5-900150983cd24fb0d6963f7d28e17f72", "abc"},
        {"git-f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f", "abc"},
        {"crc64nvme-ae8b14860a799888", "123456789"},
        {"crc64nvme-0000000000000000", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t chunk = 1; chunk <= 9; chunk++) {
            assert_true(matches(rows[i].expected, rows[i].text, chunk));
            assert_false(matches(rows[i].expected, "123456780", chunk));
        }
    assert_true(matches("", "anything", 3));
}

static void test_an_unknown_name_is_refused(void **state)
{
    (void)state;
    struct error error;
    struct digest *digest = NULL;
    static const char *const wrong[] = {"sha-00", "sha2567-00", "x", "crc64-00"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(digest_new(wrong[i], 1, &digest, &error), STATUS_INTERNAL);
}

static void test_escapes_are_undone(void **state)
{
    (void)state;
    char text[] = "a+b%20c%2Bd%25e%zz%4", whole[] = "%C3%A9";
    escape_undo(text);
    assert_string_equal(text, "a b c+d%e%zz%4");
    escape_undo(whole);
    assert_string_equal(whole, "\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_values),
        cmocka_unit_test(test_an_unknown_name_is_refused),
        cmocka_unit_test(test_escapes_are_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
