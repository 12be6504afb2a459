#include "http/encoding.h"

#include "base/hex.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { HASH_CHUNK = 16 << 10 };

/* Adds the source's bytes to the hash. *good: false when hashing failed. */
static enum status add_source(EVP_MD_CTX *context, const struct hash_source *source, bool *good, struct error *error)
{
    char chunk[HASH_CHUNK];
    for (size_t at = 0; at < source->length && *good; at += sizeof chunk) {
        const size_t left = source->length - at, size = left < sizeof chunk ? left : sizeof chunk;
        const enum status status = source->read(source->owner, at, chunk, size, error);
        if (status != STATUS_OK) return status;
        *good = EVP_DigestUpdate(context, chunk, size) == 1;
    }
    return STATUS_OK;
}

enum status encoding_sha256(const struct hash_part *parts, size_t count, const struct hash_source *rest,
                            char out[SHA256_TEXT_SIZE], struct error *error)
{
    enum status status = STATUS_OK;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; i < count && good; i++) good = EVP_DigestUpdate(context, parts[i].bytes, parts[i].length) == 1;
    if (rest != NULL) status = add_source(context, rest, &good, error);
    good = good && EVP_DigestFinal_ex(context, digest, &digest_length) == 1;
    EVP_MD_CTX_free(context);
    if (status != STATUS_OK) return status;
    if (!good) return error_set(error, STATUS_NO_MEMORY, "cannot hash: out of memory");
    hex_write(digest, 32, out);
    return STATUS_OK;
}

enum status encoding_etag(const void *bytes, size_t length, char out[ETAG_SIZE], struct error *error)
{
    char text[SHA256_TEXT_SIZE];
    const struct hash_part part = {bytes, length};
    enum status status = encoding_sha256(&part, 1, NULL, text, error);
    if (status != STATUS_OK) return status;
    memcpy(out, text, ETAG_SIZE - 1);
    out[ETAG_SIZE - 1] = '\0';
    return STATUS_OK;
}

bool encoding_etag_any(const char *tags)
{
    if (tags == NULL) return false;
    tags += strspn(tags, " \t");
    return *tags == '*' && tags[1 + strspn(tags + 1, " \t")] == '\0';
}

bool encoding_etag_matches(const char *tags, const char *etag, bool weak)
{
    static const char gzip_suffix[] = "-gzip";
    const size_t length = strlen(etag);
    if (tags == NULL) return false;
    if (encoding_etag_any(tags)) return true;
    for (const char *c = tags; *c;) {
        c += strspn(c, " \t,");
        const bool marked = strncmp(c, "W/", 2) == 0;
        if (marked) c += 2;
        if (*c != '"') return false;
        const char *tag = c + 1, *end = strchr(tag, '"');
        if (end == NULL) return false;
        size_t tag_length = (size_t)(end - tag);
        if (tag_length > sizeof gzip_suffix - 1 &&
            strncmp(end - (sizeof gzip_suffix - 1), gzip_suffix, sizeof gzip_suffix - 1) == 0)
            tag_length -= sizeof gzip_suffix - 1;
        if ((weak || !marked) && tag_length == length && memcmp(tag, etag, length) == 0) return true;
        c = end + 1;
    }
    return false;
}

bool encoding_compressible(const char *content_type)
{
    static const char *const types[] = {"text/",
                                        "application/json",
                                        "application/problem+json",
                                        "application/yaml",
                                        "application/xml",
                                        "application/javascript",
                                        "image/svg+xml",
                                        "application/x-ndjson"};
    if (strncmp(content_type, "text/event-stream", 17) == 0) return false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strncmp(content_type, types[i], strlen(types[i])) == 0) return true;
    return false;
}

enum status encoding_gzip(const void *bytes, size_t length, int level, char **out, size_t *out_length,
                          struct error *error)
{
    z_stream stream = {0};
    *out = NULL;
    *out_length = 0;
    if (length < 2 || length > INT_MAX) return STATUS_OK;
    /* 15 + 16: the largest window, with a gzip header */
    if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return error_set(error, STATUS_NO_MEMORY, "out of memory for compression");
    unsigned char *packed = malloc(length - 1);
    stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)length;
    stream.next_out = packed;
    stream.avail_out = (uInt)(length - 1);
    const int result = packed != NULL ? deflate(&stream, Z_FINISH) : Z_MEM_ERROR;
    const size_t packed_length = length - 1 - stream.avail_out;
    (void)deflateEnd(&stream);
    if (result == Z_STREAM_END) {
        *out = (char *)packed;
        *out_length = packed_length;
        return STATUS_OK;
    }
    free(packed);
    if (result == Z_MEM_ERROR) return error_set(error, STATUS_NO_MEMORY, "out of memory for compression");
    return STATUS_OK; /* no space: the result would not be smaller */
}
