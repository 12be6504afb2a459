/* guard.h: sockets of libcurl that are judged by the address they connect to. What a name stood for before, and what a
 * redirect says, does not matter then: the address is the one that is connected to. */
#ifndef NET_GUARD_H
#define NET_GUARD_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct guard {
    /* Whether a socket may be connected to `address`; `owner` is lent. NULL: to those of the internet at large
     * (address_public). */
    bool (*allowed)(const void *owner, const struct sockaddr *address, size_t length);
    const void *owner;
    char refused[NI_MAXHOST]; /* the last address that was not connected to; "" so far: none */
};

/* Has `easy` (libcurl's handle) ask `guard`, which outlives its transfers. */
bool guard_set(void *easy, struct guard *guard);

#endif
