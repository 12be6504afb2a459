#include "tokenizer/pair_map.h"

#include <stdlib.h>

static struct pair_map_slot *place(const struct pair_map *map, uint64_t key)
{
    uint64_t mixed = (key ^ map->seed) * UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = map->slot_count - 1, i = (size_t)(mixed ^ mixed >> 29) & mask;
    while (map->slots[i].key != key && map->slots[i].key != 0) i = (i + 1) & mask;
    return &map->slots[i];
}

static enum status grow(struct pair_map *map, struct error *error)
{
    struct pair_map old = *map;
    map->slot_count = old.slot_count ? old.slot_count * 2 : 1024;
    map->slots = calloc(map->slot_count, sizeof *map->slots);
    if (map->slots == NULL) {
        *map = old;
        return error_set(error, STATUS_NO_MEMORY, "no memory for a table of pairs");
    }
    for (size_t i = 0; i < old.slot_count; i++) {
        if (old.slots[i].key != 0) *place(map, old.slots[i].key) = old.slots[i];
    }
    free(old.slots);
    return STATUS_OK;
}

enum status pair_map_put(struct pair_map *map, uint32_t left, uint32_t right, uint32_t rank, uint32_t id,
                         struct error *error)
{
    if (map->count * 2 >= (int64_t)map->slot_count) {
        enum status status = grow(map, error);
        if (status != STATUS_OK) return status;
    }
    uint64_t key = ((uint64_t)left << 32 | right) + 1;
    struct pair_map_slot *slot = place(map, key);
    if (slot->key == 0) map->count++;
    *slot = (struct pair_map_slot){.key = key, .rank = rank, .id = id};
    return STATUS_OK;
}

void pair_map_reset(struct pair_map *map)
{
    free(map->slots);
    *map = (struct pair_map){0};
}
