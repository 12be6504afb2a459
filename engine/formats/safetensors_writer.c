#include "formats/safetensors_writer.h"

#include "formats/file_writer.h"
#include "formats/safetensors_header.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 16, ALIGNMENT = 8, WIDTH_MAX = 8 };

struct slot {
    enum dtype dtype;
    int64_t offset, bytes, written; /* offset in the file */
};

struct safetensors_writer {
    struct file_writer *file;
    struct slot *slots;
    int64_t count;
};

/* Text that grows; `failed` sticks. */
struct text {
    char *bytes;
    size_t used, capacity;
    bool failed;
};

static void text_add(struct text *text, const char *bytes, size_t size)
{
    if (!text->failed && size > text->capacity - text->used) {
        const size_t capacity = (text->capacity > size ? text->capacity : size) * 2;
        char *grown = realloc(text->bytes, capacity);
        text->failed = grown == NULL;
        if (grown) {
            text->bytes = grown;
            text->capacity = capacity;
        }
    }
    if (text->failed) return;
    memcpy(text->bytes + text->used, bytes, size);
    text->used += size;
}

static void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void text_print(struct text *text, const char *format, ...)
{
    char buffer[64];
    va_list list;
    va_start(list, format);
    const int size = vsnprintf(buffer, sizeof buffer, format, list);
    va_end(list);
    text_add(text, buffer, (size_t)size);
}

/* `string` as JSON; what it must not contain is found when the header is read back. */
static void text_quote(struct text *text, const char *string)
{
    text_add(text, "\"", 1);
    for (const char *at = string; *at; at++) {
        if (*at == '"' || *at == '\\') text_add(text, "\\", 1);
        text_add(text, at, 1);
    }
    text_add(text, "\"", 1);
}

/* Bytes of an entry; STATUS_INVALID when its shape cannot be. */
static enum status entry_bytes(const struct safetensors_entry *entry, int64_t *bytes, struct error *error)
{
    *bytes = (int64_t)dtype_info(entry->dtype)->bits / 8;
    bool wrong = entry->rank < 0 || entry->rank > SAFETENSORS_RANK_MAX;
    for (int i = 0; !wrong && i < entry->rank; i++)
        wrong = entry->shape[i] < 0 || __builtin_mul_overflow(*bytes, entry->shape[i], bytes);
    return wrong ? error_set(error, STATUS_INVALID, "tensor \"%.60s\" has an impossible shape", entry->name) : STATUS_OK;
}

/* Lays the data out by falling width of elements, so that each tensor is aligned whatever the sizes: slots[].offset from 0 on. */
static enum status lay_out(struct safetensors_writer *writer, const struct safetensors_entry *entries, int64_t *total,
                           struct error *error)
{
    enum status status;
    *total = 0;
    for (int64_t width = WIDTH_MAX; width > 0; width--) {
        for (int64_t i = 0; i < writer->count; i++) {
            if ((int64_t)dtype_info(entries[i].dtype)->bits / 8 != width) continue;
            struct slot *slot = &writer->slots[i];
            *slot = (struct slot){.dtype = entries[i].dtype, .offset = *total};
            if ((status = entry_bytes(&entries[i], &slot->bytes, error)) != STATUS_OK) return status;
            if (__builtin_add_overflow(*total, slot->bytes, total))
                return error_set(error, STATUS_INVALID, "the tensors are too large together");
        }
    }
    return STATUS_OK;
}

static void print_header(const struct safetensors_writer *writer, const struct safetensors_entry *entries, struct text *text)
{
    text_print(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; i < writer->count; i++) {
        const struct slot *slot = &writer->slots[i];
        text_print(text, ",");
        text_quote(text, entries[i].name);
        text_print(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_info(slot->dtype)->name);
        for (int axis = 0; axis < entries[i].rank; axis++)
            text_print(text, "%s%lld", axis ? "," : "", (long long)entries[i].shape[axis]);
        text_print(text, "],\"data_offsets\":[%lld,", (long long)slot->offset);
        text_print(text, "%lld]}", (long long)(slot->offset + slot->bytes));
    }
    text_print(text, "}");
    while (!text->failed && text->used % ALIGNMENT != 0) text_print(text, " ");
}

