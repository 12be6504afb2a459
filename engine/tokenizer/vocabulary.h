/* vocabulary.h: token contents and their ids, both ways. */
#ifndef TOKENIZER_VOCABULARY_H
#define TOKENIZER_VOCABULARY_H

#include "tokenizer/text.h"

struct vocabulary_entry {
    uint32_t at, size; /* in `contents` */
    uint32_t id;
};

/* Caller's memory; only `size` may be read by others. */
struct vocabulary {
    struct text contents;
    struct vocabulary_entry *entries;
    int64_t count, capacity;
    uint32_t *slots; /* entry index + 1, 0: free */
    size_t slot_count;
    int32_t *by_id; /* entry index, -1: none */
    int64_t size;   /* largest id + 1 */
    int64_t by_id_capacity;
    uint64_t seed; /* of the hash, so that a hostile file cannot provoke collisions */
};

MUST_CHECK enum status vocabulary_init(struct vocabulary *vocabulary, struct error *error);
void vocabulary_reset(struct vocabulary *vocabulary); /* releases; {0} is fine */

/* STATUS_CORRUPT for a duplicate content or id, STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status vocabulary_add(struct vocabulary *vocabulary, const char *content, size_t size, uint32_t id,
                                      struct error *error);
/* The id of the content; -1 when there is none. */
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *content, size_t size);
/* Content of `id`, lent until the next add, not NUL-terminated; NULL when there is none. */
const char *vocabulary_content(const struct vocabulary *vocabulary, int64_t id, size_t *size);

/* A seeded hash of bytes, for tables in memory only. */
uint64_t vocabulary_hash(uint64_t seed, const char *bytes, size_t size);

#endif
