/* object_file.h: one object of a bucket as a file: pinned to what it is when it is registered, and fetched into the
 * cache of the machine that reads it. */
#ifndef INPUTS_OBJECT_FILE_H
#define INPUTS_OBJECT_FILE_H

#include "hub/fetch.h"
#include "inputs/run_context.h"
#include "objects/objects_place.h"

/* "s3://BUCKET/DIRECTORY/NAME" in its two parts. */
struct object_file {
    char directory[OBJECTS_PLACE_MOST + 8], name[NAMES_FILE_MOST + 1];
};

/* Splits the place `path`; in `out` it is in the form that it is known by. STATUS_INVALID at `pointer`: none, or a
 * whole bucket. */
MUST_CHECK enum status object_file_read(const char *path, const char *pointer, struct object_file *out,
                                        struct error *error);

/* What stands for its content now, while a request waits. What the server refuses is STATUS_INVALID at `pointer`;
 * STATUS_UNAVAILABLE, STATUS_TOO_MANY. */
MUST_CHECK enum status object_file_commit(const struct hub *hub, const struct object_file *file, const char *pointer,
                                          char out[NAMES_COMMIT], struct error *error);

/* The file on this machine: path [4096] and what holds it there (hub_cache_release; the caller's). In a worker it is
 * fetched when it is not there; a plan does not do that (STATUS_INVALID). STATUS_INPUT_CHANGED: it is not `commit` any
 * more. Statuses of fetch_run. */
MUST_CHECK enum status object_file_open(const struct run_context *context, const struct object_file *file,
                                        const char *commit, char path[4096], struct hub_cache_hold **hold,
                                        struct error *error);

#endif
