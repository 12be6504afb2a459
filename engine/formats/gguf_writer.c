#include "formats/gguf_writer.h"

#include "formats/file_writer.h"
#include "formats/gguf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8, VALUE_ARRAY = 9 };

static const struct {
    enum dtype dtype;
    uint32_t type;
} types[] = {{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_Q4_0, 2}, {DTYPE_Q4_1, 3}, {DTYPE_Q8_0, 8}, {DTYPE_BF16, 30}};

struct slot {
    int64_t offset, bytes, written;
};

struct gguf_writer {
    struct file_writer *file;
    struct slot *slots;
    int64_t count;
};

/* ---- metadata ---- */

static void add(struct gguf_metadata *metadata, const void *bytes, size_t size)
{
    if (!metadata->failed && size > metadata->capacity - metadata->used) {
        const size_t capacity = (metadata->capacity > size ? metadata->capacity : size) * 2;
        char *grown = realloc(metadata->bytes, capacity);
        metadata->failed = grown == NULL;
        if (grown != NULL) {
            metadata->bytes = grown;
            metadata->capacity = capacity;
        }
    }
    if (metadata->failed || size == 0) return;
    memcpy(metadata->bytes + metadata->used, bytes, size);
    metadata->used += size;
}

static void add_text(struct gguf_metadata *metadata, const char *text, size_t size)
{
    const uint64_t length = size;
    add(metadata, &length, sizeof length);
    add(metadata, text, size);
}

static void begin(struct gguf_metadata *metadata, const char *key, uint32_t type)
{
    add_text(metadata, key, strlen(key));
    add(metadata, &type, sizeof type);
    metadata->count++;
}

static void begin_array(struct gguf_metadata *metadata, const char *key, uint32_t type, int64_t count)
{
    const uint64_t length = (uint64_t)count;
    begin(metadata, key, VALUE_ARRAY);
    add(metadata, &type, sizeof type);
    add(metadata, &length, sizeof length);
}

void gguf_metadata_text(struct gguf_metadata *metadata, const char *key, const char *value)
{
    begin(metadata, key, VALUE_TEXT);
    add_text(metadata, value, strlen(value));
}

void gguf_metadata_integer(struct gguf_metadata *metadata, const char *key, uint32_t value)
{
    begin(metadata, key, VALUE_U32);
    add(metadata, &value, sizeof value);
}

void gguf_metadata_number(struct gguf_metadata *metadata, const char *key, float value)
{
    begin(metadata, key, VALUE_F32);
    add(metadata, &value, sizeof value);
}

void gguf_metadata_boolean(struct gguf_metadata *metadata, const char *key, bool value)
{
    const uint8_t byte = value;
    begin(metadata, key, VALUE_BOOL);
    add(metadata, &byte, sizeof byte);
}

void gguf_metadata_texts(struct gguf_metadata *metadata, const char *key, int64_t count)
{
    begin_array(metadata, key, VALUE_TEXT, count);
}

void gguf_metadata_texts_add(struct gguf_metadata *metadata, const char *value, size_t size)
{
    add_text(metadata, value, size);
}

void gguf_metadata_integers(struct gguf_metadata *metadata, const char *key, const int32_t *values, int64_t count)
{
    begin_array(metadata, key, VALUE_I32, count);
    add(metadata, values, (size_t)count * sizeof *values);
}

void gguf_metadata_reset(struct gguf_metadata *metadata)
{
    free(metadata->bytes);
    *metadata = (struct gguf_metadata){0};
}

/* ---- tensors ---- */

static int64_t padded(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static enum status find_type(const struct safetensors_entry *entry, uint32_t *type, struct error *error)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == entry->dtype) {
            *type = types[i].type;
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID, "tensor \"%.60s\" is of %s, which is not written to GGUF", entry->name,
                     dtype_info(entry->dtype)->name);
}

static enum status entry_bytes(const struct safetensors_entry *entry, int64_t *bytes, struct error *error)
{
    const struct dtype_info *dtype = dtype_info(entry->dtype);
    int64_t elements = 1;
    bool wrong = entry->rank < 1 || entry->rank > GGUF_RANK_MAX || strlen(entry->name) > GGUF_NAME_MAX;
    for (int i = 0; !wrong && i < entry->rank; i++)
        wrong = entry->shape[i] < 1 || __builtin_mul_overflow(elements, entry->shape[i], &elements);
    wrong = wrong || entry->shape[entry->rank - 1] % dtype->block != 0 ||
            __builtin_mul_overflow(elements / dtype->block, (int64_t)dtype->bits / 8, bytes);
    return wrong ? error_set(error, STATUS_INVALID, "tensor \"%.60s\" has an impossible name or shape", entry->name) : STATUS_OK;
}

