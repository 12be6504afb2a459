#include "http/cors.h"
#include "unit.h"

#include <string.h>

static const char *const none[] = {NULL}, *const any[] = {"*", NULL},
                         *const named[] = {"http://a:1", "https://b.example", NULL};

static struct request request_of(const char *method, const char *origin)
{
    return (struct request){
        .method = method, .headers = {{"Host", "own:8"}, {"Origin", origin}}, .header_count = origin != NULL ? 2 : 1};
}

static void test_origins_are_as_browsers_write_them(void **state)
{
    static const struct {
        const char *origin;
        enum status expected;
    } rows[] = {
        {"http://localhost:8888", STATUS_OK},
        {"https://b.example", STATUS_OK},
        {"http://[::1]:8888", STATUS_OK},
        {"vscode-webview://abc", STATUS_OK},
        {"*", STATUS_OK},
        {"null", STATUS_INVALID},
        {"localhost:8888", STATUS_INVALID},
        {"http://", STATUS_INVALID},
        {"http://:80", STATUS_INVALID},
        {"http://a/", STATUS_INVALID},
        {"http://a/b", STATUS_INVALID},
        {"http://u@a", STATUS_INVALID},
        {"http://A", STATUS_INVALID},
        {"http://a:80", STATUS_INVALID},
        {"https://a:443", STATUS_INVALID},
        {"https://a:80", STATUS_OK},
        {"http://a:", STATUS_INVALID},
        {"http://a:x", STATUS_INVALID},
        {"http://*.example", STATUS_INVALID},
        {"http://a\r\nX: y", STATUS_INVALID},
        {"http://a, http://b", STATUS_INVALID},
        {"", STATUS_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error;
        const char *const list[] = {rows[i].origin, NULL};
        if (cors_check(list, &error) != rows[i].expected) fail_msg("%s: %s", rows[i].origin, error.detail);
    }
}

static void test_a_star_stands_alone(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(cors_check((const char *const[]){"http://a", "*", NULL}, &error), STATUS_INVALID);
    assert_int_equal(cors_check((const char *const[]){"*", "*", NULL}, &error), STATUS_INVALID);
    assert_int_equal(cors_check(named, &error), STATUS_OK);
    assert_int_equal(cors_check(none, &error), STATUS_OK);
}

static void test_who_may_read_and_write(void **state)
{
    static const struct {
        const char *const *origins;
        const char *origin, *allowed;
        bool write;
    } rows[] = {
        {NULL, "http://a:1", NULL, false},
        {none, "http://a:1", NULL, false},
        {named, "http://a:1", "http://a:1", true},
        {named, "https://a:1", NULL, false},
        {named, "http://a:1.evil", NULL, false},
        {named, "http://A:1", NULL, false},
        {named, "null", NULL, false},
        {named, NULL, NULL, false},
        {any, "http://a:1", "*", false},
        {any, "null", "*", false},
        {any, NULL, NULL, false},
        {any, "http://own:8", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct request request = request_of("GET", rows[i].origin);
        const char *allowed = cors_allowed(rows[i].origins, &request);
        assert_int_equal(cors_may_write(rows[i].origins, &request), rows[i].write);
        if (rows[i].allowed == NULL)
            assert_null(allowed);
        else
            assert_string_equal(allowed, rows[i].allowed);
    }
}

static void test_only_a_preflight_lists_methods(void **state)
{
    struct request request = request_of("OPTIONS", "http://a:1");
    (void)state;
    assert_null(cors_answer(none, &request, "GET").vary);
    assert_null(cors_answer(named, &request, "GET, POST, OPTIONS").methods); /* nobody asked */
    request.headers[request.header_count++] = (struct name_value){"Access-Control-Request-Method", "POST"};
    const struct cors_answer answer = cors_answer(named, &request, "GET, POST, OPTIONS");
    assert_string_equal(answer.methods, "GET, POST, OPTIONS");
    assert_non_null(strstr(answer.headers, "Authorization"));
    assert_null(answer.exposed);
    assert_string_equal(cors_answer(any, &request, "GET, POST, OPTIONS").methods, "GET, HEAD");
    assert_null(cors_answer(named, &request, NULL).methods); /* there is nothing at that address */
    request.headers[1].value = "http://evil";
    assert_null(cors_answer(named, &request, "GET").allowed);
    assert_string_equal(cors_answer(named, &request, "GET").vary, "Origin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origins_are_as_browsers_write_them),
        cmocka_unit_test(test_a_star_stands_alone),
        cmocka_unit_test(test_who_may_read_and_write),
        cmocka_unit_test(test_only_a_preflight_lists_methods),
    };
    return cmocka_run_group_tests_name("cors", tests, NULL, NULL);
}
