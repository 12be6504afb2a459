/* pair_map.h: a hash table from a pair of 32-bit numbers to two others: the merges of BPE, and sets of neighbours. */
#ifndef TOKENIZER_PAIR_MAP_H
#define TOKENIZER_PAIR_MAP_H

#include "base/error.h"

#include <stdint.h>

struct pair_map_slot {
    uint64_t key;      /* left << 32 | right, plus 1; 0: free */
    uint32_t rank, id; /* the values of the pair */
};

/* Caller's memory; {0} is an empty map. */
struct pair_map {
    struct pair_map_slot *slots;
    size_t slot_count;
    int64_t count;
    uint64_t seed; /* set before the first put */
};

/* Adds the pair or replaces its values. STATUS_NO_MEMORY. */
MUST_CHECK enum status pair_map_put(struct pair_map *map, uint32_t left, uint32_t right, uint32_t rank, uint32_t id,
                                    struct error *error);
void pair_map_reset(struct pair_map *map);

/* NULL when the pair is not there. */
static inline const struct pair_map_slot *pair_map_find(const struct pair_map *map, uint32_t left, uint32_t right)
{
    if (map->count == 0) return NULL;
    uint64_t key = ((uint64_t)left << 32 | right) + 1, mixed = (key ^ map->seed) * UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = map->slot_count - 1, i = (size_t)(mixed ^ mixed >> 29) & mask;
    while (map->slots[i].key != key) {
        if (map->slots[i].key == 0) return NULL;
        i = (i + 1) & mask;
    }
    return &map->slots[i];
}

#endif
