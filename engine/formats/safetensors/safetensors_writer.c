#include "formats/safetensors/safetensors_writer.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "files/file_slots.h"
#include "formats/safetensors/safetensors_header.h"

#include <assert.h>

enum { CHUNK_BYTES = 1 << 16, ALIGNMENT = 8, WIDTH_MAX = 8 };

struct safetensors_writer {
    struct file_slots slots;
    enum dtype *dtypes; /* of each */
};

/* `string` as JSON. Forbidden characters are found when the header is read back. */
static void quote(struct buffer *text, const char *string)
{
    buffer_puts(text, "\"");
    for (const char *at = string; *at; at++) {
        if (*at == '"' || *at == '\\') buffer_puts(text, "\\");
        buffer_append(text, at, 1);
    }
    buffer_puts(text, "\"");
}

/* Bytes of an entry; STATUS_INVALID for an impossible shape. */
static enum status entry_bytes(const struct safetensors_entry *entry, int64_t *bytes, struct error *error)
{
    *bytes = (int64_t)dtype_info(entry->dtype)->bits / 8;
    bool wrong = entry->rank < 0 || entry->rank > SAFETENSORS_RANK_MAX;
    for (int i = 0; !wrong && i < entry->rank; i++)
        wrong = entry->shape[i] < 0 || __builtin_mul_overflow(*bytes, entry->shape[i], bytes);
    return wrong ? error_set(error, STATUS_INVALID, "tensor \"%.60s\" has an impossible shape", entry->name)
                 : STATUS_OK;
}

/* Assigns offsets from 0 in descending order of element width, so that each tensor is aligned whatever the sizes. */
static enum status lay_out(struct safetensors_writer *writer, const struct safetensors_entry *entries, int64_t *total,
                           struct error *error)
{
    enum status status;
    *total = 0;
    for (int64_t width = WIDTH_MAX; width > 0; width--) {
        for (int64_t i = 0; i < writer->slots.count; i++) {
            if ((int64_t)dtype_info(entries[i].dtype)->bits / 8 != width) continue;
            struct file_slot *slot = &writer->slots.list[i];
            writer->dtypes[i] = entries[i].dtype;
            slot->offset = *total;
            if ((status = entry_bytes(&entries[i], &slot->bytes, error)) != STATUS_OK) return status;
            if (__builtin_add_overflow(*total, slot->bytes, total))
                return error_set(error, STATUS_INVALID, "the tensors are too large together");
        }
    }
    return STATUS_OK;
}

static void print_header(const struct safetensors_writer *writer, const struct safetensors_entry *entries,
                         struct buffer *text)
{
    buffer_puts(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; i < writer->slots.count; i++) {
        const struct file_slot *slot = &writer->slots.list[i];
        buffer_puts(text, ",");
        quote(text, entries[i].name);
        buffer_printf(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_info(writer->dtypes[i])->name);
        for (int axis = 0; axis < entries[i].rank; axis++)
            buffer_printf(text, "%s%lld", axis ? "," : "", (long long)entries[i].shape[axis]);
        buffer_printf(text, "],\"data_offsets\":[%lld,%lld]}", (long long)slot->offset,
                      (long long)(slot->offset + slot->bytes));
    }
    buffer_puts(text, "}");
    while (text->status == STATUS_OK && text->length % ALIGNMENT != 0) buffer_puts(text, " ");
}

/* Parses the header with our own reader, so that we never write a file that it would refuse. */
static enum status check_header(const struct buffer *text, int64_t total, struct error *error)
{
    struct safetensors_header *header = NULL;
    enum status status = buffer_status(text, "a safetensors header", error);
    if (status != STATUS_OK) return status;
    if (text->length > (size_t)SAFETENSORS_HEADER_MAX)
        return error_set(error, STATUS_INVALID, "a safetensors header of %zu bytes, at most %lld are possible",
                         text->length, (long long)SAFETENSORS_HEADER_MAX);
    status = safetensors_header_new("new file", text->bytes, text->length, total, &header, error);
    safetensors_header_free(header);
    if (status == STATUS_CORRUPT) status = error->status = STATUS_INVALID;
    return status;
}

