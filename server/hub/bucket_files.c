#include "hub/bucket_files.h"

#include "base/hex.h"
#include "hub/source.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SHA-256 of texts, each with its NUL, as hexadecimal digits. */
static enum status hash_texts(const char *const *texts, size_t count, char out[65], struct error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; good && i < count; i++) good = EVP_DigestUpdate(context, texts[i], strlen(texts[i]) + 1) == 1;
    good = good && EVP_DigestFinal_ex(context, digest, &length) == 1;
    EVP_MD_CTX_free(context);
    if (good) hex_write(digest, length, out);
    return good ? STATUS_OK : error_no_memory(error, "a hash");
}

/* ---- the list ---- */

/* A blob is named by its object, because its content is not known before it is fetched. */
static enum status take_file(const struct source_of_bucket *source, const struct listing_item *item, const char *name,
                             struct repository_file *out, struct error *error)
{
    char size[32], digits[65];
    (void)snprintf(size, sizeof size, "%lld", (long long)item->bytes);
    const char *const texts[] = {source->bucket.base, source->place.key, name, item->etag, size};
    *out = (struct repository_file){.bytes = item->bytes};
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    (void)snprintf(out->etag, sizeof out->etag, "%s", item->etag);
    const enum status status = hash_texts(texts, sizeof texts / sizeof texts[0], digits, error);
    if (status == STATUS_OK) (void)snprintf(out->oid, sizeof out->oid, "object-%s", digits);
    return status;
}

enum status bucket_files_listing(const struct repository_caller *caller, const char *place, bool deep,
                                 struct listing *out, struct error *error)
{
    struct source_of_bucket source;
    *out = (struct listing){0};
    const enum status status = source_of_bucket_init(&source, caller->hub, place, error);
    return status == STATUS_OK ? listing_make(&source.bucket, &caller->asking, &source.place, deep, out, error)
                               : status;
}

enum status bucket_files_take(const struct repository_caller *caller, const char *place,
                              const struct listing_item *items, size_t item_count, size_t skipped,
                              struct repository_file **out, size_t *count, struct error *error)
{
    struct source_of_bucket source;
    *out = NULL;
    *count = 0;
    enum status status = source_of_bucket_init(&source, caller->hub, place, error);
    if (status == STATUS_OK && item_count > REPOSITORY_FILES_MOST)
        status =
            error_set(error, STATUS_TOO_LARGE, "%.300s: more than %d objects lie in it", place, REPOSITORY_FILES_MOST);
    if (status == STATUS_OK && (*out = calloc(item_count + 1, sizeof **out)) == NULL)
        status = error_no_memory(error, "a list of objects");
    for (size_t i = 0; status == STATUS_OK && i < item_count; i++)
        if (names_is_file(items[i].name + skipped))
            status = take_file(&source, &items[i], items[i].name + skipped, &(*out)[(*count)++], error);
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

enum status bucket_files_list(const struct repository_caller *caller, const char *place, bool deep,
                              struct repository_file **out, size_t *count, struct error *error)
{
    struct listing listing = {0};
    *out = NULL;
    *count = 0;
    enum status status = bucket_files_listing(caller, place, deep, &listing, error);
    if (status == STATUS_OK && listing.count == 0)
        status = error_set(error, STATUS_NOT_FOUND, "%.300s: no object lies below it", place);
    if (status == STATUS_OK)
        status = bucket_files_take(caller, place, listing.items, listing.count, 0, out, count, error);
    listing_reset(&listing);
    return status;
}

/* ---- the directory's commit ---- */

static int compare_names(const void *a, const void *b)
{
    const struct repository_file *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

enum status bucket_files_commit(const struct repository_file *files, size_t count, char out[NAMES_COMMIT],
                                struct error *error)
{
    char digits[65];
    const struct repository_file **sorted = calloc(count + 1, sizeof *sorted);
    const char **texts = calloc(3 * count + 1, sizeof *texts);
    char(*sizes)[24] = calloc(count + 1, sizeof *sizes);
    enum status status =
        sorted == NULL || texts == NULL || sizes == NULL ? error_no_memory(error, "a list of objects") : STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < count; i++) sorted[i] = &files[i];
    if (status == STATUS_OK && count > 0) qsort(sorted, count, sizeof *sorted, compare_names);
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        (void)snprintf(sizes[i], sizeof sizes[i], "%lld", (long long)sorted[i]->bytes);
        texts[3 * i] = sorted[i]->name;
        texts[3 * i + 1] = sorted[i]->etag;
        texts[3 * i + 2] = sizes[i];
    }
    if (status == STATUS_OK) status = hash_texts(texts, 3 * count, digits, error);
    if (status == STATUS_OK) (void)snprintf(out, NAMES_COMMIT, "%.*s", NAMES_COMMIT - 1, digits);
    free(sizes);
    free(texts);
    free(sorted);
    return status;
}

