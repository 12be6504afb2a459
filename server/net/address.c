#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* IANA's registry of special-purpose IPv4 addresses, and multicast. */
static const struct {
    uint32_t network;
    int bits;
} special[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* shared, behind a carrier's NAT */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* link-local; metadata of clouds */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* protocol assignments */
    {0xc0000200, 24}, /* documentation */
    {0xc0586300, 24}, /* 6to4 relays */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* benchmarking */
    {0xc6336400, 24}, /* documentation */
    {0xcb007100, 24}, /* documentation */
    {0xe0000000, 4},  /* multicast */
    {0xf0000000, 4},  /* reserved, broadcast */
};

static bool public4(uint32_t address)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if ((address ^ special[i].network) >> (32 - special[i].bits) == 0) return false;
    return true;
}

bool address_loopback(const struct sockaddr *address, size_t length)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (address->sa_family == AF_INET && length >= sizeof in) {
        memcpy(&in, address, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family != AF_INET6 || length < sizeof in6) return false;
    memcpy(&in6, address, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

static uint32_t four(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool begins(const uint8_t *address, const char *prefix, size_t length)
{
    return memcmp(address, prefix, length) == 0;
}

/* Only global unicast (2000::/3) is public, without its parts for special purposes. An address that contains an IPv4
 * address is judged by the IPv4 address. */
static bool public6(const uint8_t *address)
{
    if (begins(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) return public4(four(address + 12));   /* mapped */
    if (begins(address, "\0\x64\xff\x9b\0\0\0\0\0\0\0\0", 12)) return public4(four(address + 12)); /* NAT64 */
    if ((address[0] & 0xe0) != 0x20) return false;
    if (begins(address, "\x20\x02", 2)) return public4(four(address + 2)); /* 6to4 */
    if (begins(address, "\x20\x01", 2) && address[2] < 2) return false;    /* 2001::/23: Teredo and others */
    if (begins(address, "\x20\x01\x0d\xb8", 4)) return false;              /* documentation */
    return !begins(address, "\x3f\xff", 2) || address[2] >= 0x10;          /* 3fff::/20: documentation */
}

bool address_public(const struct sockaddr *address, size_t length)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (address->sa_family == AF_INET && length >= sizeof in) {
        memcpy(&in, address, sizeof in);
        return public4(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6 || length < sizeof in6) return false;
    memcpy(&in6, address, sizeof in6);
    return public6(in6.sin6_addr.s6_addr);
}

bool address_literal_private(const char *host)
{
    struct in_addr in;
    struct in6_addr in6;
    char inner[64];
    const size_t length = strlen(host);
    if (inet_pton(AF_INET, host, &in) == 1) return !public4(ntohl(in.s_addr));
    if (length < 3 || length >= sizeof inner || host[0] != '[') return false;
    (void)snprintf(inner, sizeof inner, "%.*s", (int)strcspn(host + 1, "]%"), host + 1);
    return inet_pton(AF_INET6, inner, &in6) == 1 && !public6(in6.s6_addr);
}
