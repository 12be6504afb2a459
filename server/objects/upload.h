/* upload.h: uploads a file as an object. */
#ifndef OBJECTS_UPLOAD_H
#define OBJECTS_UPLOAD_H

#include "objects/bucket.h"

enum { UPLOAD_PART = 16 << 20, UPLOAD_PARTS_MOST = 9000 };

/* Uploads the `bytes` bytes of `fd` as `key`: small ones at once, larger ones in parts, each of which is tried again on
 * its own; the object appears when the last step of it is done, and an upload that fails is given up, so that its parts
 * cost nothing. The server holds the bytes against their hash, which is part of the signature. An object of that key
 * that is there already counts as uploaded when its ETag is that of these bytes; what has other bytes, or an ETag that
 * tells nothing (keys of a key service), is written anew. Asks the monitor between parts. Statuses of bucket_ask;
 * STATUS_IO. */
MUST_CHECK enum status upload_file(const struct bucket *bucket, const struct asking *asking, const char *key, int fd,
                                   int64_t bytes, struct error *error);

#endif
