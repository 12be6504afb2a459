#include "unit.h"

#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

static const struct option_row rows[] = {
    {"--listen", "ADDRESS", "DELTAQ_TEST_LISTEN", "here", OPTION_ONCE, "Where"},
    {"--root", "DIR", "DELTAQ_TEST_ROOT", NULL, OPTION_COLONS, "Roots"},
    {"--origin", "URL", "DELTAQ_TEST_ORIGIN", NULL, OPTION_SPACES, "Origins"},
    {"--log", NULL, NULL, NULL, OPTION_ONCE, "A switch"},
    {0},
};

static enum status parse(struct options *options, int argc, const char *const *argv)
{
    struct error error;
    char *copies[8];
    for (int i = 0; i < argc; i++) copies[i] = strdup(argv[i]);
    const enum status status = options_parse(rows, argc, copies, 1, options, &error);
    for (int i = 0; i < argc; i++) free(copies[i]);
    return status;
}

static void test_origins_in_the_environment_keep_their_colons(void **state)
{
    struct options options;
    (void)state;
    assert_int_equal(setenv("DELTAQ_TEST_ORIGIN", "http://a:1  https://b", 1), 0);
    assert_int_equal(parse(&options, 0, NULL), STATUS_OK);
    const char *const *all = options_all(&options, "--origin");
    assert_string_equal(all[0], "http://a:1");
    assert_string_equal(all[1], "https://b");
    assert_null(all[2]);
    options_reset(&options);
    assert_int_equal(unsetenv("DELTAQ_TEST_ORIGIN"), 0);
}

static void test_flags_go_before_the_environment_and_that_before_defaults(void **state)
{
    struct options options;
    (void)state;
    assert_int_equal(parse(&options, 0, NULL), STATUS_OK);
    assert_string_equal(options_text(&options, "--listen"), "here");
    assert_null(options_text(&options, "--log"));
    assert_null(*options_all(&options, "--root"));
    options_reset(&options);
    assert_int_equal(setenv("DELTAQ_TEST_LISTEN", "there", 1) + setenv("DELTAQ_TEST_ROOT", "/a::/b", 1), 0);
    assert_int_equal(parse(&options, 0, NULL), STATUS_OK);
    assert_string_equal(options_text(&options, "--listen"), "there");
    assert_string_equal(options_all(&options, "--root")[1], "/b");
    options_reset(&options);
    assert_int_equal(parse(&options, 5, (const char *const[]){"--listen=x", "--root", "/c", "--log", "--root=/d"}),
                     STATUS_OK);
    assert_string_equal(options_text(&options, "--listen"), "x");
    assert_string_equal(options_all(&options, "--root")[0], "/c");
    assert_string_equal(options_all(&options, "--root")[1], "/d");
    assert_null(options_all(&options, "--root")[2]);
    assert_string_equal(options_text(&options, "--log"), "1");
    options_reset(&options);
    assert_int_equal(unsetenv("DELTAQ_TEST_LISTEN") + unsetenv("DELTAQ_TEST_ROOT"), 0);
}

static void test_wrong_command_lines_are_refused(void **state)
{
    struct options options;
    (void)state;
    const char *const wrong[][2] = {{"--colour", "red"}, {"--root", NULL}, {"--log=1", NULL},
                                    {"a", "b"},          {"-x", NULL},     {"--listen=a", "--listen=b"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse(&options, wrong[i][1] != NULL ? 2 : 1, wrong[i]), STATUS_INVALID);
        options_reset(&options);
    }
}

static void test_flags_have_either_dash_and_words_follow_two(void **state)
{
    static const struct option_row dashed[] = {{"--no-name", "N", NULL, NULL, OPTION_ONCE, "Dashed"}, {0}};
    struct options options;
    struct error error;
    char word[][16] = {"--no_name", "1", "--", "--listen", "-x"};
    char *words[] = {word[0], word[1], word[2], word[3], word[4]};
    (void)state;
    assert_int_equal(options_parse(dashed, 5, words, 2, &options, &error), STATUS_OK);
    assert_string_equal(options_text(&options, "--no-name"), "1");
    assert_true(options_given(&options, "--no-name"));
    assert_int_equal(options.word_count, 2);
    assert_string_equal(options.words[1], "-x");
    options_reset(&options);
    assert_int_equal(options_parse(dashed, 5, words, 1, &options, &error), STATUS_INVALID);
    options_reset(&options);
}

static void test_secrets_are_overwritten_once_they_are_read(void **state)
{
    static const struct option_row secret[] = {{"--database-url", "URL", NULL, NULL, false, "Where"},
                                               {"--token", "TOKEN", NULL, NULL, false, "Who"},
                                               {"--listen", "ADDRESS", NULL, NULL, false, "Open"},
                                               {0}};
    struct options options;
    struct error error;
    char word[][32] = {"--database_url", "postgres://me:pass@host/db", "--token=abc", "--listen", "here"};
    char *words[] = {word[0], word[1], word[2], word[3], word[4]};
    (void)state;
    assert_int_equal(options_parse(secret, 5, words, 0, &options, &error), STATUS_OK);
    assert_string_equal(options_text(&options, "--database-url"), "postgres://me:pass@host/db");
    assert_string_equal(options_text(&options, "--token"), "abc");
    assert_string_equal(word[1], "xxxxxxxxxxxxxxxxxxxxxxxxxx");
    assert_string_equal(word[2], "--token=xxx");
    assert_string_equal(word[4], "here");
    options_reset(&options);
}

static void test_numbers_are_whole_and_in_range(void **state)
{
    struct options options;
    struct error error;
    int64_t value;
    (void)state;
    const char *const words[] = {"7", "07", "0", "10", "11", "-1", "x", "1.5", "", "99999999999999999999"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(parse(&options, 2, (const char *const[]){"--listen", words[i]}), STATUS_OK);
        assert_int_equal(options_integer(&options, "--listen", 0, 10, &value, &error),
                         i < 4 ? STATUS_OK : STATUS_INVALID);
        options_reset(&options);
    }
}

static void test_sizes_have_units_of_1024(void **state)
{
    static const struct {
        const char *word;
        int64_t bytes; /* -1: refused */
    } sizes[] = {{"0", 0},          {"512", 512}, {"1k", 1024}, {"1.5M", 3 << 19}, {"20G", 20LL << 30},
                 {"1T", 1LL << 40}, {"-1", -1},   {"x", -1},    {"1X", -1},        {"1GB", -1},
                 {"", -1},          {"nan", -1},  {"9e18", -1}};
    struct options options;
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t value = -1;
        assert_int_equal(parse(&options, 2, (const char *const[]){"--listen", sizes[i].word}), STATUS_OK);
        assert_int_equal(options_size(&options, "--listen", &value, &error),
                         sizes[i].bytes < 0 ? STATUS_INVALID : STATUS_OK);
        assert_int_equal(value, sizes[i].bytes);
        options_reset(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origins_in_the_environment_keep_their_colons),
        cmocka_unit_test(test_flags_go_before_the_environment_and_that_before_defaults),
        cmocka_unit_test(test_wrong_command_lines_are_refused),
        cmocka_unit_test(test_flags_have_either_dash_and_words_follow_two),
        cmocka_unit_test(test_secrets_are_overwritten_once_they_are_read),
        cmocka_unit_test(test_numbers_are_whole_and_in_range),
        cmocka_unit_test(test_sizes_have_units_of_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
