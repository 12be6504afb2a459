#include "inputs/hash.h"

#include "base/hex.h"
#include "files/file.h"
#include "json/written.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20, SAMPLE = 1 << 14, SAMPLES = 64 };

struct hash {
    EVP_MD_CTX *context;
    bool failed;
    const struct monitor *monitor; /* lent */
    int64_t done, total;           /* bytes reported to it */
};

enum status hash_new(struct hash **out, struct error *error)
{
    struct hash *hash = calloc(1, sizeof *hash);
    *out = NULL;
    if (hash != NULL) hash->context = EVP_MD_CTX_new();
    if (hash == NULL || hash->context == NULL || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        hash_free(hash);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
    }
    *out = hash;
    return STATUS_OK;
}

void hash_add(struct hash *hash, const void *bytes, size_t length)
{
    if (EVP_DigestUpdate(hash->context, bytes, length) != 1) hash->failed = true;
}

enum status hash_finish_bytes(struct hash *hash, unsigned char out[32], struct error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    const bool good = !hash->failed && EVP_DigestFinal_ex(hash->context, digest, NULL) == 1;
    hash_free(hash);
    memcpy(out, digest, 32);
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a hash");
}

enum status hash_finish(struct hash *hash, char out[HASH_TEXT], struct error *error)
{
    unsigned char digest[32];
    const enum status status = hash_finish_bytes(hash, digest, error);
    hex_write(digest, sizeof digest, out);
    return status;
}

void hash_free(struct hash *hash)
{
    if (hash == NULL) return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

void hash_watch(struct hash *hash, const struct monitor *monitor, int64_t total)
{
    hash->monitor = monitor;
    hash->total = total;
}

enum status hash_add_part(struct hash *hash, const void *bytes, size_t length, struct error *error)
{
    hash_add(hash, bytes, length);
    hash->done += (int64_t)length;
    monitor_progress(hash->monitor, hash->done, hash->total > hash->done ? hash->total : hash->done, "byte");
    return monitor_check(hash->monitor, error);
}

/* Adds chunks of `chunk` bytes whose starts are `stride` apart. */
static enum status add_chunks(struct hash *hash, const char *path, int64_t chunk, int64_t chunks, int64_t most,
                              struct error *error)
{
    struct file *file = NULL;
    char *bytes = NULL;
    enum status status = file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, most, &file, error);
    if (status != STATUS_OK) return status;
    const int64_t size = file_bytes(file);
    const int64_t stride = chunks > 0 && size / chunks > chunk ? size / chunks : chunk;
    bytes = malloc((size_t)chunk);
    if (bytes == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory to read a file");
    hash_add(hash, &size, sizeof size);
    for (int64_t at = 0; status == STATUS_OK && at < size; at += stride) {
        const size_t length = (size_t)(size - at < chunk ? size - at : chunk);
        status = file_read(file, at, bytes, length, error);
        if (status == STATUS_OK && chunks == 0)
            status = hash_add_part(hash, bytes, length, error);
        else if (status == STATUS_OK)
            hash_add(hash, bytes, length);
    }
    free(bytes);
    file_close(file);
    return status;
}

enum status hash_add_file(struct hash *hash, const char *path, struct error *error)
{
    return add_chunks(hash, path, CHUNK, 0, INT64_MAX, error);
}

enum status hash_add_small_file(struct hash *hash, const char *path, int64_t most, struct error *error)
{
    return add_chunks(hash, path, CHUNK, 0, most, error);
}

enum status hash_add_sample(struct hash *hash, const char *path, struct error *error)
{
    return add_chunks(hash, path, SAMPLE, SAMPLES, INT64_MAX, error);
}

enum status hash_json(const json_t *value, char out[HASH_TEXT], struct error *error)
{
    struct hash *hash = NULL;
    char *text = written_json(value, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a document");
    enum status status = hash_new(&hash, error);
    if (status == STATUS_OK) {
        hash_add(hash, text, strlen(text));
        status = hash_finish(hash, out, error);
    }
    free(text);
    return status;
}
