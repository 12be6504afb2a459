/* file_slots.h: a new file with a head and, behind it, places of known sizes, each filled in chunks from its beginning
 * on, in any order among them. It stands when all are full. One that is kept can be gone on with by a process that
 * follows a killed one: full places are noted, with their checksums, in a file beside it (.deltaq-NAME.places). */
#ifndef FILES_FILE_SLOTS_H
#define FILES_FILE_SLOTS_H

#include "base/checksum.h"
#include "files/file_writer.h"

struct file_slot {
    int64_t offset, bytes, written;
    struct checksum sum; /* of what was written */
};

struct file_slots {
    struct file_writer *file;
    struct file_slot *list; /* owned */
    int64_t count;
    char *notes;   /* owned: path of the file that tells which places are full; NULL: it is not kept */
    uint64_t head; /* checksum: notes of another file are not read */
    bool changed;  /* since places were noted */
};

/* `count` places of 0 bytes; the caller lays them out, with offsets from the head's end on, before file_slots_open.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status file_slots_new(int64_t count, struct file_slots *slots, struct error *error);

/* Begins `path` with `head`, and sets aside `total` bytes behind it. With `kept` it goes on with what an earlier writer
 * of the same path, head and places has noted, all of which is read and checked first. Statuses of file_writer_open. */
MUST_CHECK enum status file_slots_open(struct file_slots *slots, const char *path, const void *head, size_t head_bytes,
                                       int64_t total, bool kept, struct error *error);

/* Appends to what was written of a place. STATUS_INVALID (more than it holds); statuses of file_writer_write. */
MUST_CHECK enum status file_slots_add(struct file_slots *slots, int64_t index, const void *bytes, int64_t size,
                                      struct error *error);

bool file_slots_full(const struct file_slots *slots, int64_t index);
/* Empties a place, so that it may be written once more. */
void file_slots_rewind(struct file_slots *slots, int64_t index);
/* Makes what was written durable and notes which places are full. Statuses of file_writer_put. */
MUST_CHECK enum status file_slots_keep(struct file_slots *slots, struct error *error);

/* STATUS_INVALID when a place is not full; statuses of file_writer_commit. */
MUST_CHECK enum status file_slots_commit(const struct file_slots *slots, struct error *error);
void file_slots_reset(
    struct file_slots *slots); /* leaves {0}; a file that was not committed is gone, unless it is kept */

#endif
