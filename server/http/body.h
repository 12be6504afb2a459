/* body.h: holds the bytes of request bodies between socket and parser, and bounds the memory of all bodies of a server.
 * A small body is in memory, a larger one in a nameless file, so that uploads do not fill the memory. Parsing takes its
 * bytes from one budget before it starts: the text of a large member, and the expected size of the JSON tree
 * (tree_cost). Private to server/http. */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct spill;

/* BODY_SMALL: the most bytes of a body in memory. BODY_FREE: a request whose parsing takes no more than this never
 * waits for others. It is counted all the same; there are at most as many as handler threads and waiting requests. */
enum { BODY_SMALL = 16 << 10, BODY_FREE = 64 << 10 };

struct bodies {            /* the bodies of a server; any thread */
    const char *directory; /* lent: the directory of the files */
    size_t received_limit, parsed_limit;
    atomic_size_t received, parsed; /* bytes in memory or files; bytes of texts and trees */
};

struct body {           /* {0}: empty */
    char *bytes;        /* owned; NULL: the body is in the file, or empty */
    struct spill *file; /* owned */
    size_t length, counted;
};

/* Appends `size` bytes. `declared`: the length of the body; 0 when the client did not say. STATUS_UNAVAILABLE: too many
 * bodies are held; STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status body_append(struct bodies *bodies, struct body *body, const char *bytes, size_t size,
                                   uint64_t declared, struct error *error);
/* Reads `size` bytes at offset `at`, which must exist. STATUS_IO. */
MUST_CHECK enum status body_read(const struct body *body, size_t at, void *out, size_t size, struct error *error);
void body_reset(struct bodies *bodies, struct body *body);

/* Takes `bytes` from the budget for parsing. False: the budget is in use; ask again when others have returned their
 * part. */
bool bodies_reserve(struct bodies *bodies, size_t bytes);
void bodies_release(struct bodies *bodies, size_t bytes);

#endif