/* Our own reader judges the header, so that nothing is written that it would refuse. */
static enum status check_header(const struct text *text, int64_t total, struct error *error)
{
    struct safetensors_header *header = NULL;
    enum status status = STATUS_OK;
    if (text->failed) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a safetensors header");
    if (text->used > (size_t)SAFETENSORS_HEADER_MAX)
        return error_set(error, STATUS_INVALID, "a safetensors header of %zu bytes, at most %lld are possible", text->used,
                         (long long)SAFETENSORS_HEADER_MAX);
    status = safetensors_header_new("new file", text->bytes, text->used, total, &header, error);
    safetensors_header_free(header);
    if (status == STATUS_CORRUPT) status = error->status = STATUS_INVALID;
    return status;
}

enum status safetensors_writer_open(const char *path, const struct safetensors_entry *entries, int64_t count,
                                    struct safetensors_writer **out, struct error *error)
{
    enum status status;
    struct text text = {0};
    int64_t total = 0;
    *out = NULL;
    struct safetensors_writer *writer = calloc(1, sizeof *writer);
    struct slot *slots = calloc(count > 0 ? (size_t)count : 1, sizeof *slots);
    if (!writer || !slots) {
        free(writer);
        free(slots);
        return error_set(error, STATUS_NO_MEMORY, "cannot allocate a safetensors writer");
    }
    *writer = (struct safetensors_writer){.slots = slots, .count = count};
    if ((status = lay_out(writer, entries, &total, error)) != STATUS_OK) goto done;
    print_header(writer, entries, &text);
    if ((status = check_header(&text, total, error)) != STATUS_OK) goto done;
    const uint64_t length = text.used;
    const int64_t before = (int64_t)(sizeof length + text.used);
    for (int64_t i = 0; i < count; i++) slots[i].offset += before;
    if ((status = file_writer_open(path, before + total, &writer->file, error)) != STATUS_OK) goto done;
    if ((status = file_writer_append(writer->file, &length, sizeof length, error)) != STATUS_OK) goto done;
    if ((status = file_writer_append(writer->file, text.bytes, text.used, error)) != STATUS_OK) goto done;
    *out = writer;
    writer = NULL;
done:
    free(text.bytes);
    safetensors_writer_close(writer);
    return status;
}

enum status safetensors_writer_bytes(struct safetensors_writer *writer, int64_t index, const void *bytes, int64_t size,
                                     struct error *error)
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

enum status safetensors_writer_f32(struct safetensors_writer *writer, int64_t index, const float *values, int64_t count,
                                   struct error *error)
{
    assert(index >= 0 && index < writer->count);
    enum status status;
    _Alignas(64) char piece[PIECE_BYTES];
    const struct slot *slot = &writer->slots[index];
    const struct dtype_info *dtype = dtype_info(slot->dtype);
    const int64_t width = (int64_t)dtype->bits / 8;
    if (!dtype->from_f32) return error_set(error, STATUS_INVALID, "float values for a tensor of %s", dtype->name);
    if (count < 0 || count > (slot->bytes - slot->written) / width)
        return error_set(error, STATUS_INVALID, "%lld values for a tensor that lacks %lld", (long long)count,
                         (long long)((slot->bytes - slot->written) / width));
    if (slot->dtype == DTYPE_F32) return safetensors_writer_bytes(writer, index, values, count * width, error);
    while (count > 0) {
        const int64_t now = count < PIECE_BYTES / width ? count : PIECE_BYTES / width;
        dtype->from_f32(values, piece, now);
        if ((status = safetensors_writer_bytes(writer, index, piece, now * width, error)) != STATUS_OK) return status;
        values += now;
        count -= now;
    }
    return STATUS_OK;
}

enum status safetensors_writer_commit(struct safetensors_writer *writer, struct error *error)
{
    for (int64_t i = 0; i < writer->count; i++)
        if (writer->slots[i].written != writer->slots[i].bytes)
            return error_set(error, STATUS_INVALID, "tensor %lld lacks %lld of its %lld bytes", (long long)i,
                             (long long)(writer->slots[i].bytes - writer->slots[i].written), (long long)writer->slots[i].bytes);
    return file_writer_commit(writer->file, error);
}

void safetensors_writer_close(struct safetensors_writer *writer)
{
    if (!writer) return;
    file_writer_close(writer->file);
    free(writer->slots);
    free(writer);
}
