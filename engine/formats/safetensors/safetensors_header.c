#include "formats/safetensors/safetensors_header.h"

#include "files/json_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = 4,      /* {name: {shape: [ needs 3 */
    NAME_SHOWN = 80 /* bytes of a name in a message */
};
#define DIMENSION_MAX ((UINT64_C(1) << 48) - 1)

/* A growing array; doubles, so memory stays proportional to the text that was read. */
struct pool {
    char *bytes;
    size_t used, capacity;
};

/* Pools move as they grow, so an entry holds offsets and not pointers. */
struct entry {
    size_t name, shape; /* byte offsets in the pools */
    int64_t begin, end;
    uint8_t dtype, rank;
};

struct safetensors_header {
    struct pool names, shapes, entries;
    int64_t count;
};

struct parser {
    struct json_reader reader;
    struct safetensors_header *header;
    struct pool keys; /* of the metadata: size_t offsets in `header->names` */
    bool metadata;    /* met */
    int64_t data_bytes;
};

/* Appends `size` bytes to the pool, at *offset. NULL: the parser has an error. */
static void *pool_grow(struct parser *parser, struct pool *pool, size_t size, size_t *offset)
{
    if (size > pool->capacity - pool->used) {
        const size_t capacity = (pool->capacity > size ? pool->capacity : size) * 2;
        char *bytes = realloc(pool->bytes, capacity);
        if (bytes == NULL) {
            (void)json_reader_fail(&parser->reader, STATUS_NO_MEMORY, "cannot allocate %zu bytes", capacity);
            return NULL;
        }
        pool->bytes = bytes;
        pool->capacity = capacity;
    }
    *offset = pool->used;
    pool->used += size;
    return pool->bytes + *offset;
}

static struct entry *entry_at(const struct safetensors_header *header, int64_t index)
{
    return (struct entry *)(void *)header->entries.bytes + index;
}

static const char *entry_name(const struct safetensors_header *header, const struct entry *entry)
{
    return header->names.bytes + entry->name;
}

/* Bytes of `text` to show: whole characters, at most NAME_SHOWN bytes. */
static int shown_size(const char *text, size_t size)
{
    if (size <= NAME_SHOWN) return (int)size;
    size = NAME_SHOWN;
    while (size > 0 && ((unsigned char)text[size] & 0xc0u) == 0x80u) size--;
    return (int)size;
}

/* Keeps `text` in the pool of names, NUL-terminated, unless it has NUL or control characters (C0, DEL, C1). */
static bool keep_name(struct parser *parser, struct json_reader_text text, size_t *offset)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.bytes[i];
        const bool c1 = byte == 0xc2 && i + 1 < text.size && (unsigned char)text.bytes[i + 1] < 0xa0;
        if (byte < 0x20 || byte == 0x7f || c1)
            return json_reader_fail(&parser->reader, STATUS_CORRUPT, "a name contains a control character");
    }
    char *name = pool_grow(parser, &parser->header->names, text.size + 1, offset);
    if (name == NULL) return false;
    memcpy(name, text.bytes, text.size);
    name[text.size] = '\0';
    return true;
}

static int compare_keys(const void *a, const void *b, void *names)
{
    size_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return strcmp((const char *)names + left, (const char *)names + right);
}

/* "__metadata__": an object of strings without duplicate keys. The values are not kept. */
static bool parse_metadata(struct parser *parser)
{
    struct json_reader *reader = &parser->reader;
    struct json_reader_text key, value;
    if (parser->metadata) return json_reader_fail(reader, STATUS_CORRUPT, "__metadata__ is given twice");
    parser->metadata = true;
    if (!json_reader_object(reader)) return false;
    while (json_reader_next_key(reader, &key)) {
        size_t name, offset;
        /* Metadata keys may contain anything but NUL, because they are compared as C strings. */
        if (memchr(key.bytes, '\0', key.size) != NULL)
            return json_reader_fail(reader, STATUS_CORRUPT, "a metadata key contains NUL");
        char *copy = pool_grow(parser, &parser->header->names, key.size + 1, &name);
        if (copy == NULL) return false;
        memcpy(copy, key.bytes, key.size);
        copy[key.size] = '\0';
        void *slot = pool_grow(parser, &parser->keys, sizeof name, &offset);
        if (slot == NULL || !json_reader_string(reader, &value)) return false;
        memcpy(slot, &name, sizeof name);
    }
    const size_t count = parser->keys.used / sizeof(size_t);
    if (count < 2) return json_reader_status(reader) == STATUS_OK;
    qsort_r(parser->keys.bytes, count, sizeof(size_t), compare_keys, parser->header->names.bytes);
    for (size_t i = 1; i < count; i++) {
        const char *const later = parser->keys.bytes + i * sizeof(size_t);
        if (compare_keys(later - sizeof(size_t), later, parser->header->names.bytes) == 0)
            return json_reader_fail(reader, STATUS_CORRUPT, "a metadata key is given twice");
    }
    return json_reader_status(reader) == STATUS_OK;
}

