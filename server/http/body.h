/* body.h: the bytes of request bodies between socket and parser, and what all bodies of a server may take together.
 * A small body lies in memory, a larger one in a nameless file, so that what clients send is never held in memory as it
 * comes. What is parsed takes its bytes out of one budget before it is read: the text of a large member, and what a
 * JSON tree is going to take (json_body_cost). Private to server/http. */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct spill;

/* BODY_SMALL: the most bytes of a body in memory. BODY_FREE: a request that takes no more than this when it is parsed
 * never waits for others and is counted all the same: there are no more of them than handler threads and waiting
 * requests. */
enum { BODY_SMALL = 16 << 10, BODY_FREE = 64 << 10 };

struct bodies {            /* of a server; any thread */
    const char *directory; /* lent: where the files are */
    size_t received_limit, parsed_limit;
    atomic_size_t received, parsed; /* bytes: in memory or files; of texts and trees */
};

struct body {           /* {0}: empty */
    char *bytes;        /* owned; NULL: in the file, or empty */
    struct spill *file; /* owned */
    size_t length, counted;
};

/* Appends `size` bytes. `declared`: how many there will be in all, 0 where the client did not say. STATUS_UNAVAILABLE:
 * too many bodies are held; STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status body_append(struct bodies *bodies, struct body *body, const char *bytes, size_t size,
                                   uint64_t declared, struct error *error);
/* Reads `size` bytes at `at`, which it has. STATUS_IO. */
MUST_CHECK enum status body_read(const struct body *body, size_t at, void *out, size_t size, struct error *error);
void body_reset(struct bodies *bodies, struct body *body);

/* Takes `bytes` out of the budget for what is parsed. False: others have it; ask again once they have given it back. */
bool bodies_reserve(struct bodies *bodies, size_t bytes);
void bodies_release(struct bodies *bodies, size_t bytes);

#endif
