#include "formats/file_slots.h"

#include <assert.h>
#include <stdlib.h>

enum status file_slots_new(int64_t count, struct file_slots *slots, struct error *error)
{
    *slots = (struct file_slots){.list = calloc(count > 0 ? (size_t)count : 1, sizeof *slots->list), .count = count};
    return slots->list == NULL ? error_set(error, STATUS_NO_MEMORY, "cannot allocate a file of %lld tensors", (long long)count)
                               : STATUS_OK;
}

enum status file_slots_open(struct file_slots *slots, const char *path, const void *head, size_t head_bytes, int64_t total,
                            struct error *error)
{
    const int64_t before = (int64_t)head_bytes;
    enum status status;
    for (int64_t i = 0; i < slots->count; i++) slots->list[i].offset += before;
    if ((status = file_writer_open(path, before + total, &slots->file, error)) != STATUS_OK) return status;
    if ((status = file_writer_append(slots->file, head, head_bytes, error)) != STATUS_OK || total == 0) return status;
    return file_writer_write(slots->file, before + total - 1, "", 1, error); /* gaps are zeros; one at the end must be there too */
}

enum status file_slots_add(struct file_slots *slots, int64_t index, const void *bytes, int64_t size, struct error *error)
{
    assert(index >= 0 && index < slots->count);
    struct file_slot *slot = &slots->list[index];
    if (size < 0 || size > slot->bytes - slot->written)
        return error_set(error, STATUS_INVALID, "%lld bytes for a tensor that lacks %lld", (long long)size,
                         (long long)(slot->bytes - slot->written));
    const enum status status = file_writer_write(slots->file, slot->offset + slot->written, bytes, (size_t)size, error);
    if (status == STATUS_OK) slot->written += size;
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
    *slots = (struct file_slots){0};
}
