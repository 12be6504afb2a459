/* hub.h: the configuration of the servers from which checkpoints are fetched: the hub, and object storage. It does not
 * change, so threads may share it. */
#ifndef HUB_HUB_H
#define HUB_HUB_H

#include "base/error.h"
#include "objects/objects.h"
#include "transfer/transfer.h"

#include <stdatomic.h>
#include <stdint.h>

struct hub_options {
    const char *endpoint;       /* "https://huggingface.co"; http only on a loopback address */
    const char *token;          /* NULL: none. Sent only to the endpoint; never logged, never stored */
    bool allow_private;         /* redirects may lead to addresses of this machine and of private networks */
    const char *data_directory; /* fetched files are in its hub/ */
    const char *cache; /* the most that the cache may hold: "200G" (K, M, G, T: powers of 1,024); NULL or "": half of
                        * the file system */
    struct objects_options objects; /* buckets, whose files lie in the same cache */
};

/* For the files of this room. */
struct hub {
    struct transfer_server server; /* must be first: its authorize finds the hub through it */
    char endpoint[512];            /* without a slash at its end */
    char *token;                   /* NULL: none */
    struct objects *objects;       /* owned */
    char *directory;
    int64_t cache_bytes;
    atomic_int *visitors; /* owned: see hub_enter */
};

/* Checks the options and makes the directory. Call it before the first thread. The caller owns *out (hub_free).
 * STATUS_INVALID, STATUS_NO_MEMORY, STATUS_IO (names the directory, for the user who starts the program). */
MUST_CHECK enum status hub_new(const struct hub_options *options, struct hub **out, struct error *error);
void hub_free(struct hub *hub); /* NULL is fine */

/* Checks the options as hub_new does, without the data directory, which may not exist yet. */
MUST_CHECK enum status hub_check(const struct hub_options *options, struct error *error);

/* For request handlers, which hold a thread while they wait for the hub: at most HUB_VISITORS may do so at a time.
 * STATUS_TOO_MANY. */
enum { HUB_VISITORS = 2 };
MUST_CHECK enum status hub_enter(const struct hub *hub, struct error *error);
void hub_leave(const struct hub *hub);

#endif