static bool parse_dtype(struct parser *parser, uint8_t *dtype)
{
    char name[16];
    enum dtype found;
    if (!json_reader_string_copy(&parser->reader, name, sizeof name)) return false;
    if (!dtype_find(name, &found) || dtype_info(found)->block > 1)
        return json_reader_fail(&parser->reader, STATUS_UNSUPPORTED, "dtype \"%s\" is not one that deltaq knows", name);
    *dtype = (uint8_t)found;
    return true;
}

/* *elements: the product of the shape, checked from left to right, so that a later zero does not excuse an overflow. */
static bool parse_shape(struct parser *parser, struct entry *entry, int64_t *elements)
{
    struct json_reader *reader = &parser->reader;
    if (!json_reader_array(reader)) return false;
    entry->shape = parser->header->shapes.used;
    entry->rank = 0;
    *elements = 1;
    while (json_reader_next_item(reader)) {
        uint64_t dimension;
        size_t offset;
        if (!json_reader_uint64(reader, DIMENSION_MAX, &dimension)) return false;
        if (entry->rank == SAFETENSORS_RANK_MAX)
            return json_reader_fail(reader, STATUS_CORRUPT, "a shape has more than %d dimensions",
                                    SAFETENSORS_RANK_MAX);
        if (__builtin_mul_overflow(*elements, dimension, elements))
            return json_reader_fail(reader, STATUS_CORRUPT, "a shape has too many elements");
        void *slot = pool_grow(parser, &parser->header->shapes, sizeof dimension, &offset);
        if (slot == NULL) return false;
        memcpy(slot, &dimension, sizeof dimension);
        entry->rank++;
    }
    return json_reader_status(reader) == STATUS_OK;
}

static bool parse_offsets(struct parser *parser, struct entry *entry)
{
    struct json_reader *reader = &parser->reader;
    uint64_t offsets[2] = {0, 0};
    int count = 0;
    if (!json_reader_array(reader)) return false;
    while (json_reader_next_item(reader)) {
        if (count == 2) return json_reader_fail(reader, STATUS_CORRUPT, "data_offsets are more than two");
        if (!json_reader_uint64(reader, INT64_MAX, &offsets[count++])) return false;
    }
    if (json_reader_status(reader) != STATUS_OK) return false;
    if (count != 2) return json_reader_fail(reader, STATUS_CORRUPT, "data_offsets are fewer than two");
    if (offsets[0] > offsets[1])
        return json_reader_fail(reader, STATUS_CORRUPT, "data_offsets [%llu, %llu] run backwards",
                                (unsigned long long)offsets[0], (unsigned long long)offsets[1]);
    if (offsets[1] > (uint64_t)parser->data_bytes)
        return json_reader_fail(reader, STATUS_CORRUPT, "data ends at %llu, the file has %lld bytes of it",
                                (unsigned long long)offsets[1], (long long)parser->data_bytes);
    entry->begin = (int64_t)offsets[0];
    entry->end = (int64_t)offsets[1];
    return true;
}

static bool parse_entry(struct parser *parser, struct json_reader_text name)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets", NULL};
    struct json_reader *reader = &parser->reader;
    struct json_reader_text key;
    struct entry entry = {0};
    uint64_t seen = 0;
    int64_t elements = 0, bytes;
    size_t offset;
    if (!keep_name(parser, name, &entry.name) || !json_reader_object(reader)) return false;
    while (json_reader_next_key(reader, &key)) {
        switch (json_reader_field(reader, key, fields, &seen)) {
        case 0:
            if (!parse_dtype(parser, &entry.dtype)) return false;
            break;
        case 1:
            if (!parse_shape(parser, &entry, &elements)) return false;
            break;
        case 2:
            if (!parse_offsets(parser, &entry)) return false;
            break;
        default:
            return json_reader_fail(reader, STATUS_CORRUPT, "a tensor has an unknown field");
        }
    }
    if (json_reader_status(reader) != STATUS_OK) return false;
    const char *kept = entry_name(parser->header, &entry);
    const int shown = shown_size(kept, strlen(kept));
    if (seen != 7)
        return json_reader_fail(reader, STATUS_CORRUPT, "tensor \"%.*s\" lacks dtype, shape or data_offsets", shown,
                                kept);
    const int64_t width = (int64_t)dtype_info((enum dtype)entry.dtype)->bits / 8;
    if (__builtin_mul_overflow(elements, width, &bytes) || bytes != entry.end - entry.begin)
        return json_reader_fail(reader, STATUS_CORRUPT, "tensor \"%.*s\" has %lld elements of %s in %lld bytes", shown,
                                kept, (long long)elements, dtype_info((enum dtype)entry.dtype)->name,
                                (long long)(entry.end - entry.begin));
    void *slot = pool_grow(parser, &parser->header->entries, sizeof entry, &offset);
    if (slot == NULL) return false;
    memcpy(slot, &entry, sizeof entry);
    parser->header->count++;
    return true;
}

