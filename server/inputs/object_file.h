/* object_file.h: one object of a bucket as a file: pinned to its version at registration, and fetched into the cache of
 * the machine that reads it. */
#ifndef INPUTS_OBJECT_FILE_H
#define INPUTS_OBJECT_FILE_H

#include "hub/fetch.h"
#include "inputs/run_context.h"
#include "objects/objects_place.h"

/* The two parts of "s3://BUCKET/DIRECTORY/NAME". */
struct object_file {
    char directory[OBJECTS_PLACE_MOST + 8], name[NAMES_FILE_MOST + 1];
};

/* Splits the place `path`, in canonical form. STATUS_INVALID at `pointer`: no such place, or a whole bucket. */
MUST_CHECK enum status object_file_read(const char *path, const char *pointer, struct object_file *out,
                                        struct error *error);

/* Asks for the value that identifies the present content, while a request waits. A refusal of the server is
 * STATUS_INVALID at `pointer`; STATUS_UNAVAILABLE, STATUS_TOO_MANY. */
MUST_CHECK enum status object_file_commit(const struct hub *hub, const struct object_file *file, const char *pointer,
                                          char out[NAMES_COMMIT], struct error *error);

/* Opens the file on this machine: path [4096], and *hold, which prevents its eviction (hub_cache_release; the
 * caller's). A worker fetches a missing file; a plan does not (STATUS_INVALID). STATUS_INPUT_CHANGED: the object is no
 * longer `commit`. Statuses of fetch_run. */
MUST_CHECK enum status object_file_open(const struct run_context *context, const struct object_file *file,
                                        const char *commit, char path[4096], struct hub_cache_hold **hold,
                                        struct error *error);

#endif
