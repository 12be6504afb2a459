/* Which addresses a webhook or a redirect may reach. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static bool is_public(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return address_public((const struct sockaddr *)(const void *)&in, sizeof in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_public((const struct sockaddr *)(const void *)&in6, sizeof in6);
}

static void test_addresses_of_the_internet_are_public(void **state)
{
    static const char *const all[] = {
        "1.1.1.1",          "8.8.8.8",         "100.63.255.255", "100.128.0.0",    "172.15.255.255",
        "172.32.0.0",       "192.167.255.255", "192.169.0.0",    "198.17.255.255", "198.20.0.0",
        "223.255.255.255",  "2606:4700::1111", "2a00::1",        "2001:200::1",    "::ffff:8.8.8.8",
        "64:ff9b::808:808", "2002:808:808::1", "3fff:1000::1",   "2001:db9::1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!is_public(all[i])) fail_msg("%s", all[i]);
}

static void test_all_others_are_not(void **state)
{
    static const char *const all[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:db8::1",
        "2001::1",
        "2001:1::1",
        "100::1",
        "3fff::1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (is_public(all[i])) fail_msg("%s", all[i]);
}

static void test_other_families_and_cut_addresses_are_not(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808)};
    (void)state;
    assert_false(address_public((const struct sockaddr *)(const void *)&un, sizeof un));
    assert_false(address_public((const struct sockaddr *)(const void *)&in, sizeof in - 1));
    assert_true(address_public((const struct sockaddr *)(const void *)&in, sizeof in));
}

static void test_literals_of_a_url(void **state)
{
    (void)state;
    assert_true(address_literal_private("127.0.0.1") && address_literal_private("[::1]"));
    assert_true(address_literal_private("[fe80::1%eth0]") && address_literal_private("[::ffff:10.1.1.1]"));
    assert_false(address_literal_private("8.8.8.8") || address_literal_private("[2606:4700::1111]"));
    assert_false(address_literal_private("localhost") || address_literal_private("example.com"));
}

static bool is_loopback(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return address_loopback((const struct sockaddr *)(const void *)&in, sizeof in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_loopback((const struct sockaddr *)(const void *)&in6, sizeof in6);
}

static void test_loopback_is_this_machine_alone(void **state)
{
    (void)state;
    assert_true(is_loopback("127.0.0.1") && is_loopback("127.255.0.2") && is_loopback("::1"));
    assert_false(is_loopback("128.0.0.1") || is_loopback("10.0.0.1") || is_loopback("::2") || is_loopback("::"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_of_the_internet_are_public),     cmocka_unit_test(test_all_others_are_not),
        cmocka_unit_test(test_other_families_and_cut_addresses_are_not), cmocka_unit_test(test_literals_of_a_url),
        cmocka_unit_test(test_loopback_is_this_machine_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
