/* bucket_scan.h: finds the checkpoints below a place in a bucket and registers them, pinned to the objects that they
 * are now; they are fetched by the first run that reads them. */
#ifndef WATCH_BUCKET_SCAN_H
#define WATCH_BUCKET_SCAN_H

#include "hub/repository.h"
#include "postgres/connection.h"

#include <jansson.h>

struct bucket_scan_request {
    struct repository_caller caller;
    const char *trajectory;
    const char *place; /* as objects_place_write has it */
    double quiet_seconds;
    bool may_be_empty;
};

/* What lies there by the list of objects: no database. The caller owns *found (bucket_scan_free). STATUS_INVALID:
 * nothing there that looks like a checkpoint, more than SCAN_MOST; statuses of bucket_checkpoints_find. */
struct bucket_scan_found;
MUST_CHECK enum status bucket_scan_look(const struct bucket_scan_request *request, struct bucket_scan_found **found,
                                        struct error *error);
void bucket_scan_free(struct bucket_scan_found *found); /* NULL is fine */

/* Registers them. A checkpoint's name, step and tokens are as scan_directory has them; what changed within the last
 * `quiet_seconds`, or lacks a shard, is left for later. Answers what scan_directory answers; what is registered under
 * the name and was other objects then is among the failed ones. Statuses of the store. */
MUST_CHECK enum status bucket_scan_register(struct connection *connection, const struct bucket_scan_request *request,
                                            const struct bucket_scan_found *found, json_t **document,
                                            struct error *error);

#endif
