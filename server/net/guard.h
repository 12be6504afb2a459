/* guard.h: checks the address that a socket of libcurl connects to. What a name resolved to earlier, or what a redirect
 * says, does not matter, because the check is made on the address of the connection itself. */
#ifndef NET_GUARD_H
#define NET_GUARD_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct guard {
    /* Whether a socket may connect to `address`; `owner` is lent. NULL: public addresses only (address_public). */
    bool (*allowed)(const void *owner, const struct sockaddr *address, size_t length);
    const void *owner;
    char refused[NI_MAXHOST]; /* the last refused address; "": none yet */
};

/* Makes `easy` (a handle of libcurl) call `guard`, which must outlive its transfers. */
bool guard_set(void *easy, struct guard *guard);

#endif
