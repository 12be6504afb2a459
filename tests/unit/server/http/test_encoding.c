#include "http/accept.h"
#include "http/encoding.h"
#include "http/request.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void test_etag_is_half_of_the_sha256(void **state)
{
    (void)state;
    char etag[ETAG_SIZE], whole[SHA256_TEXT_SIZE];
    struct error error;
    const struct hash_part parts[] = {{"a", 1}, {"", 0}, {"bc", 2}};
    /* FIPS 180-2, example of SHA-256: "abc" */
    assert_int_equal(encoding_sha256(parts, 3, NULL, whole, &error), STATUS_OK);
    assert_string_equal(whole, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(encoding_etag("abc", 3, etag, &error), STATUS_OK);
    assert_string_equal(etag, "ba7816bf8f01cfea414140de5dae2223");
}

static void test_if_none_match(void **state)
{
    (void)state;
    static const char *const matching[] = {"\"ab\"",      " * ", " \"x\" , \"ab\"",           "W/\"ab\"",
                                           "\"ab-gzip\"", "*",   "\"x-gzip\", W/\"ab-gzip\"", "\"*\", \"ab\""};
    static const char *const other[] = {"",   "ab",        "\"abc\"", "\"ab",     "\"a\"", "\"-gzip\"",
                                        "W/", "\"ab-br\"", "*ab",     "\"x\", *", "\"*\"", "*, \"x\""};
    for (size_t i = 0; i < sizeof matching / sizeof matching[0]; i++)
        assert_true(encoding_etag_matches(matching[i], "ab", true));
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_false(encoding_etag_matches(other[i], "ab", true));
    assert_false(encoding_etag_matches(NULL, "ab", true));
    assert_true(encoding_etag_matches("W/\"x\", \"ab\"", "ab", false)); /* If-Match takes no weak tag */
    assert_false(encoding_etag_matches("W/\"ab\"", "ab", false));
}

static void test_gzip_unpacks_to_the_same(void **state)
{
    (void)state;
    enum { LENGTH = 5000 };
    static char text[LENGTH], back[LENGTH];
    char *packed;
    size_t packed_length;
    struct error error;
    for (int i = 0; i < LENGTH; i++) text[i] = (char)('a' + i % 7);
    assert_int_equal(encoding_gzip(text, LENGTH, 5, &packed, &packed_length, &error), STATUS_OK);
    assert_non_null(packed);
    assert_true(packed_length < LENGTH / 4);
    z_stream stream = {
        .next_in = (Bytef *)packed, .avail_in = (uInt)packed_length, .next_out = (Bytef *)back, .avail_out = LENGTH};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(inflateEnd(&stream), Z_OK);
    assert_memory_equal(text, back, LENGTH);
    free(packed);
}

static void test_gzip_gives_up_when_it_would_grow(void **state)
{
    (void)state;
    char *packed;
    size_t packed_length;
    struct error error;
    assert_int_equal(encoding_gzip("abcdefgh", 8, 5, &packed, &packed_length, &error), STATUS_OK);
    assert_null(packed);
    assert_int_equal(encoding_gzip("", 0, 5, &packed, &packed_length, &error), STATUS_OK);
    assert_null(packed);
}

static void test_coding_qualities(void **state)
{
    (void)state;
    assert_int_equal(accept_coding_quality("gzip", "gzip"), 1000);
    assert_int_equal(accept_coding_quality("br, GZIP ; q=0.25", "gzip"), 250);
    assert_int_equal(accept_coding_quality("gzip;q=0, *", "gzip"), 0);
    assert_int_equal(accept_coding_quality("*;q=0.1", "gzip"), 100);
    assert_int_equal(accept_coding_quality("xgzip, gzipx", "gzip"), 0);
    assert_int_equal(accept_coding_quality("", "gzip"), 0);
    assert_int_equal(accept_coding_quality(NULL, "gzip"), 0);
}

static void test_media_type_preference(void **state)
{
    (void)state;
    static const char *const types[] = {"application/json", "text/csv", NULL};
    static const struct {
        const char *accept;
        int expected;
    } rows[] = {
        {NULL, 0},
        {"*/*", 0},
        {"text/csv", 1},
        {"text/*;q=0.9, application/*;q=0.1", 1},
        {"text/csv;q=0.5, */*;q=0.4", 1},
        {"application/json, text/csv", 0},
        {"text/html", -1},
        {"application/json;q=0, */*", 1},
        {"*/*;q=0", -1},
        {"", 0}, /* as good as none */
        {" ,", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct request request = {.method = "GET"};
        if (rows[i].accept != NULL)
            request.headers[request.header_count++] = (struct name_value){"accept", rows[i].accept};
        assert_int_equal(request_prefer(&request, types), rows[i].expected);
    }
}

/* RFC 9110, 5.3. Other headers stay apart: a second Host is refused. */
static void test_lines_of_a_list_are_one(void **state)
{
    (void)state;
    static const char *const types[] = {"application/json", "text/csv", NULL};
    struct request request = {.method = "GET"};
    assert_true(request_add_header(&request, "Accept", "text/html"));
    assert_int_equal(request_prefer(&request, types), -1);
    assert_true(request_add_header(&request, "Host", "one"));
    assert_true(request_add_header(&request, "accept", "text/csv;q=0.5"));
    assert_true(request_add_header(&request, "Host", "two"));
    assert_int_equal(request_prefer(&request, types), 1);
    assert_true(request_add_header(&request, "ACCEPT", "application/json"));
    assert_int_equal(request_prefer(&request, types), 0);
    assert_string_equal(request_header(&request, "Accept"), "text/html, text/csv;q=0.5, application/json");
    assert_int_equal(request.header_count, 3);
    while (request.header_count < REQUEST_HEADERS_MAX) assert_true(request_add_header(&request, "X", ""));
    assert_false(request_add_header(&request, "X", ""));
    assert_true(request_add_header(&request, "Accept", "*/*"));
    request_reset(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_etag_is_half_of_the_sha256), cmocka_unit_test(test_if_none_match),
        cmocka_unit_test(test_gzip_unpacks_to_the_same),   cmocka_unit_test(test_gzip_gives_up_when_it_would_grow),
        cmocka_unit_test(test_coding_qualities),           cmocka_unit_test(test_media_type_preference),
        cmocka_unit_test(test_lines_of_a_list_are_one),
    };
    return cmocka_run_group_tests_name("encoding", tests, NULL, NULL);
}
