/* gguf_bytes.h: the bytes of a GGUF file, put together piece by piece, with marks where a test spoils them. */
#ifndef UNIT_GGUF_BYTES_H
#define UNIT_GGUF_BYTES_H

#include "unit.h"

#include <string.h>

/* Places in the sound file, to be spoiled. */
enum mark {
    VERSION,
    TENSORS,
    ENTRIES,
    KEY_SIZE,
    KEY_BYTE,
    VALUE_TYPE,
    ALIGNMENT,
    TEXT_SIZE,
    TEXT_BYTE,
    ARRAY_TYPE,
    ARRAY_COUNT,
    ARRAY_TEXT,
    TRUTH,
    HEADS,
    NAME_SIZE,
    NAME_BYTE,
    RANK,
    ROW,
    COLUMN,
    TYPE,
    OFFSET,
    SECOND_NAME,
    SECOND_OFFSET,
    MARKS
};

struct gguf_bytes {
    uint8_t bytes[4096];
    size_t size, marks[MARKS];
};

static inline void put(struct gguf_bytes *to, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) to->bytes[to->size++] = (uint8_t)(value >> 8 * i);
}

static inline void text(struct gguf_bytes *to, const char *value)
{
    put(to, strlen(value), 8);
    memcpy(to->bytes + to->size, value, strlen(value));
    to->size += strlen(value);
}

static inline void mark(struct gguf_bytes *to, enum mark which)
{
    to->marks[which] = to->size;
}

static inline void number(struct gguf_bytes *to, const char *key, uint32_t value)
{
    text(to, key);
    put(to, 4, 4);
    put(to, value, 4);
}

static inline void real(struct gguf_bytes *to, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    text(to, key);
    put(to, 6, 4);
    put(to, bits, 4);
}

static inline void tensor(struct gguf_bytes *to, const char *name, uint64_t row, uint64_t rows, uint32_t type,
                          uint64_t offset)
{
    text(to, name);
    mark(to, RANK);
    put(to, rows > 0 ? 2 : 1, 4);
    mark(to, ROW);
    put(to, row, 8);
    mark(to, COLUMN);
    if (rows > 0) put(to, rows, 8);
    mark(to, TYPE);
    put(to, type, 4);
    mark(to, OFFSET);
    put(to, offset, 8);
}

#endif
