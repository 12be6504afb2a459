/* encoding.h: entity tags and gzip. */
#ifndef HTTP_ENCODING_H
#define HTTP_ENCODING_H

#include "base/error.h"

enum { ETAG_SIZE = 33, SHA256_TEXT_SIZE = 65 };

struct hash_part {
    const void *bytes;
    size_t length;
};

/* A source that is read in small blocks. */
struct hash_source {
    const void *owner;
    size_t length;
    enum status (*read)(const void *owner, size_t at, void *out, size_t size, struct error *error);
};

/* Lower-case hex SHA-256 of the parts, one after another, and then of `rest` (NULL: nothing). STATUS_NO_MEMORY,
 * statuses of the source. */
MUST_CHECK enum status encoding_sha256(const struct hash_part *parts, size_t count, const struct hash_source *rest,
                                       char out[SHA256_TEXT_SIZE], struct error *error);

/* The strong entity tag of a body, without quotes: half of its SHA-256. */
MUST_CHECK enum status encoding_etag(const void *bytes, size_t length, char out[ETAG_SIZE], struct error *error);

/* Whether an If-None-Match or If-Match header is "*", which is any state of what there is. Beside tags, or within one,
 * an asterisk means nothing (RFC 9110, 13.1). */
bool encoding_etag_any(const char *tags);

/* Whether an If-None-Match or If-Match header names `etag` (without quotes), any coding of it ("…-gzip"), or is
 * "*".
 * `weak`: tags that are marked as weak count too. */
bool encoding_etag_matches(const char *tags, const char *etag, bool weak);

/* Whether a body of this type should be compressed. */
bool encoding_compressible(const char *content_type);

/* Compresses the bytes with gzip into *out, which the caller frees. *out is NULL, with STATUS_OK, when compression
 * would not make them smaller. STATUS_NO_MEMORY. */
MUST_CHECK enum status encoding_gzip(const void *bytes, size_t length, int level, char **out, size_t *out_length,
                                     struct error *error);

#endif
