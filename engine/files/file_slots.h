/* file_slots.h: a new file with a head and, behind it, slots of known sizes. Each slot is written in chunks from its
 * beginning; slots may be written in any order. The file is committed when all slots are full. If it is `kept`, a
 * process can continue the file of a killed one: full slots and their checksums are noted in a file beside it
 * (.deltaq-NAME.places). */
#ifndef FILES_FILE_SLOTS_H
#define FILES_FILE_SLOTS_H

#include "base/checksum.h"
#include "files/file_writer.h"

struct file_slot {
    int64_t offset, bytes, written;
    struct checksum sum; /* of the bytes written */
};

struct file_slots {
    struct file_writer *file;
    struct file_slot *list; /* owned */
    int64_t count;
    char *notes;   /* owned: path of the file that lists full slots; NULL: the file is not kept */
    uint64_t head; /* checksum of the head: notes with another one are ignored */
    bool changed;  /* since the notes were written */
};

/* `count` slots of 0 bytes. Before file_slots_open the caller sets their offsets and sizes, from the end of the head
 * on. STATUS_NO_MEMORY. */
MUST_CHECK enum status file_slots_new(int64_t count, struct file_slots *slots, struct error *error);

/* Begins `path` with `head`, and reserves `total` bytes behind it. With `kept` it continues the file of an earlier
 * writer of the same path, head and slots, after checking all full slots against the notes. Statuses of
 * file_writer_open. */
MUST_CHECK enum status file_slots_open(struct file_slots *slots, const char *path, const void *head, size_t head_bytes,
                                       int64_t total, bool kept, struct error *error);

/* Appends to a slot. STATUS_INVALID (more than it holds); statuses of file_writer_write. */
MUST_CHECK enum status file_slots_add(struct file_slots *slots, int64_t index, const void *bytes, int64_t size,
                                      struct error *error);

bool file_slots_full(const struct file_slots *slots, int64_t index);
/* Empties a slot, so that it can be written again. */
void file_slots_rewind(struct file_slots *slots, int64_t index);
/* Makes all written bytes durable and notes which slots are full. Statuses of file_writer_put. */
MUST_CHECK enum status file_slots_save(struct file_slots *slots, struct error *error);

/* STATUS_INVALID when a slot is not full; statuses of file_writer_commit. */
MUST_CHECK enum status file_slots_commit(const struct file_slots *slots, struct error *error);
/* Leaves {0}. A file that was not committed is removed, unless it is kept. */
void file_slots_reset(struct file_slots *slots);

#endif
