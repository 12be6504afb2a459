#include "http/lint.h"
#include "unit.h"

#include <string.h>

static struct request request_with(const struct name_value *headers, size_t count)
{
    struct request request = {.method = "GET"};
    memcpy(request.headers, headers, count * sizeof headers[0]);
    request.header_count = count;
    return request;
}

static enum problem_id head_of(const char *method, const char *target, const struct name_value *headers, size_t count,
                               struct lint_body *body)
{
    struct error error;
    const struct request request = request_with(headers, count);
    return lint_head(&request, method, target, "HTTP/1.1", body, &error);
}

static void test_plain_request_passes(void **state)
{
    (void)state;
    struct lint_body body;
    const struct name_value headers[] = {{"Host", "a:1"}, {"X-Tab", "a\tb"}, {"X-High", "\xc3\xa9"}};
    assert_int_equal(head_of("GET", "/v1/runs?a=%20", headers, 3, &body), PROBLEM_NONE);
    assert_false(body.present);
}

static void test_body_length_is_read(void **state)
{
    (void)state;
    struct lint_body body;
    const struct name_value length[] = {{"Host", "a"}, {"content-length", "00042"}};
    assert_int_equal(head_of("POST", "/", length, 2, &body), PROBLEM_NONE);
    assert_true(body.present && !body.chunked && body.length == 42);
    const struct name_value zero[] = {{"Host", "a"}, {"Content-Length", "0"}};
    assert_int_equal(head_of("POST", "/", zero, 2, &body), PROBLEM_NONE);
    assert_false(body.present);
    const struct name_value chunked[] = {{"Host", "a"}, {"Transfer-Encoding", "Chunked"}};
    assert_int_equal(head_of("POST", "/", chunked, 2, &body), PROBLEM_NONE);
    assert_true(body.present && body.chunked);
}

