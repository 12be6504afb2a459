#include "http/token_backoff.h"
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { FREE_FAILURES = 20, MINUTE = 60000 };

static struct sockaddr_storage four(uint32_t address)
{
    struct sockaddr_storage out = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(address);
    return out;
}

static struct sockaddr_storage six(const char *text)
{
    struct sockaddr_storage out = {0};
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)&out;
    in->sin6_family = AF_INET6;
    assert_int_equal(inet_pton(AF_INET6, text, &in->sin6_addr), 1);
    return out;
}

static int wait_of(struct token_backoff *backoff, const struct sockaddr_storage *peer, const char *token, int64_t now)
{
    return token_backoff_wait(backoff, (const struct sockaddr *)peer, token, now);
}

static void note(struct token_backoff *backoff, const struct sockaddr_storage *peer, const char *token, bool right,
                 int64_t now)
{
    token_backoff_note(backoff, (const struct sockaddr *)peer, token, right, now);
}

static struct token_backoff *make(void)
{
    struct token_backoff *backoff = NULL;
    struct error error;
    assert_int_equal(token_backoff_new(&backoff, &error), STATUS_OK);
    return backoff;
}

static void test_waits_double_to_a_minute_and_are_forgotten(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct sockaddr_storage peer = four(0x0a000001), other = four(0x0a000002);
    int64_t now = 1000;
    for (int i = 0; i < FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, now);
    assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    for (int expected = 1; expected < 200; expected *= 2) {
        note(backoff, &peer, "wrong", false, now);
        assert_int_equal(wait_of(backoff, &peer, "other", now), expected < 60 ? expected : 60);
        assert_int_equal(wait_of(backoff, &other, "other", now), 0);
    }
    now += MINUTE;
    assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    now += 10 * MINUTE;
    note(backoff, &peer, "wrong", false, now); /* the first again */
    assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    token_backoff_free(backoff);
}

static void test_right_tokens_pass_until_they_are_wrong(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct sockaddr_storage peer = four(0x0a000001);
    note(backoff, &peer, "right", true, 1000);
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, 1000);
    assert_int_equal(wait_of(backoff, &peer, "wrong", 1000), 1);
    assert_int_equal(wait_of(backoff, &peer, "right", 1000), 0);
    note(backoff, &peer, "right", false, 1000); /* revoked */
    assert_int_equal(wait_of(backoff, &peer, "right", 1000), 2);
    token_backoff_free(backoff);
}

static void test_a_network_of_ipv6_is_one_client_and_mapped_addresses_are_ipv4(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct sockaddr_storage one = six("2001:db8::1"), same = six("2001:db8::2"), other = six("2001:db8:0:1::1"),
                                  mapped = six("::ffff:10.0.0.1"), plain = four(0x0a000001);
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &one, "wrong", false, 1000);
    assert_int_equal(wait_of(backoff, &same, "wrong", 1000), 1);
    assert_int_equal(wait_of(backoff, &other, "wrong", 1000), 0);
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &mapped, "wrong", false, 1000);
    assert_int_equal(wait_of(backoff, &plain, "wrong", 1000), 1);
    token_backoff_free(backoff);
}

/* 5,000 addresses: the newest are remembered, the first is forgotten, and nothing grows. */
static void test_the_address_that_erred_longest_ago_is_forgotten(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    enum { CLIENTS = 5000 };
    for (uint32_t client = 0; client < CLIENTS; client++) {
        const struct sockaddr_storage peer = four(client);
        for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, 1000 + client / 10);
    }
    const struct sockaddr_storage first = four(0), last = four(CLIENTS - 1);
    assert_int_equal(wait_of(backoff, &first, "wrong", 1000 + CLIENTS / 10), 0);
    assert_int_equal(wait_of(backoff, &last, "wrong", 1000 + CLIENTS / 10), 1);
    token_backoff_free(backoff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_double_to_a_minute_and_are_forgotten),
        cmocka_unit_test(test_right_tokens_pass_until_they_are_wrong),
        cmocka_unit_test(test_a_network_of_ipv6_is_one_client_and_mapped_addresses_are_ipv4),
        cmocka_unit_test(test_the_address_that_erred_longest_ago_is_forgotten),
    };
    return cmocka_run_group_tests_name("token_backoff", tests, NULL, NULL);
}
