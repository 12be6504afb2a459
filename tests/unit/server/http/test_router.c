#include "http/router.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status handler(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    (void)context;
    (void)request;
    (void)response;
    (void)error;
    return STATUS_OK;
}

static const struct route routes[] = {
    {.method = "GET", .pattern = "/v1/runs", .handler = handler},
    {.method = "POST", .pattern = "/v1/runs", .handler = handler},
    {.method = "GET", .pattern = "/v1/runs/{id}", .handler = handler},
    {.method = "GET", .pattern = "/v1/runs/latest", .handler = handler},
    {.method = "GET", .pattern = "/v1/runs/{id}/artifacts/{name}", .handler = handler},
    {.method = "DELETE", .pattern = "/v1/runs/{id}", .handler = handler},
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

struct found {
    enum status status;
    enum route_match match;
    int row; /* -1: none */
    char id[64], name[64], allow[96];
};

static struct found look(const char *method, const char *path)
{
    struct found found = {.row = -1};
    struct request request = {.method = method, .path = path};
    struct error error;
    const struct route *row;
    found.status = router_find(routes, ROUTES, &request, &found.match, &row, found.allow, sizeof found.allow, &error);
    if (row != NULL) {
        found.row = (int)(row - routes);
        const char *id = request_parameter(&request, "id"), *name = request_parameter(&request, "name");
        (void)snprintf(found.id, sizeof found.id, "%s", id != NULL ? id : "");
        (void)snprintf(found.name, sizeof found.name, "%s", name != NULL ? name : "");
    }
    free(request.target_text);
    return found;
}

static void test_paths_find_their_rows(void **state)
{
    (void)state;
    assert_int_equal(look("GET", "/v1/runs").row, 0);
    assert_int_equal(look("POST", "/v1/runs").row, 1);
    struct found found = look("GET", "/v1/runs/a%2Fb/artifacts/%25c");
    assert_int_equal(found.row, 4);
    assert_string_equal(found.id, "a/b");
    assert_string_equal(found.name, "%c");
}

static void test_literal_wins_over_parameter(void **state)
{
    (void)state;
    assert_int_equal(look("GET", "/v1/runs/latest").row, 3);
    assert_int_equal(look("GET", "/v1/runs/lates").row, 2);
}

static void test_escaped_slash_does_not_split(void **state)
{
    (void)state;
    assert_int_equal(look("GET", "/v1%2Fruns").match, ROUTE_UNKNOWN);
    assert_int_equal(look("GET", "/v1/runs%2Fx").match, ROUTE_UNKNOWN);
}

static void test_unknown_paths(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",
                                        "/v1",
                                        "/v1/runs/",
                                        "/v1/runs/x/artifacts",
                                        "//v1/runs",
                                        "/v1/runs/x/artifacts/",
                                        "/v1/../runs",
                                        "/V1/runs",
                                        "/v1/runs/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const struct found found = look("GET", paths[i]);
        assert_int_equal(found.status, STATUS_OK);
        assert_int_equal(found.match, ROUTE_UNKNOWN);
    }
}

static void test_other_method_lists_what_is_allowed(void **state)
{
    (void)state;
    struct found found = look("PATCH", "/v1/runs/x");
    assert_int_equal(found.match, ROUTE_METHOD);
    assert_string_equal(found.allow, "GET, HEAD, DELETE, OPTIONS");
    found = look("DELETE", "/v1/runs");
    assert_string_equal(found.allow, "GET, HEAD, POST, OPTIONS");
}

static void test_bad_escapes_are_malformed(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/%",   "/v1/%4",  "/v1/%4g",    "/v1/%00",       "/v1/%0a",
                                        "/v1/%7f", "/v1/%ff", "/v1/%c0%af", "/v1/%ed%a0%80", "/v1/%f4%90%80%80"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(look("GET", paths[i]).status, STATUS_MALFORMED);
    assert_int_equal(look("GET", "/v1/%c3%a9%e2%82%ac%f0%9f%98%80").status, STATUS_OK);
}

static void test_query_keeps_repeated_keys(void **state)
{
    (void)state;
    struct request request = {.method = "GET"};
    struct error error;
    static const char *const both[] = {"trajectory" REQUEST_QUERY_REPEATS, "x", "flag", "empty", NULL};
    static const char *const one[] = {"trajectory" REQUEST_QUERY_REPEATS, NULL};
    static const char *const single[] = {"trajectory", "x", "flag", "empty", NULL};
    assert_int_equal(router_query(&request, "trajectory=A+1&trajectory=B%2B&&x=3&flag&empty=", &error), STATUS_OK);
    assert_string_equal(request_query(&request, "trajectory"), "A 1");
    assert_string_equal(request_query_at(&request, "trajectory", 1), "B+");
    assert_null(request_query_at(&request, "trajectory", 2));
    assert_string_equal(request_query(&request, "flag"), "");
    assert_null(request_query(&request, "y"));
    assert_int_equal(request_query_allow(&request, both, &error), STATUS_OK);
    assert_int_equal(request_query_allow(&request, one, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/x");
    assert_string_equal(error.detail, "unknown query parameter; known here: trajectory");
    assert_int_equal(request_query_allow(&request, single, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/trajectory");
    assert_string_equal(error.detail, "comes twice: one value was expected");
    assert_int_equal(router_query(&request, "a=%zz", &error), STATUS_MALFORMED);
    free(request.query_text);
}

static void test_query_has_a_limit(void **state)
{
    (void)state;
    struct request request = {.method = "GET"};
    struct error error;
    char text[4 * (REQUEST_QUERY_MAX + 1) + 1] = "";
    for (int i = 0; i <= REQUEST_QUERY_MAX; i++) memcpy(text + (size_t)4 * (size_t)i, "a=1&", 5);
    assert_int_equal(router_query(&request, text, &error), STATUS_MALFORMED);
    free(request.query_text);
}

static void test_query_integers_are_bounded(void **state)
{
    (void)state;
    static const char *const bad[] = {"n=",    "n=1x", "n=+1", "n=%201", "n=101", "n=-1", "n=99999999999999999999",
                                      "n=0x1", "n=1.0"};
    struct request request = {.method = "GET"};
    struct error error;
    int64_t value = 0;
    assert_int_equal(router_query(&request, "n=100", &error), STATUS_OK);
    assert_int_equal(request_query_integer(&request, "n", 7, 0, 100, &value, &error), STATUS_OK);
    assert_int_equal(value, 100);
    assert_int_equal(request_query_integer(&request, "m", 7, 0, 100, &value, &error), STATUS_OK);
    assert_int_equal(value, 7);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(router_query(&request, bad[i], &error), STATUS_OK);
        assert_int_equal(request_query_integer(&request, "n", 7, 0, 100, &value, &error), STATUS_INVALID);
    }
    free(request.query_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_find_their_rows),
        cmocka_unit_test(test_literal_wins_over_parameter),
        cmocka_unit_test(test_escaped_slash_does_not_split),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_other_method_lists_what_is_allowed),
        cmocka_unit_test(test_bad_escapes_are_malformed),
        cmocka_unit_test(test_query_keeps_repeated_keys),
        cmocka_unit_test(test_query_has_a_limit),
        cmocka_unit_test(test_query_integers_are_bounded),
    };
    return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
