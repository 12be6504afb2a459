#include "files/file_slots.h"

#include "files/file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 18 };

/* The notes: this header, a struct note for each slot, the checksum of everything before it. */
struct notes_header {
    char magic[8];
    uint64_t head;
    int64_t count;
};
struct note {
    int64_t written; /* the slot's size when it is full, or 0 */
    uint64_t sum;
};
_Static_assert(sizeof(struct notes_header) == 24 && sizeof(struct note) == 16, "notes have no gaps");

static const char magic[8] = "deltaqP1";

enum status file_slots_new(int64_t count, struct file_slots *slots, struct error *error)
{
    *slots = (struct file_slots){.list = calloc(count > 0 ? (size_t)count : 1, sizeof *slots->list), .count = count};
    return slots->list == NULL
               ? error_set(error, STATUS_NO_MEMORY, "cannot allocate a file of %lld tensors", (long long)count)
               : STATUS_OK;
}

/* ---- what an earlier writer left ---- */

static size_t notes_size(const struct file_slots *slots)
{
    return sizeof(struct notes_header) + (size_t)slots->count * sizeof(struct note) + sizeof(uint64_t);
}

static uint64_t sum_of(const void *bytes, size_t size)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, bytes, size);
    return checksum_value(&sum);
}

/* DIRECTORY/.deltaq-NAME.places */
static enum status name_notes(struct file_slots *slots, const char *path, struct error *error)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    if (asprintf(&slots->notes, "%.*s.deltaq-%s.places", (int)(name - path), path, name) >= 0) return STATUS_OK;
    slots->notes = NULL;
    return error_set(error, STATUS_NO_MEMORY, "cannot allocate a path");
}

/* Whether the slot holds the bytes that its note describes. */
static bool holds(struct file_slots *slots, struct file_slot *slot, struct note note, char *chunk)
{
    struct error ignored;
    if (note.written != slot->bytes) return false;
    for (int64_t at = 0; at < slot->bytes;) {
        const int64_t left = slot->bytes - at, now = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        if (file_writer_read(slots->file, slot->offset + at, chunk, (size_t)now, &ignored) != STATUS_OK) return false;
        checksum_add(&slot->sum, chunk, (size_t)now);
        at += now;
    }
    return checksum_value(&slot->sum) == note.sum;
}

/* Ignores notes that are incomplete or belong to another file. */
static enum status take_up(struct file_slots *slots, struct error *error)
{
    const size_t size = notes_size(slots), body = size - sizeof(uint64_t);
    struct file *file = NULL;
    struct error ignored;
    struct notes_header header;
    uint64_t sum;
    enum status status = STATUS_OK;
    char *bytes = malloc(size + CHUNK_BYTES), *chunk = bytes + size;
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate what was noted of a file");
    if (file_open(AT_FDCWD, slots->notes, FILE_REFUSE_LINKS, INT64_MAX, &file, &ignored) != STATUS_OK) goto done;
    if (file_bytes(file) != (int64_t)size || file_read(file, 0, bytes, size, &ignored) != STATUS_OK) goto done;
    memcpy(&header, bytes, sizeof header);
    memcpy(&sum, bytes + body, sizeof sum);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.head != slots->head || header.count != slots->count ||
        sum != sum_of(bytes, body))
        goto done;
    for (int64_t i = 0; i < slots->count; i++) {
        struct note note;
        memcpy(&note, bytes + sizeof header + (size_t)i * sizeof note, sizeof note);
        if (holds(slots, &slots->list[i], note, chunk))
            slots->list[i].written = slots->list[i].bytes;
        else
            file_slots_rewind(slots, i);
    }
done:
    file_close(file);
    free(bytes);
    return status;
}

/* ---- the file ---- */

static enum status open_file(struct file_slots *slots, const char *path, int64_t bytes, bool kept, struct error *error)
{
    enum status status;
    bool found = false;
    if (!kept) return file_writer_open(path, bytes, &slots->file, error);
    if ((status = name_notes(slots, path, error)) != STATUS_OK) return status;
    if ((status = file_writer_take_up(path, bytes, &slots->file, &found, error)) != STATUS_OK) return status;
    return found ? take_up(slots, error) : STATUS_OK;
}

