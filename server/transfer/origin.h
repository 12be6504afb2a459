/* origin.h: the server that an address leads to, and whether requests may go there. */
#ifndef TRANSFER_ORIGIN_H
#define TRANSFER_ORIGIN_H

#include "base/error.h"

struct origin {
    char scheme[8], host[256]; /* lower case */
    int port;
};

/* False for anything but an http or https address with a host and without a user or password. */
bool origin_read(const char *url, struct origin *out);
bool origin_equal(const struct origin *a, const struct origin *b);
/* "localhost", 127.0.0.0/8, ::1. */
bool origin_is_loopback(const struct origin *origin);
/* https anywhere; http only on this machine, and only where the endpoint itself is http on this machine. */
bool origin_allowed(const struct origin *origin, const struct origin *endpoint);

#endif
