/* bucket_scan.h: finds the checkpoints below a place in a bucket and registers them, pinned to the objects' present
 * versions; the first run that reads one fetches it. */
#ifndef WATCH_BUCKET_SCAN_H
#define WATCH_BUCKET_SCAN_H

#include "hub/repository.h"
#include "postgres/connection.h"

#include <jansson.h>

struct bucket_scan_request {
    struct repository_caller caller;
    const char *trajectory;
    const char *place; /* as objects_place_write writes it */
    double quiet_seconds;
    bool may_be_empty;
};

/* Finds what is below the place by listing objects, without the database. The caller owns *found (bucket_scan_free).
 * STATUS_INVALID: nothing there looks like a checkpoint, or more than SCAN_MOST do; statuses of
 * bucket_checkpoints_find. */
struct bucket_scan_found;
MUST_CHECK enum status bucket_scan_look(const struct bucket_scan_request *request, struct bucket_scan_found **found,
                                        struct error *error);
void bucket_scan_free(struct bucket_scan_found *found); /* NULL is fine */

/* Registers the checkpoints found. Name, step and tokens are those of scan_directory; a checkpoint that changed within
 * the last `quiet_seconds`, or lacks a shard, is left for later. Returns what scan_directory returns; a registered
 * checkpoint of that name whose objects were different then is among the failed ones. Statuses of the store. */
MUST_CHECK enum status bucket_scan_register(struct connection *connection, const struct bucket_scan_request *request,
                                            const struct bucket_scan_found *found, json_t **document,
                                            struct error *error);

#endif
