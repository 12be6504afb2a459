/* hash.h: SHA-256 of contents, as 64 hex digits, so that equal work is recognised whatever it is called. */
#ifndef INPUTS_HASH_H
#define INPUTS_HASH_H

#include "base/error.h"

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
/* The same as 32 bytes. */
MUST_CHECK enum status hash_finish_bytes(struct hash *hash, unsigned char out[32], struct error *error);
void hash_free(struct hash *hash); /* NULL is fine */

/* Adds all bytes of the regular file at `path`; `label` names it in errors. STATUS_INPUT_CHANGED when it shrinks
 * meanwhile. */
MUST_CHECK enum status hash_add_file(struct hash *hash, const char *path, struct error *error);

/* Adds some of the file's bytes, spread evenly over it: cheap, and different checkpoints of one training run differ
 * everywhere. */
MUST_CHECK enum status hash_add_sample(struct hash *hash, const char *path, struct error *error);

/* Of the canonical text: keys sorted, no white space. */
MUST_CHECK enum status hash_json(const json_t *value, char out[HASH_TEXT], struct error *error);

#endif
