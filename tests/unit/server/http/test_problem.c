#include "base/buffer.h"
#include "http/problem.h"
#include "http/response.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static json_t *render(const struct problem *problem, const struct error *error, json_t *errors)
{
    char *text = problem_render(problem, error, errors, "/v1/runs", "0123");
    assert_non_null(text);
    json_t *document = json_loads(text, 0, NULL);
    assert_non_null(document);
    free(text);
    return document;
}

static void test_document_of_a_status(void **state)
{
    (void)state;
    struct error error;
    const struct problem problem = problem_of_status(STATUS_INVALID);
    (void)error_set_at(&error, STATUS_INVALID, "/params/method/bits", "expected 2, 3, 4 or 8, found 1");
    json_t *document = render(&problem, &error, NULL);
    const json_t *entry = json_array_get(json_object_get(document, "errors"), 0);
    assert_string_equal(json_string_value(json_object_get(document, "type")), "/problems/invalid");
    assert_int_equal(json_integer_value(json_object_get(document, "status")), 422);
    assert_string_equal(json_string_value(json_object_get(document, "code")), "invalid");
    assert_string_equal(json_string_value(json_object_get(document, "instance")), "/v1/runs");
    assert_string_equal(json_string_value(json_object_get(document, "request_id")), "0123");
    assert_string_equal(json_string_value(json_object_get(document, "detail")),
                        "/params/method/bits: expected 2, 3, 4 or 8, found 1");
    assert_string_equal(json_string_value(json_object_get(entry, "pointer")), "/params/method/bits");
    assert_string_equal(json_string_value(json_object_get(entry, "detail")), "expected 2, 3, 4 or 8, found 1");
    json_decref(document);
}

/* The connection ends where the request's own bytes cannot be trusted; what may go well next time says so. */
static void test_rows_say_what_becomes_of_the_connection(void **state)
{
    (void)state;
    static const struct {
        enum problem_id id;
        int http;
        bool close, retry;
    } expected[] = {
        {PROBLEM_BAD_REQUEST, 400, true, false},    {PROBLEM_BODY_TOO_LARGE, 413, true, false},
        {PROBLEM_MISDIRECTED, 421, true, false},    {PROBLEM_METHOD_NOT_ALLOWED, 405, false, false},
        {PROBLEM_ROUTE_UNKNOWN, 404, false, false}, {PROBLEM_KEY_REUSED, 422, false, false},
        {PROBLEM_KEY_BUSY, 409, false, true},       {PROBLEM_BUSY, 503, false, true},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct problem row = problem_row(expected[i].id);
        if (row.http != expected[i].http || row.close != expected[i].close || row.retry != expected[i].retry)
            fail_msg("%s: %d, close %d, retry %d", row.code, row.http, row.close, row.retry);
    }
}

static void test_no_pointer_no_errors(void **state)
{
    (void)state;
    struct error error;
    const struct problem problem = problem_of_status(STATUS_NOT_FOUND);
    (void)error_set(&error, STATUS_NOT_FOUND, "no such run");
    json_t *document = render(&problem, &error, NULL);
    assert_null(json_object_get(document, "errors"));
    json_decref(document);
}

static void test_collected_errors_win_over_the_pointer(void **state)
{
    (void)state;
    struct error error;
    const struct problem problem = problem_of_status(STATUS_INVALID);
    json_t *errors =
        json_pack("[{s:s, s:s}, {s:s, s:s}]", "pointer", "/a", "detail", "x", "pointer", "/b", "detail", "y");
    (void)error_set_at(&error, STATUS_INVALID, "/c", "z");
    json_t *document = render(&problem, &error, errors);
    assert_int_equal(json_array_size(json_object_get(document, "errors")), 2);
    json_decref(document);
    json_decref(errors);
}

static void test_detail_that_is_no_utf8_loses_the_bad_bytes(void **state)
{
    (void)state;
    struct error error;
    const struct problem problem = problem_of_status(STATUS_CORRUPT);
    (void)error_set_at(&error, STATUS_CORRUPT, "/a", "tensor \xff");
    json_t *document = render(&problem, &error, NULL);
    assert_string_equal(json_string_value(json_object_get(document, "detail")), "/a: tensor ?");
    json_decref(document);
}

static void test_grammar_and_size_close_the_connection(void **state)
{
    (void)state;
    assert_true(problem_row(PROBLEM_BAD_REQUEST).close && problem_row(PROBLEM_BODY_TOO_LARGE).close);
    assert_true(problem_of_status(STATUS_MALFORMED).close && problem_of_status(STATUS_TOO_LARGE).close);
    assert_false(problem_row(PROBLEM_ROUTE_UNKNOWN).close || problem_of_status(STATUS_INVALID).close);
    assert_true(problem_row(PROBLEM_BUSY).retry && problem_of_status(STATUS_UNAVAILABLE).retry);
}

static void test_segments_are_escaped(void **state)
{
    (void)state;
    struct error error;
    char out[32];
    assert_int_equal(response_escape_segment("a/b c%\xc3\xa9", out, sizeof out, &error), STATUS_OK);
    assert_string_equal(out, "a%2Fb%20c%25%C3%A9");
    assert_int_equal(response_escape_segment("////////////", out, sizeof out, &error), STATUS_TOO_LARGE);
    assert_int_equal(response_escape_segment("a", out, 1, &error), STATUS_TOO_LARGE);
    assert_int_equal(response_escape_segment("", out, 1, &error), STATUS_OK);
}

static void test_buffer_stops_at_its_ceiling(void **state)
{
    (void)state;
    struct buffer buffer;
    struct error error;
    buffer_init(&buffer, 10);
    buffer_puts(&buffer, "12345");
    buffer_printf(&buffer, "%d", 67890);
    assert_string_equal(buffer.bytes, "1234567890");
    assert_int_equal(buffer_status(&buffer, "text", &error), STATUS_OK);
    buffer_puts(&buffer, "x");
    buffer_puts(&buffer, "y");
    assert_null(buffer.bytes);
    assert_int_equal(buffer_status(&buffer, "text", &error), STATUS_TOO_LARGE);
    buffer_reset(&buffer);
    buffer_puts(&buffer, "z");
    assert_int_equal(buffer.length, 1);
    buffer_reset(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_of_a_status),
        cmocka_unit_test(test_rows_say_what_becomes_of_the_connection),
        cmocka_unit_test(test_no_pointer_no_errors),
        cmocka_unit_test(test_collected_errors_win_over_the_pointer),
        cmocka_unit_test(test_detail_that_is_no_utf8_loses_the_bad_bytes),
        cmocka_unit_test(test_grammar_and_size_close_the_connection),
        cmocka_unit_test(test_segments_are_escaped),
        cmocka_unit_test(test_buffer_stops_at_its_ceiling),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