static int compare_begins(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

static int compare_names(const void *a, const void *b, void *names)
{
    return strcmp((const char *)names + ((const struct entry *)a)->name,
                  (const char *)names + ((const struct entry *)b)->name);
}

/* The tensors must cover the data: each begins where the previous one ends. `file` names it in messages. */
static enum status check_spans(struct safetensors_header *header, int64_t data_bytes, const char *file,
                               struct error *error)
{
    int64_t covered = 0;
    if (header->count > 1) qsort(header->entries.bytes, (size_t)header->count, sizeof(struct entry), compare_begins);
    for (int64_t i = 0; i < header->count; i++) {
        const struct entry *entry = entry_at(header, i);
        const char *name = entry_name(header, entry);
        if (entry->begin != covered)
            return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.*s\" begins at %lld, %s %lld", file,
                             shown_size(name, strlen(name)), name, (long long)entry->begin,
                             entry->begin < covered ? "inside another that ends at" : "leaving a hole after",
                             (long long)covered);
        covered = entry->end;
    }
    if (covered == data_bytes) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s: the tensors end at %lld, the file has %lld bytes of data", file,
                     (long long)covered, (long long)data_bytes);
}

/* Sorts the tensors by name and refuses duplicates. They stay sorted. */
static enum status check_names(struct safetensors_header *header, const char *file, struct error *error)
{
    if (header->count < 2) return STATUS_OK;
    qsort_r(header->entries.bytes, (size_t)header->count, sizeof(struct entry), compare_names, header->names.bytes);
    for (int64_t i = 1; i < header->count; i++) {
        const char *name = entry_name(header, entry_at(header, i));
        if (strcmp(entry_name(header, entry_at(header, i - 1)), name) == 0)
            return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.*s\" is given twice", file,
                             shown_size(name, strlen(name)), name);
    }
    return STATUS_OK;
}

static bool parse(struct parser *parser, const char *text, size_t size)
{
    struct json_reader *reader = &parser->reader;
    struct json_reader_text key;
    while (size > 0 && text[size - 1] == ' ') size--;
    if (size == 0 || text[0] != '{' || text[size - 1] != '}')
        return json_reader_fail(reader, STATUS_CORRUPT, "a header is one JSON object, followed by spaces only");
    if (!json_reader_object(reader)) return false;
    while (json_reader_next_key(reader, &key)) {
        const bool right = json_reader_is(key, "__metadata__") ? parse_metadata(parser) : parse_entry(parser, key);
        if (!right) return false;
    }
    return json_reader_end(reader);
}

enum status safetensors_header_new(const char *name, const char *text, size_t size, int64_t data_bytes,
                                   struct safetensors_header **out, struct error *error)
{
    static const struct json_reader_options options = {.depth = DEPTH, .offset = 8};
    struct parser parser = {.data_bytes = data_bytes};
    *out = NULL;
    parser.header = calloc(1, sizeof *parser.header);
    if (parser.header == NULL) return error_set(error, STATUS_NO_MEMORY, "%s: cannot allocate a header", name);
    json_reader_init(&parser.reader, name, text, size, &options, error);
    (void)parse(&parser, text, size);
    enum status status = json_reader_finish(&parser.reader);
    free(parser.keys.bytes);
    if (status == STATUS_MALFORMED || status == STATUS_INVALID) status = error->status = STATUS_CORRUPT;
    if (status == STATUS_OK) status = check_spans(parser.header, data_bytes, name, error);
    if (status == STATUS_OK) status = check_names(parser.header, name, error);
    if (status == STATUS_OK) {
        *out = parser.header;
        return STATUS_OK;
    }
    safetensors_header_free(parser.header);
    return status;
}

void safetensors_header_free(struct safetensors_header *header)
{
    if (header == NULL) return;
    free(header->names.bytes);
    free(header->shapes.bytes);
    free(header->entries.bytes);
    free(header);
}

int64_t safetensors_header_count(const struct safetensors_header *header)
{
    return header->count;
}

void safetensors_header_tensor(const struct safetensors_header *header, int64_t index, struct safetensors_tensor *out)
{
    assert(index >= 0 && index < header->count);
    const struct entry *entry = entry_at(header, index);
    const int64_t bytes = entry->end - entry->begin;
    *out = (struct safetensors_tensor){
        .name = entry_name(header, entry),
        .dtype = (enum dtype)entry->dtype,
        .rank = entry->rank,
        .shape = entry->rank ? (const int64_t *)(const void *)(header->shapes.bytes + entry->shape) : NULL,
        .elements = bytes / ((int64_t)dtype_info((enum dtype)entry->dtype)->bits / 8),
        .offset = entry->begin,
        .bytes = bytes,
    };
}

int64_t safetensors_header_find(const struct safetensors_header *header, const char *name)
{
    int64_t low = 0, high = header->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(entry_name(header, entry_at(header, middle)), name);
        if (order == 0) return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}
