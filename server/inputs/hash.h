/* hash.h: SHA-256 of contents, as 64 hex digits, so that equal work is recognised under any name. */
#ifndef INPUTS_HASH_H
#define INPUTS_HASH_H

#include "base/error.h"
#include "base/monitor.h"

#include <jansson.h>
#include <stdint.h>

enum { HASH_TEXT = 65 };

/* Files of at most this many bytes are hashed when they are registered, larger ones by the first run that reads
 * them. */
#define HASH_AT_ONCE (INT64_C(256) << 20)

struct hash;

MUST_CHECK enum status hash_new(struct hash **out, struct error *error);
void hash_add(struct hash *hash, const void *bytes, size_t length);
/* Writes the digits and frees. STATUS_NO_MEMORY when anything failed on the way. */
MUST_CHECK enum status hash_finish(struct hash *hash, char out[HASH_TEXT], struct error *error);
/* As hash_finish, but writes 32 bytes. */
MUST_CHECK enum status hash_finish_bytes(struct hash *hash, unsigned char out[32], struct error *error);
void hash_free(struct hash *hash); /* NULL is fine */

/* Makes hash_add_file and hash_add_part report to `monitor` (lent; may be NULL) how many bytes of `total` they have
 * read, and check it at every chunk, because hundreds of gigabytes take an hour. */
void hash_watch(struct hash *hash, const struct monitor *monitor, int64_t total);

/* Adds bytes of a long input and reports them to the monitor. Statuses of the monitor. */
MUST_CHECK enum status hash_add_part(struct hash *hash, const void *bytes, size_t length, struct error *error);

/* Adds all bytes of the regular file at `path`. STATUS_INPUT_CHANGED when it shrinks meanwhile; statuses of the
 * monitor. */
MUST_CHECK enum status hash_add_file(struct hash *hash, const char *path, struct error *error);

/* As hash_add_file, for a file of at most `most` bytes that is hashed while a request waits. STATUS_INVALID. */
MUST_CHECK enum status hash_add_small_file(struct hash *hash, const char *path, int64_t most, struct error *error);

/* Adds samples of the file's bytes, spread evenly over it. This is cheap, and different checkpoints of one training run
 * differ everywhere. */
MUST_CHECK enum status hash_add_sample(struct hash *hash, const char *path, struct error *error);

/* Hashes the canonical text: keys sorted, no white space. */
MUST_CHECK enum status hash_json(const json_t *value, char out[HASH_TEXT], struct error *error);

#endif