enum status file_slots_open(struct file_slots *slots, const char *path, const void *head, size_t head_bytes,
                            int64_t total, bool kept, struct error *error)
{
    const int64_t before = (int64_t)head_bytes;
    enum status status;
    slots->head = sum_of(head, head_bytes);
    for (int64_t i = 0; i < slots->count; i++) {
        slots->list[i].offset += before;
        file_slots_rewind(slots, i);
    }
    if ((status = open_file(slots, path, before + total, kept, error)) != STATUS_OK) return status;
    if ((status = file_writer_append(slots->file, head, head_bytes, error)) != STATUS_OK || total == 0) return status;
    /* Gaps are zeros. A gap at the end must exist too; the last byte of a full slot stays as it is. */
    for (int64_t i = 0; i < slots->count; i++)
        if (slots->list[i].written > 0 && slots->list[i].offset + slots->list[i].bytes == before + total)
            return STATUS_OK;
    return file_writer_write(slots->file, before + total - 1, "", 1, error);
}

enum status file_slots_add(struct file_slots *slots, int64_t index, const void *bytes, int64_t size,
                           struct error *error)
{
    assert(index >= 0 && index < slots->count);
    struct file_slot *slot = &slots->list[index];
    if (size < 0 || size > slot->bytes - slot->written)
        return error_set(error, STATUS_INVALID, "%lld bytes for a tensor that lacks %lld", (long long)size,
                         (long long)(slot->bytes - slot->written));
    const enum status status = file_writer_write(slots->file, slot->offset + slot->written, bytes, (size_t)size, error);
    if (status != STATUS_OK) return status;
    slot->written += size;
    slots->changed = true;
    if (slots->notes != NULL) checksum_add(&slot->sum, bytes, (size_t)size);
    return STATUS_OK;
}

bool file_slots_full(const struct file_slots *slots, int64_t index)
{
    return slots->list[index].written == slots->list[index].bytes;
}

void file_slots_rewind(struct file_slots *slots, int64_t index)
{
    slots->list[index].written = 0;
    checksum_init(&slots->list[index].sum);
}

enum status file_slots_save(struct file_slots *slots, struct error *error)
{
    const size_t size = notes_size(slots), body = size - sizeof(uint64_t);
    const struct notes_header header = {.head = slots->head, .count = slots->count};
    enum status status;
    if (slots->notes == NULL || !slots->changed) return STATUS_OK;
    if ((status = file_writer_sync(slots->file, error)) != STATUS_OK) return status;
    char *bytes = calloc(1, size);
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate notes of a file");
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes, magic, sizeof magic);
    for (int64_t i = 0; i < slots->count; i++) {
        if (!file_slots_full(slots, i)) continue;
        const struct note note = {slots->list[i].bytes, checksum_value(&slots->list[i].sum)};
        memcpy(bytes + sizeof header + (size_t)i * sizeof note, &note, sizeof note);
    }
    const uint64_t sum = sum_of(bytes, body);
    memcpy(bytes + body, &sum, sizeof sum);
    if ((status = file_writer_put(slots->notes, bytes, size, error)) == STATUS_OK) slots->changed = false;
    free(bytes);
    return status;
}

enum status file_slots_commit(const struct file_slots *slots, struct error *error)
{
    for (int64_t i = 0; i < slots->count; i++) {
        const struct file_slot *slot = &slots->list[i];
        if (slot->written != slot->bytes)
            return error_set(error, STATUS_INVALID, "tensor %lld lacks %lld of its %lld bytes", (long long)i,
                             (long long)(slot->bytes - slot->written), (long long)slot->bytes);
    }
    return file_writer_commit(slots->file, error);
}

void file_slots_reset(struct file_slots *slots)
{
    file_writer_close(slots->file);
    free(slots->list);
    free(slots->notes);
    *slots = (struct file_slots){0};
}
