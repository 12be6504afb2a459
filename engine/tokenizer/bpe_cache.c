#include "tokenizer/bpe_cache.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 16, ENTRIES = SLOTS / 2, WORDS = ENTRIES * 12, IDS = ENTRIES * 5 };

struct bpe_cache_slot {
    uint64_t hash; /* 0: free */
    uint32_t word_at, ids_at;
    uint16_t bytes, count;
};

void bpe_cache_reset(struct bpe_cache *cache)
{
    free(cache->slots);
    free(cache->words);
    free(cache->ids);
    *cache = (struct bpe_cache){0};
}

static struct bpe_cache_slot *place(const struct bpe_cache *cache, uint64_t hash, const char *word, size_t bytes)
{
    size_t i = (size_t)(hash >> 20) % SLOTS;
    for (;; i = (i + 1) % SLOTS) {
        struct bpe_cache_slot *slot = &cache->slots[i];
        if (slot->hash == 0) return slot;
        if (slot->hash == hash && slot->bytes == bytes && memcmp(cache->words + slot->word_at, word, bytes) == 0)
            return slot;
    }
}

const uint32_t *bpe_cache_find(const struct bpe_cache *cache, uint64_t hash, const char *word, size_t bytes,
                               int64_t *count)
{
    if (cache->slots == NULL) return NULL;
    const struct bpe_cache_slot *slot = place(cache, hash | 1, word, bytes);
    *count = slot->count;
    return slot->hash ? cache->ids + slot->ids_at : NULL;
}

static bool prepare(struct bpe_cache *cache, size_t bytes, int64_t count)
{
    if (cache->slots == NULL) {
        struct bpe_cache made = {
            .slots = calloc(SLOTS, sizeof *made.slots), .words = malloc(WORDS), .ids = malloc(IDS * sizeof *made.ids)};
        if (made.slots == NULL || made.words == NULL || made.ids == NULL) {
            bpe_cache_reset(&made);
            return false;
        }
        *cache = made;
    }
    if (cache->entries == ENTRIES || cache->word_bytes + bytes > WORDS || cache->id_count + count > IDS) {
        memset(cache->slots, 0, SLOTS * sizeof *cache->slots);
        cache->entries = cache->word_bytes = cache->id_count = 0;
    }
    return true;
}

void bpe_cache_put(struct bpe_cache *cache, uint64_t hash, const char *word, size_t bytes, const uint32_t *ids,
                   int64_t count)
{
    if (bytes > BPE_CACHE_WORD || count > 4 * BPE_CACHE_WORD || !prepare(cache, bytes, count)) return;
    struct bpe_cache_slot *slot = place(cache, hash | 1, word, bytes);
    if (slot->hash) return;
    *slot = (struct bpe_cache_slot){.hash = hash | 1,
                                    .word_at = cache->word_bytes,
                                    .ids_at = cache->id_count,
                                    .bytes = (uint16_t)bytes,
                                    .count = (uint16_t)count};
    memcpy(cache->words + slot->word_at, word, bytes);
    if (count > 0) memcpy(cache->ids + slot->ids_at, ids, (size_t)count * sizeof *ids);
    cache->word_bytes += (uint32_t)bytes;
    cache->id_count += (uint32_t)count;
    cache->entries++;
}