/* Computes the slots of the entries and the file's head; *total: bytes behind the head. */
static enum status prepare(struct safetensors_writer *writer, const struct safetensors_entry *entries, int64_t count,
                           struct buffer *head, int64_t *total, struct error *error)
{
    struct buffer text = {0};
    enum status status;
    if ((status = memory_new(count, sizeof *writer->dtypes, "a writer", &writer->dtypes, error)) != STATUS_OK)
        goto done;
    if ((status = file_slots_new(count, &writer->slots, error)) != STATUS_OK) goto done;
    if ((status = lay_out(writer, entries, total, error)) != STATUS_OK) goto done;
    print_header(writer, entries, &text);
    if ((status = check_header(&text, *total, error)) != STATUS_OK) goto done;
    const uint64_t length = text.length;
    buffer_append(head, &length, sizeof length);
    buffer_append(head, text.bytes, text.length);
    status = buffer_status(head, "a safetensors header", error);
done:
    buffer_reset(&text);
    return status;
}

static enum status begin(const char *path, const struct safetensors_entry *entries, int64_t count, bool kept,
                         struct safetensors_writer **out, struct error *error)
{
    struct buffer head = {0};
    struct safetensors_writer *writer = NULL;
    int64_t total = 0;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *writer, "a writer", &writer, error)) != STATUS_OK) return status;
    if ((status = prepare(writer, entries, count, &head, &total, error)) != STATUS_OK) goto done;
    if ((status = file_slots_open(&writer->slots, path, head.bytes, head.length, total, kept, error)) != STATUS_OK)
        goto done;
    *out = writer;
    writer = NULL;
done:
    buffer_reset(&head);
    safetensors_writer_close(writer);
    return status;
}

enum status safetensors_writer_measure(const struct safetensors_entry *entries, int64_t count, int64_t *bytes,
                                       struct error *error)
{
    struct safetensors_writer writer = {.dtypes = NULL};
    struct buffer head = {0};
    const enum status status = prepare(&writer, entries, count, &head, bytes, error);
    *bytes += (int64_t)head.length;
    buffer_reset(&head);
    file_slots_reset(&writer.slots);
    memory_free(writer.dtypes);
    return status;
}

enum status safetensors_writer_open(const char *path, const struct safetensors_entry *entries, int64_t count,
                                    struct safetensors_writer **out, struct error *error)
{
    return begin(path, entries, count, false, out, error);
}

enum status safetensors_writer_take_up(const char *path, const struct safetensors_entry *entries, int64_t count,
                                       struct safetensors_writer **out, struct error *error)
{
    return begin(path, entries, count, true, out, error);
}

enum status safetensors_writer_bytes(struct safetensors_writer *writer, int64_t index, const void *bytes, int64_t size,
                                     struct error *error)
{
    return file_slots_add(&writer->slots, index, bytes, size, error);
}

enum status safetensors_writer_f32(struct safetensors_writer *writer, int64_t index, const float *values, int64_t count,
                                   struct error *error)
{
    assert(index >= 0 && index < writer->slots.count);
    enum status status;
    _Alignas(64) char chunk[CHUNK_BYTES];
    const struct file_slot *slot = &writer->slots.list[index];
    const struct dtype_info *dtype = dtype_info(writer->dtypes[index]);
    const int64_t width = (int64_t)dtype->bits / 8;
    if (dtype->from_f32 == NULL)
        return error_set(error, STATUS_INVALID, "float values for a tensor of %s", dtype->name);
    if (count < 0 || count > (slot->bytes - slot->written) / width)
        return error_set(error, STATUS_INVALID, "%lld values for a tensor that lacks %lld", (long long)count,
                         (long long)((slot->bytes - slot->written) / width));
    if (writer->dtypes[index] == DTYPE_F32)
        return safetensors_writer_bytes(writer, index, values, count * width, error);
    while (count > 0) {
        const int64_t now = count < CHUNK_BYTES / width ? count : CHUNK_BYTES / width;
        dtype->from_f32(values, chunk, now);
        if ((status = safetensors_writer_bytes(writer, index, chunk, now * width, error)) != STATUS_OK) return status;
        values += now;
        count -= now;
    }
    return STATUS_OK;
}

bool safetensors_writer_full(const struct safetensors_writer *writer, int64_t index)
{
    return file_slots_full(&writer->slots, index);
}

void safetensors_writer_rewind(struct safetensors_writer *writer, int64_t index)
{
    file_slots_rewind(&writer->slots, index);
}

enum status safetensors_writer_save(struct safetensors_writer *writer, struct error *error)
{
    return file_slots_save(&writer->slots, error);
}

enum status safetensors_writer_commit(struct safetensors_writer *writer, struct error *error)
{
    return file_slots_commit(&writer->slots, error);
}

void safetensors_writer_close(struct safetensors_writer *writer)
{
    if (writer == NULL) return;
    file_slots_reset(&writer->slots);
    memory_free(writer->dtypes);
    memory_free(writer);
}
