/* objects_place.h: "s3://BUCKET/PREFIX", a place in object storage. Places come from requests and become parts of
 * addresses; keys below them become paths below the data directory. */
#ifndef OBJECTS_OBJECTS_PLACE_H
#define OBJECTS_OBJECTS_PLACE_H

#include "base/error.h"

#define OBJECTS_PLACE_SCHEME "s3://"
enum { OBJECTS_PLACE_BUCKET = 64, OBJECTS_PLACE_KEY = 1025, OBJECTS_PLACE_MOST = 900 };

struct objects_place {
    char bucket[OBJECTS_PLACE_BUCKET];
    char key[OBJECTS_PLACE_KEY]; /* without slashes at its ends; "": the bucket itself */
};

/* Whether the text begins like a place in object storage, valid or not. */
bool objects_place_is(const char *text);

/* STATUS_INVALID at `pointer` unless the bucket has 3 to 63 letters, digits, ".", "-" and "_", and no part of the
 * prefix is empty, "." or ".." or has control characters. Slashes at the end are ignored. */
MUST_CHECK enum status objects_place_read(const char *text, const char *pointer, struct objects_place *out,
                                          struct error *error);

/* "s3://BUCKET/PREFIX" without a slash at its end; equal places give equal texts. */
void objects_place_write(const struct objects_place *place, char *out, size_t size);

/* The key of the object `name` below the place. False when it is too long. */
bool objects_place_key(const struct objects_place *place, const char *name, char out[OBJECTS_PLACE_KEY]);

#endif
