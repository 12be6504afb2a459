/* zip.h: the directory of a zip archive of stored entries, as torch.save writes it (PKWARE APPNOTE 6.3.10, sections 4.3
 * and 4.5.3). Compressed entries are refused. Where the format repeats a fact, both places must agree, because tools
 * differ in which of the two they believe.
 * This is our own reader because we need the offset of a stored entry, to read it with pread from many threads at once,
 * and the certainty that no two entries overlap: minizip keeps one position per archive and seeks, libzip does not tell
 * offsets, and both accept archives that contradict themselves. */
#ifndef PYTORCH_ZIP_H
#define PYTORCH_ZIP_H

#include "files/file.h"

struct zip;

struct zip_entry {
    const char *name; /* lent by the archive; printable, relative, without "..", ends in no slash */
    int64_t offset;   /* of its first byte in the file */
    int64_t bytes;
    uint32_t crc;
};

/* Reads the directory of `file` (lent until zip_close) and compares it with every entry's own header: names, sizes,
 * method 0, no encryption, no overlap, nothing before, between or after the entries, no name twice. The caller owns
 * *out. STATUS_CORRUPT, STATUS_UNSUPPORTED (compressed, encrypted, several disks), statuses of file_read,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status zip_open(const struct file *file, struct zip **out, struct error *error);
void zip_close(struct zip *zip); /* NULL is fine */

int64_t zip_count(const struct zip *zip);
/* The entry at `index`, in [0, count), in ascending byte order of names. */
const struct zip_entry *zip_entry(const struct zip *zip, int64_t index);
/* NULL when there is none of this name. O(log count). */
const struct zip_entry *zip_find(const struct zip *zip, const char *name);

/* The whole entry, its CRC-32 checked. The caller releases *out (memory_free). STATUS_TOO_LARGE above `limit` bytes,
 * STATUS_CORRUPT, statuses of file_read. */
MUST_CHECK enum status zip_read(const struct zip *zip, const struct zip_entry *entry, int64_t limit, char **out,
                                size_t *bytes, struct error *error);

#endif
