#include "unit.h"

#include "hub/names.h"
#include "transfer/escape.h"
#include "transfer/origin.h"

#include <string.h>

static void test_repositories_have_one_or_two_plain_parts(void **state)
{
    static const char *const good[] = {"gpt2", "EleutherAI/pythia-160m", "allenai/OLMo-2-0425-1B", "a/b_c.d"};
    static const char *const bad[] = {"",    "/",    "a/",  "/a",    "a/b/c", "../a", "a/..", ".a/b", "a/b.",
                                      "a b", "a%2f", "a?b", "a#b/c", "a\\b",  "-a",   "a..b", "a\n",  "http://x/y"};
    char longest[300];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(names_is_repo(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(names_is_repo(bad[i]));
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(names_is_repo(longest));
}

static void test_revisions_follow_gits_rules(void **state)
{
    static const char *const good[] = {"main",   "stage1-step150000-tokens630B", "feature/x", "v1.0", "step143000",
                                       "a_b-c.d"};
    static const char *const bad[] = {"",   "/a",  "a/", "a//b", "a..b", "-a",   ".a",   "a.",    "a b",  "a~1",
                                      "a^", "a:b", "a?", "a*",   "a[",   "a\\b", "a@{b", "a\x01", "a/.b", "../.."};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(names_is_revision(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(names_is_revision(bad[i]));
}

static void test_files_stay_below_their_directory(void **state)
{
    static const char *const good[] = {"config.json", "a/b/c.bin", "model-00001-of-00002.safetensors",
                                       "..a",         "a..",       "..."};
    static const char *const bad[] = {"",     "/a",   "a/",     "a//b", ".",
                                      "..",   "../a", "a/../b", "a/..", "a/./b",
                                      "a\\b", "a\nb", "\x7f",   "./a",  "a/b/c/d/e/f/g/h/i"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(names_is_file(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(names_is_file(bad[i]));
}

static void test_commits_are_forty_small_digits(void **state)
{
    (void)state;
    assert_true(names_is_commit("0123456789abcdef0123456789abcdef01234567"));
    assert_false(names_is_commit("0123456789abcdef0123456789abcdef0123456"));
    assert_false(names_is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    assert_false(names_is_commit("main"));
}

static void test_escaping_leaves_nothing_with_a_meaning(void **state)
{
    char text[64], small[6];
    (void)state;
    assert_true(escape_text("a/b c?#%", false, text, sizeof text));
    assert_string_equal(text, "a%2Fb%20c%3F%23%25");
    assert_true(escape_text("a/\xc3\xa9", true, text, sizeof text));
    assert_string_equal(text, "a/%C3%A9");
    assert_false(escape_text("abcdef", false, small, sizeof small));
}

/* ---- addresses ---- */

static void test_addresses_are_read_or_refused(void **state)
{
    static const char *const bad[] = {
        "",           "huggingface.co", "ftp://a/b", "file:///etc/passwd", "http://u@a/", "http://u:p@a/",
        "gopher://a", "javascript:x"};
    struct origin origin;
    (void)state;
    assert_true(origin_read("HTTPS://Cdn.Example.com/x?y=z", &origin));
    assert_string_equal(origin.host, "cdn.example.com");
    assert_int_equal(origin.port, 443);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(origin_read(bad[i], &origin));
}

static bool allowed(const char *url, const char *endpoint)
{
    struct origin a, b;
    assert_true(origin_read(url, &a));
    assert_true(origin_read(endpoint, &b));
    return origin_allowed(&a, &b);
}

static void test_plain_http_stays_on_this_machine(void **state)
{
    (void)state;
    assert_true(allowed("https://cdn.example.com/x", "https://huggingface.co"));
    assert_false(allowed("http://cdn.example.com/x", "https://huggingface.co"));
    assert_false(allowed("http://127.0.0.1/x", "https://huggingface.co"));
    assert_true(allowed("http://127.0.0.2:81/x", "http://127.0.0.1:80"));
    assert_true(allowed("http://[::1]:81/x", "http://localhost:80"));
    assert_false(allowed("http://10.0.0.1/x", "http://127.0.0.1:80"));
    assert_false(allowed("http://127.0.0.1.example.com/x", "http://127.0.0.1:80"));
    assert_false(allowed("http://example.com", "http://example.com"));
}

static void test_the_port_belongs_to_the_origin(void **state)
{
    struct origin a, b;
    (void)state;
    assert_true(origin_read("https://huggingface.co/a", &a));
    assert_true(origin_read("https://huggingface.co:443/b", &b));
    assert_true(origin_equal(&a, &b));
    assert_true(origin_read("https://huggingface.co:444/b", &b));
    assert_false(origin_equal(&a, &b));
    assert_true(origin_read("https://huggingface.co.example.com", &b));
    assert_false(origin_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repositories_have_one_or_two_plain_parts),
        cmocka_unit_test(test_revisions_follow_gits_rules),
        cmocka_unit_test(test_files_stay_below_their_directory),
        cmocka_unit_test(test_commits_are_forty_small_digits),
        cmocka_unit_test(test_escaping_leaves_nothing_with_a_meaning),
        cmocka_unit_test(test_addresses_are_read_or_refused),
        cmocka_unit_test(test_plain_http_stays_on_this_machine),
        cmocka_unit_test(test_the_port_belongs_to_the_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
