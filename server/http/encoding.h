/* encoding.h: entity tags and gzip. */
#ifndef HTTP_ENCODING_H
#define HTTP_ENCODING_H

#include "base/error.h"

enum { ETAG_SIZE = 33, SHA256_TEXT_SIZE = 65 };

struct hash_part {
    const void *bytes;
    size_t length;
};

/* Bytes that are read a little at a time. */
struct hash_source {
    const void *owner;
    size_t length;
    enum status (*read)(const void *owner, size_t at, void *out, size_t size, struct error *error);
};

/* Lower-case hex SHA-256 of the parts, one after the other, and of `rest` (NULL: nothing) behind them.
 * STATUS_NO_MEMORY, what the source gives. */
MUST_CHECK enum status encoding_sha256(const struct hash_part *parts, size_t count, const struct hash_source *rest,
                                       char out[SHA256_TEXT_SIZE], struct error *error);

/* The strong entity tag of a body, without quotes: half of its SHA-256. */
MUST_CHECK enum status encoding_etag(const void *bytes, size_t length, char out[ETAG_SIZE], struct error *error);

/* Whether an If-None-Match or If-Match header names `etag` (without quotes), any coding of it ("…-gzip"), or "*".
 * `weak`: a tag that was marked as weak counts too. */
bool encoding_etag_matches(const char *tags, const char *etag, bool weak);

/* Whether a body of this type is worth compressing. */
bool encoding_compressible(const char *content_type);

/* Compresses the bytes with gzip into *out (the caller frees it). *out is NULL, with STATUS_OK, when that would not be
 * smaller. STATUS_NO_MEMORY. */
MUST_CHECK enum status encoding_gzip(const void *bytes, size_t length, int level, char **out, size_t *out_length,
                                     struct error *error);

#endif
