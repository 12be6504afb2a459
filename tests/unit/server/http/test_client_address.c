#include "http/client_address.h"
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

static struct client_address peer_of(const char *text)
{
    struct sockaddr_storage storage = {.ss_family = AF_UNIX};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&storage;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
        storage.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
        storage.ss_family = AF_INET6;
    return client_address_of((const struct sockaddr *)&storage);
}

/* Whose request it is that `peer` sent with these headers, while these proxies are trusted. */
static void expect(const char *peer, const char *const *proxies, const char *first, const char *second,
                   const char *wanted, bool passed_on)
{
    struct client_networks trusted;
    struct request request = {0};
    struct error error;
    char text[INET6_ADDRSTRLEN];
    bool proxied;
    assert_int_equal(client_networks_parse(proxies, &trusted, &error), STATUS_OK);
    request.headers[request.header_count++] = (struct name_value){"Host", "deltaq.test"};
    if (first != NULL) request.headers[request.header_count++] = (struct name_value){"x-forwarded-for", first};
    if (second != NULL) request.headers[request.header_count++] = (struct name_value){"X-Forwarded-For", second};
    const struct client_address from = peer_of(peer);
    const struct client_address found = client_address_forwarded(&from, &trusted, &request, &proxied);
    client_address_text(&found, text);
    assert_string_equal(text, wanted);
    assert_int_equal(proxied, passed_on);
}

static void test_nobody_is_believed_unless_trusted(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const one[] = {"10.0.0.7", NULL};
    expect("10.0.0.7", none, "192.0.2.1", NULL, "10.0.0.7", false);
    expect("10.0.0.8", one, "192.0.2.1", NULL, "10.0.0.8", false);
    expect("10.0.0.7", one, NULL, NULL, "10.0.0.7", false);
    expect("10.0.0.7", one, "192.0.2.1", NULL, "192.0.2.1", true);
    expect("::ffff:10.0.0.7", one, "192.0.2.1", NULL, "192.0.2.1", true);
}

static void test_the_last_address_that_is_no_proxy_counts(void **state)
{
    (void)state;
    static const char *const proxies[] = {"10.0.0.0/9", "2001:db8::/33", "unix", NULL};
    expect("10.1.2.3", proxies, "1.1.1.1, 192.0.2.1 ,10.0.0.9", NULL, "192.0.2.1", true);
    expect("10.1.2.3", proxies, "1.1.1.1", "192.0.2.1", "192.0.2.1", true);
    expect("10.1.2.3", proxies, "192.0.2.1", "10.0.0.9,10.0.0.8", "192.0.2.1", true);
    expect("10.1.2.3", proxies, "1.1.1.1,10.128.0.1", NULL, "10.128.0.1", true);
    expect("10.1.2.3", proxies, "10.0.0.9", NULL, "10.0.0.9", true);
    expect("2001:db8:7fff::1", proxies, "192.0.2.1", NULL, "192.0.2.1", true);
    expect("2001:db8:8000::1", proxies, "192.0.2.1", NULL, "2001:db8:8000::1", false);
    expect("unix", proxies, "2001:db8:ffff::1", NULL, "2001:db8:ffff::1", true);
    expect("unix", proxies, "192.0.2.1:4711", NULL, "192.0.2.1", true);
    expect("unix", proxies, "[2001:db8:ffff::1]:4711", NULL, "2001:db8:ffff::1", true);
}

/* What stands before a word that is no address was not written by a proxy that we know. */
static void test_a_word_that_is_no_address_ends_the_search(void **state)
{
    (void)state;
    static const char *const proxies[] = {"10.0.0.0/8", NULL};
    static const char *const words[] = {"unknown", "", "1.2.3", "1.2.3.4.5", "[::1", "a:b", "secret.example:80"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char header[80];
        expect("10.1.2.3", proxies, words[i], NULL, "10.1.2.3", true);
        (void)snprintf(header, sizeof header, "1.1.1.1, %s, 10.0.0.9", words[i]);
        expect("10.1.2.3", proxies, header, NULL, "10.0.0.9", true);
        expect("10.1.2.3", proxies, "1.1.1.1", header, "10.0.0.9", true);
    }
}

static void test_what_is_no_network_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "proxy.example", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "2001:db8::/129", "unix/3", "10.0.0.0/-1"};
    struct client_networks out;
    struct error error;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *const list[] = {"127.0.0.1", texts[i], NULL};
        assert_int_equal(client_networks_parse(list, &out, &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, texts[i]));
    }
}

static void test_networks_are_told_apart(void **state)
{
    (void)state;
    static const char *const addresses[] = {"10.0.0.1",        "10.0.0.2", "2001:db8::1",
                                            "2001:db8:0:1::1", "a00:1::",  "unix"};
    enum { COUNT = sizeof addresses / sizeof addresses[0] };
    unsigned char keys[COUNT][16], again[16];
    for (size_t i = 0; i < COUNT; i++) {
        const struct client_address address = peer_of(addresses[i]);
        client_address_key(&address, keys[i]);
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(keys[i], keys[j], sizeof keys[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        const struct client_address address = peer_of(addresses[i]);
        assert_int_equal(client_address_is_here(&address), strcmp(addresses[i], "unix") == 0);
    }
    const struct client_address here[] = {peer_of("127.3.2.1"), peer_of("::1"), peer_of("::ffff:127.0.0.1")};
    for (size_t i = 0; i < 3; i++) assert_true(client_address_is_here(&here[i]));
    const struct client_address beside[] = {peer_of("128.0.0.1"), peer_of("126.255.255.255"), peer_of("::2")};
    for (size_t i = 0; i < 3; i++) assert_false(client_address_is_here(&beside[i]));
    const struct client_address same = peer_of("2001:db8::2:3:4:5");
    client_address_key(&same, again);
    assert_memory_equal(again, keys[2], sizeof again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_believed_unless_trusted),
        cmocka_unit_test(test_the_last_address_that_is_no_proxy_counts),
        cmocka_unit_test(test_a_word_that_is_no_address_ends_the_search),
        cmocka_unit_test(test_what_is_no_network_is_refused),
        cmocka_unit_test(test_networks_are_told_apart),
    };
    return cmocka_run_group_tests_name("client_address", tests, NULL, NULL);
}