static void test_bad_heads_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *method, *target;
        struct name_value headers[3];
        enum problem_id expected;
    } rows[] = {
        {"GET", "/", {{"X", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"host", "a"}}, PROBLEM_BAD_REQUEST},
        {"TRACE", "/", {{"Host", "a"}}, PROBLEM_METHOD_UNKNOWN},
        {"CONNECT", "/", {{"Host", "a"}}, PROBLEM_METHOD_UNKNOWN},
        {"get", "/", {{"Host", "a"}}, PROBLEM_METHOD_UNKNOWN},
        {"", "/", {{"Host", "a"}}, PROBLEM_METHOD_UNKNOWN},
        {"GET", "", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "*", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "http://a/", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/a b", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/a#b", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/\x80", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/\x7f", {{"Host", "a"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"X-A ", "b"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"", "b"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"X-\xc3\xa9", "b"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"X-A", "a\rb"}}, PROBLEM_BAD_REQUEST},
        {"GET", "/", {{"Host", "a"}, {"X-A", "a\x1f"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", "1"}, {"Content-Length", "1"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", "1"}, {"Transfer-Encoding", "chunked"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", "+1"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", "1 "}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", ""}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Content-Length", "9999999999999999999"}}, PROBLEM_BODY_TOO_LARGE},
        {"POST", "/", {{"Host", "a"}, {"Transfer-Encoding", "gzip"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Expect", "tea"}}, PROBLEM_EXPECTATION},
        {"POST", "/", {{"Host", "a"}, {"Idempotency-Key", "a b"}}, PROBLEM_BAD_REQUEST},
        {"POST", "/", {{"Host", "a"}, {"Idempotency-Key", ""}}, PROBLEM_BAD_REQUEST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lint_body body;
        size_t count = 0;
        while (count < 3 && rows[i].headers[count].name != NULL) count++;
        const enum problem_id found = head_of(rows[i].method, rows[i].target, rows[i].headers, count, &body);
        if (found != rows[i].expected) print_message("row %zu: %s %s\n", i, rows[i].method, rows[i].target);
        assert_int_equal(found, rows[i].expected);
    }
}

static void test_chunked_needs_1_1(void **state)
{
    (void)state;
    struct error error;
    struct lint_body body;
    const struct name_value headers[] = {{"Host", "a"}, {"Transfer-Encoding", "chunked"}};
    const struct request request = request_with(headers, 2);
    assert_int_equal(lint_head(&request, "POST", "/", "HTTP/1.0", &body, &error), PROBLEM_BAD_REQUEST);
    assert_int_equal(lint_head(&request, "POST", "/", "HTTP/1.2", &body, &error), PROBLEM_BAD_REQUEST);
}

static void test_host_must_be_on_the_list(void **state)
{
    (void)state;
    struct error error;
    char first[] = "localhost:80", second[] = "[::1]:80";
    char *const hosts[] = {first, second, NULL};
    static const struct {
        const char *host, *own;
        enum problem_id expected;
    } rows[] = {
        {"localhost:80", NULL, PROBLEM_NONE},
        {"LocalHost:80", NULL, PROBLEM_NONE},
        {"[::1]:80", NULL, PROBLEM_NONE},
        {"localhost", NULL, PROBLEM_MISDIRECTED},
        {"localhost:8", NULL, PROBLEM_MISDIRECTED},
        {"evil:80", NULL, PROBLEM_MISDIRECTED},
        {"", NULL, PROBLEM_MISDIRECTED},
        {"192.0.2.1:80", "192.0.2.1:80", PROBLEM_NONE},
        {"192.0.2.2:80", "192.0.2.1:80", PROBLEM_MISDIRECTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct name_value header = {"Host", rows[i].host};
        const struct request request = request_with(&header, 1);
        assert_int_equal(lint_host(&request, hosts, rows[i].own, &error), rows[i].expected);
    }
}

static void test_other_sites_may_read_the_refusal_only(void **state)
{
    (void)state;
    struct error error;
    static const struct {
        const char *method;
        struct name_value header;
        enum problem_id expected;
    } rows[] = {
        {"GET", {"Origin", "http://evil"}, PROBLEM_NONE},
        {"POST", {"Origin", "http://evil"}, PROBLEM_CROSS_SITE},
        {"POST", {"Origin", "null"}, PROBLEM_CROSS_SITE},
        {"POST", {"Origin", "http://a:1"}, PROBLEM_NONE},
        {"POST", {"Origin", "https://a:1"}, PROBLEM_NONE},
        {"POST", {"Origin", "a:1"}, PROBLEM_CROSS_SITE},
        {"DELETE", {"Sec-Fetch-Site", "cross-site"}, PROBLEM_CROSS_SITE},
        {"PATCH", {"Sec-Fetch-Site", "same-site"}, PROBLEM_CROSS_SITE},
        {"POST", {"Sec-Fetch-Site", "same-origin"}, PROBLEM_NONE},
        {"PUT", {"Sec-Fetch-Site", "none"}, PROBLEM_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct name_value headers[] = {{"Host", "a:1"}, rows[i].header};
        const struct request request = request_with(headers, 2);
        assert_int_equal(lint_origin(&request, rows[i].method, &error), rows[i].expected);
        const bool reads = strcmp(rows[i].method, "GET") == 0; /* another page's may be answered, but is known as one */
        assert_int_equal(lint_other_page(&request), reads || rows[i].expected == PROBLEM_CROSS_SITE);
    }
}

static void test_body_must_be_json(void **state)
{
    (void)state;
    struct error error;
    static const struct {
        const char *type;
        enum problem_id expected;
    } rows[] = {
        {"application/json", PROBLEM_NONE},
        {"Application/JSON ; charset=UTF-8", PROBLEM_NONE},
        {"application/merge-patch+json", PROBLEM_NONE},
        {"application/json;charset=latin-1", PROBLEM_MEDIA_TYPE},
        {"application/jsonl", PROBLEM_MEDIA_TYPE},
        {"text/plain", PROBLEM_MEDIA_TYPE},
        {"", PROBLEM_MEDIA_TYPE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct name_value header = {"Content-Type", rows[i].type};
        const struct request request = request_with(&header, 1);
        assert_int_equal(lint_media_type(&request, &error), rows[i].expected);
    }
    const struct request none = {.method = "POST"};
    assert_int_equal(lint_media_type(&none, &error), PROBLEM_MEDIA_TYPE);
    const struct name_value packed[] = {{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}};
    const struct request request = request_with(packed, 2);
    assert_int_equal(lint_media_type(&request, &error), PROBLEM_MEDIA_TYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_request_passes),     cmocka_unit_test(test_body_length_is_read),
        cmocka_unit_test(test_bad_heads_are_refused),    cmocka_unit_test(test_chunked_needs_1_1),
        cmocka_unit_test(test_host_must_be_on_the_list), cmocka_unit_test(test_other_sites_may_read_the_refusal_only),
        cmocka_unit_test(test_body_must_be_json),
    };
    return cmocka_run_group_tests_name("lint", tests, NULL, NULL);
}
