/* transfer.h: whether the bytes of a connection move, in either direction. The kernel counts them, so the same look
 * serves bodies and answers, with and without TLS. Private to server/http. */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

struct transfer { /* {0}: not looked at yet */
    int64_t since_ms;
    uint64_t bytes; /* at that moment */
};

enum { TRANSFER_WINDOW_MILLISECONDS = 1000, TRANSFER_LEAST_BYTES = 16 << 10 };

/* The bytes that the socket has received and those that its other end has acknowledged, together. False where the
 * kernel does not count them: a unix socket. */
bool transfer_bytes(int descriptor, uint64_t *out);

/* Whether fewer than TRANSFER_LEAST_BYTES have moved within the window that began with the first look, or with the end
 * of the last window. False within a window. `now` in milliseconds, above 0 and never falling. */
bool transfer_is_slow(struct transfer *transfer, uint64_t bytes, int64_t now);

#endif