/* ---- the expected hash ---- */

/* Converts base64 of `bytes` bytes into "NAME-hexadecimal digits". False for any other text: a composite of the
 * checksums of parts has "-N" at its end. */
static bool read_base64(const char *text, const char *name, size_t bytes, char out[DIGEST_TEXT])
{
    unsigned char decoded[64];
    char digits[2 * sizeof decoded + 1];
    const size_t length = strlen(text), coded = 4 * ((bytes + 2) / 3);
    if (length != coded || coded > 3 * sizeof decoded / 4 ||
        EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)length) < (int)bytes)
        return false;
    hex_write(decoded, bytes, digits);
    (void)snprintf(out, DIGEST_TEXT, "%s-%.64s", name, digits);
    return true;
}

static void read_check(const struct transfer_head *head, struct repository_file *file)
{
    enum { SHA256_BYTES = 32, CRC_BYTES = 8, MD5_DIGITS = 32 };
    const bool whole = head->checksum_type[0] == '\0' || strcmp(head->checksum_type, "FULL_OBJECT") == 0;
    const bool keyed = strncmp(head->encryption, "aws:kms", 7) == 0;
    file->check[0] = '\0';
    if (whole && read_base64(head->sha256, "sha256", SHA256_BYTES, file->check)) return;
    if (whole && read_base64(head->crc64nvme, "crc64nvme", CRC_BYTES, file->check)) return;
    if (!keyed && names_is_hex(file->etag, MD5_DIGITS))
        (void)snprintf(file->check, sizeof file->check, "md5-%.32s", file->etag);
}

enum status bucket_files_ask_check(const struct repository_caller *caller, const char *place,
                                   struct repository_file *file, struct error *error)
{
    struct source_of_bucket source;
    char match[LISTING_ETAG + 16], key[OBJECTS_PLACE_KEY], what[OBJECTS_PLACE_MOST];
    const char *const headers[] = {match, "x-amz-checksum-mode: ENABLED", NULL};
    struct transfer_head *head = malloc(sizeof *head);
    enum status status = head == NULL ? error_no_memory(error, "a list of objects")
                                      : source_of_bucket_init(&source, caller->hub, place, error);
    if (status != STATUS_OK) goto done;
    (void)snprintf(match, sizeof match, "If-Match: \"%s\"", file->etag);
    if (!objects_place_key(&source.place, file->name, key)) {
        status = error_set(error, STATUS_INVALID, "%.200s: the key is too long", file->name);
        goto done;
    }
    (void)snprintf(what, sizeof what, "%.400s/%.400s", place, file->name);
    const struct bucket_request request = {.method = TRANSFER_HEAD, .key = key, .headers = headers, .what = what};
    status = bucket_ask(&source.bucket, &caller->asking, &request, head, NULL, error);
    if (status == STATUS_OK && (strcmp(head->etag, file->etag) != 0 || head->length != file->bytes))
        status =
            error_set(error, STATUS_INPUT_CHANGED, "%.300s: the object is not the one any more that was listed", what);
    if (status == STATUS_OK) read_check(head, file);
done:
    free(head);
    return status;
}
