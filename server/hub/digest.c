#include "hub/digest.h"

#include "base/hex.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CRC-64/NVME, the checksum that S3 computes when the client gives none: reflected polynomial 0x9a6c9329ac4bc9b5, all
 * ones at the beginning and inverted at the end. No library of Debian has it, so it is computed here, eight bytes at a
 * time. */
#define POLYNOMIAL UINT64_C(0x9a6c9329ac4bc9b5)

static const struct algorithm {
    const char *name;
    const EVP_MD *(*digest)(void); /* NULL: the CRC */
} algorithms[] = {
    {"sha256", EVP_sha256},
    {"git", EVP_sha1},
    {"md5", EVP_md5},
    {"crc64nvme", NULL},
};

struct digest {
    const struct algorithm *algorithm; /* NULL: any bytes are right */
    char expected[DIGEST_TEXT];        /* the digits */
    int64_t bytes;
    EVP_MD_CTX *context; /* owned */
    uint64_t crc;
    uint64_t table[8][256];
};

static void fill_table(uint64_t table[8][256])
{
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t value = i;
        for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ ((value & 1) != 0 ? POLYNOMIAL : 0);
        table[0][i] = value;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xff];
}

static uint64_t crc_add(const uint64_t table[8][256], uint64_t crc, const unsigned char *bytes, size_t length)
{
    for (; length >= 8; bytes += 8, length -= 8) {
        for (int i = 0; i < 8; i++) crc ^= (uint64_t)bytes[i] << (8 * i);
        uint64_t next = 0;
        for (int i = 0; i < 8; i++) next ^= table[7 - i][(crc >> (8 * i)) & 0xff];
        crc = next;
    }
    for (; length > 0; bytes++, length--) crc = (crc >> 8) ^ table[0][(crc ^ *bytes) & 0xff];
    return crc;
}

enum status digest_restart(struct digest *digest, struct error *error)
{
    char header[40];
    const struct algorithm *algorithm = digest->algorithm;
    digest->crc = UINT64_MAX;
    if (algorithm == NULL || algorithm->digest == NULL) return STATUS_OK;
    const int length = snprintf(header, sizeof header, "blob %lld", (long long)digest->bytes) + 1; /* its NUL too */
    const bool git = strcmp(algorithm->name, "git") == 0;
    if (EVP_DigestInit_ex(digest->context, algorithm->digest(), NULL) != 1 ||
        (git && EVP_DigestUpdate(digest->context, header, (size_t)length) != 1))
        return error_no_memory(error, "a hash");
    return STATUS_OK;
}

enum status digest_new(const char *expected, int64_t bytes, struct digest **out, struct error *error)
{
    enum status status = STATUS_OK;
    const char *dash = strchr(expected, '-');
    struct digest *digest = calloc(1, sizeof *digest);
    *out = NULL;
    if (digest == NULL) return error_no_memory(error, "a hash");
    digest->bytes = bytes;
    for (size_t i = 0; dash != NULL && i < sizeof algorithms / sizeof algorithms[0]; i++)
        if (strncmp(algorithms[i].name, expected, (size_t)(dash - expected)) == 0 &&
            strlen(algorithms[i].name) == (size_t)(dash - expected))
            digest->algorithm = &algorithms[i];
    if (expected[0] != '\0' && digest->algorithm == NULL)
        status = error_set(error, STATUS_INTERNAL, "\"%.90s\" is no hash", expected);
    (void)snprintf(digest->expected, sizeof digest->expected, "%s", dash != NULL ? dash + 1 : "");
    const bool is_crc = digest->algorithm != NULL && digest->algorithm->digest == NULL;
    if (is_crc) fill_table(digest->table);
    if (status == STATUS_OK && (digest->context = EVP_MD_CTX_new()) == NULL) status = error_no_memory(error, "a hash");
    if (status == STATUS_OK) status = digest_restart(digest, error);
    if (status != STATUS_OK)
        digest_free(digest);
    else
        *out = digest;
    return status;
}

void digest_free(struct digest *digest)
{
    if (digest == NULL) return;
    EVP_MD_CTX_free(digest->context);
    free(digest);
}

enum status digest_add(struct digest *digest, const void *bytes, size_t length, struct error *error)
{
    const struct algorithm *algorithm = digest->algorithm;
    if (algorithm == NULL) return STATUS_OK;
    if (algorithm->digest == NULL) {
        digest->crc = crc_add(digest->table, digest->crc, bytes, length);
        return STATUS_OK;
    }
    return EVP_DigestUpdate(digest->context, bytes, length) == 1 ? STATUS_OK : error_no_memory(error, "a hash");
}

enum status digest_matches(struct digest *digest, bool *right, struct error *error)
{
    unsigned char found[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    const struct algorithm *algorithm = digest->algorithm;
    *right = true;
    if (algorithm == NULL) return STATUS_OK;
    if (algorithm->digest == NULL)
        (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)~digest->crc);
    else if (EVP_DigestFinal_ex(digest->context, found, &length) == 1)
        hex_write(found, length, text);
    else
        return error_no_memory(error, "a hash");
    *right = strcmp(text, digest->expected) == 0;
    return STATUS_OK;
}
