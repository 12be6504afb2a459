#include "http/token_backoff.h"
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <string.h>

enum { FREE_FAILURES = 20, SECOND = 1000, MINUTE = 60 * SECOND };

static struct client_address four(uint32_t address)
{
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    return client_address_of((const struct sockaddr *)&in);
}

static struct client_address six(const char *text)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
    return client_address_of((const struct sockaddr *)&in);
}

static int wait_of(struct token_backoff *backoff, const struct client_address *from, const char *token, int64_t now)
{
    return token_backoff_wait(backoff, from, token, now);
}

static void note(struct token_backoff *backoff, const struct client_address *from, const char *token, bool right,
                 int64_t now)
{
    token_backoff_note(backoff, from, token, right ? "id" : NULL, now);
}

static struct token_backoff *make(void)
{
    struct token_backoff *backoff = NULL;
    struct error error;
    assert_int_equal(token_backoff_new(&backoff, &error), STATUS_OK);
    return backoff;
}

static void test_one_is_looked_up_a_second_and_failures_are_forgotten(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct client_address peer = four(0x0a000001), other = four(0x0a000002);
    int64_t now = 1000;
    for (int i = 0; i < FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, now);
    assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    for (int i = 0; i < 50; i++) {
        note(backoff, &peer, "wrong", false, now);
        assert_int_equal(wait_of(backoff, &peer, "other", now), 1);
        assert_int_equal(wait_of(backoff, &other, "other", now), 0);
        now += SECOND;
        assert_int_equal(wait_of(backoff, &peer, "wrong", now - 1), 1); /* a millisecond is a wait */
        assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    }
    now += 10 * MINUTE;
    note(backoff, &peer, "wrong", false, now); /* the first again */
    assert_int_equal(wait_of(backoff, &peer, "wrong", now), 0);
    token_backoff_free(backoff);
}

static void test_right_tokens_pass_until_they_are_wrong(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct client_address peer = four(0x0a000001);
    note(backoff, &peer, "right", true, 1000);
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, 1000);
    assert_int_equal(wait_of(backoff, &peer, "wrong", 1000), 1);
    assert_int_equal(wait_of(backoff, &peer, "right", 1000), 0);
    unsigned char sha256[TOKEN_SHA256];
    char id[TOKEN_ID] = "";
    assert_true(token_backoff_knows(backoff, "right", 1000 + 10 * MINUTE, sha256, id));
    assert_string_equal(id, "id");
    assert_false(token_backoff_knows(backoff, "right", 1001 + 10 * MINUTE, sha256, id));
    assert_false(token_backoff_knows(backoff, "wrong", 1000, sha256, id));
    note(backoff, &peer, "right", false, 1000); /* revoked */
    assert_false(token_backoff_knows(backoff, "right", 1000, sha256, id));
    assert_int_equal(wait_of(backoff, &peer, "right", 1000), 1);
    token_backoff_free(backoff);
}

/* What http_server_tokens is given of these: their hashes, in another order than that of the hashes. */
static void give(struct token_backoff *backoff, const char *const *texts, size_t count)
{
    struct http_token *tokens = calloc(count + 1, sizeof *tokens);
    assert_non_null(tokens);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(EVP_Digest(texts[i], strlen(texts[i]), tokens[i].sha256, NULL, EVP_sha256(), NULL), 1);
        (void)snprintf(tokens[i].id, sizeof tokens[i].id, "id of %s", texts[i]);
    }
    token_backoff_valid(backoff, tokens, count);
}

/* However many wrong ones come: the database need not be asked whether a valid one that nobody has used is valid. */
static void test_valid_tokens_pass_unused_once_they_were_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b", "c", "d", "e"};
    struct token_backoff *backoff = make();
    const struct client_address peer = four(0x0a000001);
    unsigned char sha256[TOKEN_SHA256];
    char id[TOKEN_ID] = "";
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, 1000);
    assert_false(token_backoff_wants(backoff));
    assert_int_equal(wait_of(backoff, &peer, "a", 1000), 1);
    assert_true(token_backoff_wants(backoff));
    assert_false(token_backoff_wants(backoff)); /* told once */
    give(backoff, texts, 5);
    for (size_t i = 0; i < 5; i++) {
        char expected[TOKEN_ID];
        (void)snprintf(expected, sizeof expected, "id of %s", texts[i]);
        assert_int_equal(wait_of(backoff, &peer, texts[i], 1000), 0);
        assert_true(token_backoff_knows(backoff, texts[i], 1000, sha256, id));
        assert_string_equal(id, expected);
    }
    assert_false(token_backoff_wants(backoff));
    assert_int_equal(wait_of(backoff, &peer, "wrong", 1000), 1);
    assert_true(token_backoff_wants(backoff)); /* it may be newer than the reading */
    note(backoff, &peer, "c", false, 1000);    /* revoked since */
    assert_int_equal(wait_of(backoff, &peer, "c", 1000), 1);
    assert_int_equal(wait_of(backoff, &peer, "d", 1000), 0);
    give(backoff, texts, 1);
    assert_int_equal(wait_of(backoff, &peer, "a", 1000), 0);
    assert_int_equal(wait_of(backoff, &peer, "d", 1000), 1);
    give(backoff, texts, 0);
    assert_int_equal(wait_of(backoff, &peer, "a", 1000), 1);
    token_backoff_free(backoff);
}

/* The users of this machine have one address. */
static void test_users_of_this_machine_are_told_apart(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    struct client_address one = four(0x7f000001), other = one, unknown = one;
    unsigned char keys[2][16];
    one.user = 1 + 1000;
    other.user = 1 + 0;
    for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &one, "wrong", false, 1000);
    assert_int_equal(wait_of(backoff, &one, "any", 1000), 1);
    assert_int_equal(wait_of(backoff, &other, "any", 1000), 0);
    assert_int_equal(wait_of(backoff, &unknown, "any", 1000), 0);
    client_address_key(&one, keys[0]);
    client_address_key(&other, keys[1]);
    assert_memory_not_equal(keys[0], keys[1], sizeof keys[0]);
    token_backoff_free(backoff);
}

static void test_a_network_of_ipv6_is_one_client_and_mapped_addresses_are_ipv4(void **state)
{
    (void)state;
    struct token_backoff *backoff = make();
    const struct client_address one = six("2001:db8::1"), same = six("2001:db8::2"), other = six("2001:db8:0:1::1"),
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
        const struct client_address peer = four(client);
        for (int i = 0; i <= FREE_FAILURES; i++) note(backoff, &peer, "wrong", false, 1000 + client / 10);
    }
    const struct client_address first = four(0), last = four(CLIENTS - 1);
    assert_int_equal(wait_of(backoff, &first, "wrong", 1000 + CLIENTS / 10), 0);
    assert_int_equal(wait_of(backoff, &last, "wrong", 1000 + CLIENTS / 10), 1);
    token_backoff_free(backoff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_is_looked_up_a_second_and_failures_are_forgotten),
        cmocka_unit_test(test_right_tokens_pass_until_they_are_wrong),
        cmocka_unit_test(test_valid_tokens_pass_unused_once_they_were_read),
        cmocka_unit_test(test_users_of_this_machine_are_told_apart),
        cmocka_unit_test(test_a_network_of_ipv6_is_one_client_and_mapped_addresses_are_ipv4),
        cmocka_unit_test(test_the_address_that_erred_longest_ago_is_forgotten),
    };
    return cmocka_run_group_tests_name("token_backoff", tests, NULL, NULL);
}
