#include "tokenizer/vocabulary.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t vocabulary_hash(uint64_t seed, const char *bytes, size_t size)
{
    uint64_t hash = seed ^ size, word = 0;
    for (; size >= 8; size -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        hash = mix(hash ^ word, UINT64_C(0x9e3779b97f4a7c15) ^ seed);
    }
    word = 0;
    memcpy(&word, bytes, size);
    return mix(hash ^ word, UINT64_C(0xd6e8feb86659fd93) ^ seed);
}

enum status vocabulary_init(struct vocabulary *vocabulary, struct error *error)
{
    *vocabulary = (struct vocabulary){.slot_count = 1024};
    if (getrandom(&vocabulary->seed, sizeof vocabulary->seed, 0) != (ssize_t)sizeof vocabulary->seed)
        return error_set_errno(error, "get random bytes");
    vocabulary->slots = calloc(vocabulary->slot_count, sizeof *vocabulary->slots);
    return vocabulary->slots != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a vocabulary");
}

void vocabulary_reset(struct vocabulary *vocabulary)
{
    text_free(&vocabulary->contents);
    free(vocabulary->entries);
    free(vocabulary->slots);
    free(vocabulary->by_id);
    *vocabulary = (struct vocabulary){0};
}

/* The slot of the content, or the free slot where it belongs. */
static size_t find_slot(const struct vocabulary *vocabulary, const char *content, size_t size)
{
    size_t mask = vocabulary->slot_count - 1, slot = vocabulary_hash(vocabulary->seed, content, size) & mask;
    for (; vocabulary->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct vocabulary_entry *entry = &vocabulary->entries[vocabulary->slots[slot] - 1];
        if (entry->size == size && memcmp(vocabulary->contents.bytes + entry->at, content, size) == 0) break;
    }
    return slot;
}

static enum status grow_slots(struct vocabulary *vocabulary, struct error *error)
{
    size_t count = vocabulary->slot_count * 2;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a vocabulary");
    free(vocabulary->slots);
    vocabulary->slots = slots;
    vocabulary->slot_count = count;
    for (int64_t i = 0; i < vocabulary->count; i++) {
        const struct vocabulary_entry *entry = &vocabulary->entries[i];
        slots[find_slot(vocabulary, vocabulary->contents.bytes + entry->at, entry->size)] = (uint32_t)i + 1;
    }
    return STATUS_OK;
}

static enum status reserve_id(struct vocabulary *vocabulary, uint32_t id, struct error *error)
{
    int64_t had = vocabulary->by_id_capacity;
    enum status status =
        array_grow(&vocabulary->by_id, (int64_t)id + 1, &vocabulary->by_id_capacity, sizeof *vocabulary->by_id, error);
    for (int64_t i = had; status == STATUS_OK && i < vocabulary->by_id_capacity; i++) vocabulary->by_id[i] = -1;
    return status;
}

enum status vocabulary_add(struct vocabulary *vocabulary, const char *content, size_t size, uint32_t id,
                           struct error *error)
{
    enum status status;
    int shown = (int)(size < 60 ? size : 60);
    if (vocabulary->contents.size + size > UINT32_MAX)
        return error_set(error, STATUS_TOO_LARGE, "vocabulary is over 4 GiB");
    if (vocabulary->count * 2 >= (int64_t)vocabulary->slot_count &&
        (status = grow_slots(vocabulary, error)) != STATUS_OK)
        return status;
    if ((status = reserve_id(vocabulary, id, error)) != STATUS_OK) return status;
    size_t slot = find_slot(vocabulary, content, size);
    if (vocabulary->slots[slot] != 0)
        return error_set(error, STATUS_CORRUPT, "token \"%.*s\" is given twice", shown, content);
    if (vocabulary->by_id[id] >= 0)
        return error_set(error, STATUS_CORRUPT, "id %u of token \"%.*s\" belongs to another token", id, shown, content);
    if ((status = array_grow(&vocabulary->entries, vocabulary->count + 1, &vocabulary->capacity,
                             sizeof *vocabulary->entries, error)) != STATUS_OK)
        return status;
    struct vocabulary_entry entry = {.at = (uint32_t)vocabulary->contents.size, .size = (uint32_t)size, .id = id};
    if ((status = text_append(&vocabulary->contents, content, size, error)) != STATUS_OK) return status;
    vocabulary->entries[vocabulary->count] = entry;
    vocabulary->by_id[id] = (int32_t)vocabulary->count++;
    vocabulary->slots[slot] = (uint32_t)vocabulary->count;
    if (vocabulary->size <= (int64_t)id) vocabulary->size = (int64_t)id + 1;
    return STATUS_OK;
}

int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *content, size_t size)
{
    uint32_t entry = vocabulary->slots[find_slot(vocabulary, content, size)];
    return entry == 0 ? -1 : (int64_t)vocabulary->entries[entry - 1].id;
}

const char *vocabulary_content(const struct vocabulary *vocabulary, int64_t id, size_t *size)
{
    if (id < 0 || id >= vocabulary->size || vocabulary->by_id[id] < 0) return NULL;
    const struct vocabulary_entry *entry = &vocabulary->entries[vocabulary->by_id[id]];
    *size = entry->size;
    return vocabulary->contents.bytes + entry->at;
}
