#include "formats/gguf/gguf_writer.h"

#include "base/memory.h"
#include "files/file_slots.h"
#include "formats/gguf/gguf.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8, VALUE_ARRAY = 9 };

static const struct {
    enum dtype dtype;
    uint32_t type;
} types[] = {{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_Q4_0, 2}, {DTYPE_Q4_1, 3}, {DTYPE_Q8_0, 8}, {DTYPE_BF16, 30}};

struct gguf_writer {
    struct file_slots slots;
};

/* ---- metadata ---- */

static void add_text(struct buffer *to, const char *text, size_t size)
{
    const uint64_t length = size;
    buffer_append(to, &length, sizeof length);
    buffer_append(to, text, size);
}

static void begin(struct gguf_metadata *metadata, const char *key, uint32_t type)
{
    add_text(&metadata->pairs, key, strlen(key));
    buffer_append(&metadata->pairs, &type, sizeof type);
    metadata->count++;
}

static void begin_array(struct gguf_metadata *metadata, const char *key, uint32_t type, int64_t count)
{
    const uint64_t length = (uint64_t)count;
    begin(metadata, key, VALUE_ARRAY);
    buffer_append(&metadata->pairs, &type, sizeof type);
    buffer_append(&metadata->pairs, &length, sizeof length);
}

void gguf_metadata_text(struct gguf_metadata *metadata, const char *key, const char *value)
{
    begin(metadata, key, VALUE_TEXT);
    add_text(&metadata->pairs, value, strlen(value));
}

void gguf_metadata_integer(struct gguf_metadata *metadata, const char *key, uint32_t value)
{
    begin(metadata, key, VALUE_U32);
    buffer_append(&metadata->pairs, &value, sizeof value);
}

void gguf_metadata_number(struct gguf_metadata *metadata, const char *key, float value)
{
    begin(metadata, key, VALUE_F32);
    buffer_append(&metadata->pairs, &value, sizeof value);
}

void gguf_metadata_boolean(struct gguf_metadata *metadata, const char *key, bool value)
{
    const uint8_t byte = value;
    begin(metadata, key, VALUE_BOOL);
    buffer_append(&metadata->pairs, &byte, sizeof byte);
}

void gguf_metadata_texts(struct gguf_metadata *metadata, const char *key, int64_t count)
{
    begin_array(metadata, key, VALUE_TEXT, count);
}

void gguf_metadata_texts_add(struct gguf_metadata *metadata, const char *value, size_t size)
{
    add_text(&metadata->pairs, value, size);
}

void gguf_metadata_integers(struct gguf_metadata *metadata, const char *key, const int32_t *values, int64_t count)
{
    begin_array(metadata, key, VALUE_I32, count);
    buffer_append(&metadata->pairs, values, (size_t)count * sizeof *values);
}

void gguf_metadata_numbers(struct gguf_metadata *metadata, const char *key, const float *values, int64_t count)
{
    begin_array(metadata, key, VALUE_F32, count);
    buffer_append(&metadata->pairs, values, (size_t)count * sizeof *values);
}

void gguf_metadata_reset(struct gguf_metadata *metadata)
{
    buffer_reset(&metadata->pairs);
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
    return wrong ? error_set(error, STATUS_INVALID, "tensor \"%.60s\" has an impossible name or shape", entry->name)
                 : STATUS_OK;
}

/* Appends the tensor descriptions to `head` and assigns offsets to the data, from 0. */
static enum status describe(struct gguf_writer *writer, const struct safetensors_entry *entries, struct buffer *head,
                            int64_t *total, struct error *error)
{
    *total = 0;
    for (int64_t i = 0; i < writer->slots.count; i++) {
        const struct safetensors_entry *entry = &entries[i];
        const uint32_t rank = (uint32_t)entry->rank;
        const uint64_t offset = (uint64_t)*total;
        uint32_t type = 0;
        enum status status;
        if ((status = find_type(entry, &type, error)) != STATUS_OK) return status;
        if ((status = entry_bytes(entry, &writer->slots.list[i].bytes, error)) != STATUS_OK) return status;
        writer->slots.list[i].offset = *total;
        *total += padded(writer->slots.list[i].bytes);
        add_text(head, entry->name, strlen(entry->name));
        buffer_append(head, &rank, sizeof rank);
        for (int axis = entry->rank - 1; axis >= 0; axis--) {
            const uint64_t length = (uint64_t)entry->shape[axis];
            buffer_append(head, &length, sizeof length);
        }
        buffer_append(head, &type, sizeof type);
        buffer_append(head, &offset, sizeof offset);
    }
    return STATUS_OK;
}

enum status gguf_writer_open(const char *path, const struct gguf_metadata *metadata,
                             const struct safetensors_entry *entries, int64_t count, bool kept,
                             struct gguf_writer **out, struct error *error)
{
    static const char zeros[ALIGNMENT];
    const uint32_t version = VERSION;
    const uint64_t tensors = (uint64_t)count;
    struct gguf_writer *writer = NULL;
    struct buffer head = {0};
    int64_t total = 0;
    enum status status;
    *out = NULL;
    if ((status = buffer_status(&metadata->pairs, "a GGUF header", error)) != STATUS_OK) return status;
    if ((status = memory_new(1, sizeof *writer, "a writer", &writer, error)) != STATUS_OK) return status;
    if ((status = file_slots_new(count, &writer->slots, error)) != STATUS_OK) goto done;
    buffer_puts(&head, "GGUF");
    buffer_append(&head, &version, sizeof version);
    buffer_append(&head, &tensors, sizeof tensors);
    buffer_append(&head, &metadata->count, sizeof metadata->count);
    buffer_append(&head, metadata->pairs.bytes, metadata->pairs.length);
    if ((status = describe(writer, entries, &head, &total, error)) != STATUS_OK) goto done;
    buffer_append(&head, zeros, (size_t)padded((int64_t)head.length) - head.length);
    if ((status = buffer_status(&head, "a GGUF header", error)) != STATUS_OK) goto done;
    if ((status = file_slots_open(&writer->slots, path, head.bytes, head.length, total, kept, error)) != STATUS_OK)
        goto done;
    *out = writer;
    writer = NULL;
done:
    buffer_reset(&head);
    gguf_writer_close(writer);
    return status;
}

enum status gguf_writer_bytes(struct gguf_writer *writer, int64_t index, const void *bytes, int64_t size,
                              struct error *error)
{
    return file_slots_add(&writer->slots, index, bytes, size, error);
}

bool gguf_writer_full(const struct gguf_writer *writer, int64_t index)
{
    return file_slots_full(&writer->slots, index);
}

void gguf_writer_rewind(struct gguf_writer *writer, int64_t index)
{
    file_slots_rewind(&writer->slots, index);
}

enum status gguf_writer_save(struct gguf_writer *writer, struct error *error)
{
    return file_slots_save(&writer->slots, error);
}

enum status gguf_writer_commit(struct gguf_writer *writer, struct error *error)
{
    return file_slots_commit(&writer->slots, error);
}

void gguf_writer_close(struct gguf_writer *writer)
{
    if (writer == NULL) return;
    file_slots_reset(&writer->slots);
    memory_free(writer);
}