/* Appends the descriptions to `head` and lays the data out, from 0 on. */
static enum status describe(struct gguf_writer *writer, const struct safetensors_entry *entries, struct gguf_metadata *head,
                            int64_t *total, struct error *error)
{
    *total = 0;
    for (int64_t i = 0; i < writer->count; i++) {
        const struct safetensors_entry *entry = &entries[i];
        const uint32_t rank = (uint32_t)entry->rank;
        const uint64_t offset = (uint64_t)*total;
        uint32_t type = 0;
        enum status status;
        if ((status = find_type(entry, &type, error)) != STATUS_OK) return status;
        if ((status = entry_bytes(entry, &writer->slots[i].bytes, error)) != STATUS_OK) return status;
        writer->slots[i].offset = *total;
        *total += padded(writer->slots[i].bytes);
        add_text(head, entry->name, strlen(entry->name));
        add(head, &rank, sizeof rank);
        for (int axis = entry->rank - 1; axis >= 0; axis--) {
            const uint64_t length = (uint64_t)entry->shape[axis];
            add(head, &length, sizeof length);
        }
        add(head, &type, sizeof type);
        add(head, &offset, sizeof offset);
    }
    return STATUS_OK;
}

enum status gguf_writer_open(const char *path, const struct gguf_metadata *metadata, const struct safetensors_entry *entries,
                             int64_t count, struct gguf_writer **out, struct error *error)
{
    static const char zeros[ALIGNMENT];
    const uint32_t version = VERSION;
    const uint64_t tensors = (uint64_t)count;
    struct gguf_metadata head = {0};
    int64_t total = 0;
    enum status status;
    *out = NULL;
    struct gguf_writer *writer = calloc(1, sizeof *writer);
    struct slot *slots = calloc(count > 0 ? (size_t)count : 1, sizeof *slots);
    if (writer == NULL || slots == NULL) {
        free(writer);
        free(slots);
        return error_set(error, STATUS_NO_MEMORY, "cannot allocate a GGUF writer");
    }
    *writer = (struct gguf_writer){.slots = slots, .count = count};
    add(&head, "GGUF", 4);
    add(&head, &version, sizeof version);
    add(&head, &tensors, sizeof tensors);
    add(&head, &metadata->count, sizeof metadata->count);
    add(&head, metadata->bytes, metadata->used);
    if ((status = describe(writer, entries, &head, &total, error)) != STATUS_OK) goto done;
    add(&head, zeros, (size_t)padded((int64_t)head.used) - head.used);
    if (head.failed || metadata->failed) {
        status = error_set(error, STATUS_NO_MEMORY, "cannot allocate a GGUF header");
        goto done;
    }
    for (int64_t i = 0; i < count; i++) slots[i].offset += (int64_t)head.used;
    if ((status = file_writer_open(path, (int64_t)head.used + total, &writer->file, error)) != STATUS_OK) goto done;
    if ((status = file_writer_append(writer->file, head.bytes, head.used, error)) != STATUS_OK) goto done;
    /* the gaps between tensors are zeros as they are; the last one must be there too */
    if (total > 0) status = file_writer_write(writer->file, (int64_t)head.used + total - 1, zeros, 1, error);
    if (status != STATUS_OK) goto done;
    *out = writer;
    writer = NULL;
done:
    gguf_metadata_reset(&head);
    gguf_writer_close(writer);
    return status;
}

enum status gguf_writer_bytes(struct gguf_writer *writer, int64_t index, const void *bytes, int64_t size, struct error *error)
{
    assert(index >= 0 && index < writer->count);
    struct slot *slot = &writer->slots[index];
    if (size < 0 || size > slot->bytes - slot->written)
        return error_set(error, STATUS_INVALID, "%lld bytes for a tensor that lacks %lld", (long long)size,
                         (long long)(slot->bytes - slot->written));
    const enum status status = file_writer_write(writer->file, slot->offset + slot->written, bytes, (size_t)size, error);
    if (status == STATUS_OK) slot->written += size;
    return status;
}

enum status gguf_writer_commit(struct gguf_writer *writer, struct error *error)
{
    for (int64_t i = 0; i < writer->count; i++)
        if (writer->slots[i].written != writer->slots[i].bytes)
            return error_set(error, STATUS_INVALID, "tensor %lld lacks %lld of its %lld bytes", (long long)i,
                             (long long)(writer->slots[i].bytes - writer->slots[i].written), (long long)writer->slots[i].bytes);
    return file_writer_commit(writer->file, error);
}

void gguf_writer_close(struct gguf_writer *writer)
{
    if (writer == NULL) return;
    file_writer_close(writer->file);
    free(writer->slots);
    free(writer);
}
