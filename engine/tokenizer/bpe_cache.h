/* bpe_cache.h: caches the ids of words. Bounded: a full cache is emptied. */
#ifndef TOKENIZER_BPE_CACHE_H
#define TOKENIZER_BPE_CACHE_H

#include "base/error.h"

#include <stdint.h>

enum { BPE_CACHE_WORD = 64 }; /* longer words are not kept */

/* Start with {0}; nothing is allocated before the first put. */
struct bpe_cache {
    struct bpe_cache_slot *slots;
    char *words;
    uint32_t *ids;
    uint32_t word_bytes, id_count, entries;
};
void bpe_cache_reset(struct bpe_cache *cache);

/* The ids of the word [*count], lent until the next put; NULL when the word is not cached. `hash` is the word's. */
const uint32_t *bpe_cache_find(const struct bpe_cache *cache, uint64_t hash, const char *word, size_t bytes,
                               int64_t *count);

/* Caches a word of at most BPE_CACHE_WORD bytes. Does nothing when memory is short. */
void bpe_cache_put(struct bpe_cache *cache, uint64_t hash, const char *word, size_t bytes, const uint32_t *ids,
                   int64_t count);

#endif
