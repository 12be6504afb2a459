/* Keys in a file that somebody writes: a reader may find a part of it. The test has the clock. */
#include "chain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define WHOLE "[default]\naws_access_key_id = AK\naws_secret_access_key = HIDDEN\n"
#define NEXT  "[default]\naws_access_key_id = BK\naws_secret_access_key = OTHER\n"

static _Atomic time_t now = 1800000000;

/* In place of the C library's. */
time_t time(time_t *out)
{
    if (out != NULL) *out = now;
    return now;
}

static const char *next; /* what the file has after the next pause */
static bool for_ever;    /* and after each one */
static int pauses;

static void write_file(const char *text, time_t ago);

/* In place of the C library's. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)left;
    now += wanted->tv_sec;
    pauses++;
    if (next != NULL) write_file(next, 0);
    if (!for_ever) next = NULL;
    return 0;
}

static char path[64];

/* Written `ago` seconds ago. */
static void write_file(const char *text, time_t ago)
{
    const struct timespec times[2] = {{.tv_sec = now - ago}, {.tv_sec = now - ago}};
    chain_write(path, text);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Credentials that have read the whole file a minute ago. */
static struct credentials *begin(void)
{
    (void)snprintf(path, sizeof path, "/tmp/deltaq-credentials-XXXXXX");
    chain_file(path);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    next = NULL;
    for_ever = false;
    pauses = 0;
    write_file(WHOLE, 100);
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file", "AK", "HIDDEN", "");
    now += 60;
    return credentials;
}

static void end(struct credentials *credentials)
{
    credentials_free(credentials);
    (void)unlink(path);
}

static void test_keys_outlive_a_file_of_which_a_part_is_written(void **state)
{
    static const char *const parts[] = {"", "[defa", "[default]\naws_access_key_id = BK\n",
                                        "[default]\naws_access_key_id = BK\naws_secret_access_key = OT"};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct credentials *credentials = begin();
        write_file(parts[i], 0);
        chain_expect(credentials, "shared file", "AK", "HIDDEN", "");
        write_file(NEXT, 0);
        now += 60;
        chain_expect(credentials, "shared file", "BK", "OTHER", "");
        end(credentials);
    }
}

/* A file that was just written is read again after a few seconds, not after a minute. */
static void test_new_keys_are_taken_soon(void **state)
{
    (void)state;
    struct credentials *credentials = begin();
    write_file(NEXT, 1);
    chain_expect(credentials, "shared file", "AK", "HIDDEN", "");
    now += 4;
    chain_expect(credentials, "shared file", "BK", "OTHER", "");
    end(credentials);
}

/* Somebody took them away, and did not just write the file. */
static void test_keys_that_are_gone_are_not_used_for_ever(void **state)
{
    struct error error;
    struct credentials_keys keys;
    (void)state;
    struct credentials *credentials = begin();
    write_file("[default]\naws_access_key_id = BK\n", 0);
    chain_expect(credentials, "shared file", "AK", "HIDDEN", "");
    now += 400;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_INVALID);
    write_file("", 100);
    now += 400;
    chain_expect(credentials, "none", "", "", "");
    end(credentials);
}

static void test_a_clock_that_is_set_back_keeps_no_old_keys(void **state)
{
    (void)state;
    struct credentials *credentials = begin();
    chain_expect(credentials, "shared file", "AK", "HIDDEN", "");
    write_file(NEXT, 100000);
    now -= 86400;
    chain_expect(credentials, "shared file", "BK", "OTHER", "");
    end(credentials);
}

/* The server does not take the known keys any more, so that only those of the file can help. */
static void test_after_a_refusal_the_file_is_read_again_until_it_is_whole(void **state)
{
    static const char *const parts[] = {"", "[defa", "[default]\naws_access_key_id = BK\n",
                                        "[default]\naws_access_key_id = BK\naws_secret_access_key = OT"};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct credentials *credentials = begin();
        write_file(parts[i], 0);
        next = NEXT;
        credentials_forget(credentials);
        chain_expect(credentials, "shared file", "BK", "OTHER", "");
        assert_int_equal(pauses, 2);
        pauses = 0;
        chain_expect(credentials, "shared file", "BK", "OTHER", "");
        assert_int_equal(pauses, 0);
        end(credentials);
    }
}

static void test_a_file_that_is_never_whole_is_not_awaited_for_ever(void **state)
{
    struct error error;
    struct credentials_keys keys;
    (void)state;
    struct credentials *credentials = begin();
    next = "[default]\naws_access_key_id = BK\naws_secret_access_key = OT";
    for_ever = true;
    write_file(next, 0);
    credentials_forget(credentials);
    const time_t began = now;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_UNAVAILABLE);
    assert_non_null(strstr(error.detail, "is being written"));
    assert_in_range(now - began, 3, 15);
    next = NULL;
    write_file(NEXT, 100);
    chain_expect(credentials, "shared file", "BK", "OTHER", "");
    end(credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_keys_outlive_a_file_of_which_a_part_is_written, chain_bare),
        cmocka_unit_test_setup(test_new_keys_are_taken_soon, chain_bare),
        cmocka_unit_test_setup(test_keys_that_are_gone_are_not_used_for_ever, chain_bare),
        cmocka_unit_test_setup(test_a_clock_that_is_set_back_keeps_no_old_keys, chain_bare),
        cmocka_unit_test_setup(test_after_a_refusal_the_file_is_read_again_until_it_is_whole, chain_bare),
        cmocka_unit_test_setup(test_a_file_that_is_never_whole_is_not_awaited_for_ever, chain_bare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
