/* origin.h: the server of an address, and whether requests may be sent to it. */
#ifndef TRANSFER_ORIGIN_H
#define TRANSFER_ORIGIN_H

#include "base/error.h"

struct origin {
    char scheme[8], host[256]; /* lower case */
    int port;
};

/* Reads an http or https address with a host and without a user or password; false for any other. */
bool origin_read(const char *url, struct origin *out);
bool origin_equal(const struct origin *a, const struct origin *b);
/* "localhost", 127.0.0.0/8, ::1. */
bool origin_is_loopback(const struct origin *origin);
/* https is allowed everywhere; http only on this machine, and only when the endpoint itself is http on this machine. */
bool origin_allowed(const struct origin *origin, const struct origin *endpoint);

#endif
