/* address.h: which addresses belong to the public internet. A webhook, or a redirect of the hub, must not reach
 * addresses that only this machine or its network can reach: otherwise any client could make the server send requests
 * there. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* False for loopback, private, link-local, shared, multicast, reserved and documentation addresses, for IPv6 addresses
 * that hold such an IPv4 one, and for every other family. */
bool address_public(const struct sockaddr *address, size_t length);

/* 127.0.0.0/8 and ::1. */
bool address_loopback(const struct sockaddr *address, size_t length);

/* Whether `host` is a literal address ("10.0.0.1", "[::1]") that is not public. */
bool address_literal_private(const char *host);

#endif
