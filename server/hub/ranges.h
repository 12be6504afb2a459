/* ranges.h: a file that is downloaded in byte ranges, several at a time; after a crash the download goes on. A record
 * (partial/OID.ranges) counts the bytes of each range that are in the file (partial/OID) and is written after them. The
 * hash finds what a power failure damaged. Where there is no hash, nothing would find it: there the bytes are synced
 * before the record counts them, which is done every 16 MiB and when the file is closed. One process at a time has a
 * file open; one thread at a time uses it. */
#ifndef HUB_RANGES_H
#define HUB_RANGES_H

#include "base/error.h"

#include <stdint.h>

enum { RANGES_BYTES = 16 << 20 };

struct ranges;

/* Opens the file of blob `oid` of `bytes` bytes in `directory`, which must be `check` (digest.h; "" where there is no
 * hash). *out is NULL (STATUS_OK) while another process has it. The caller owns *out (ranges_close). STATUS_DISK_FULL,
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status ranges_open(int directory, const char *oid, const char *check, int64_t bytes,
                                   struct ranges **out, struct error *error);
void ranges_close(struct ranges *ranges); /* NULL is fine; the downloaded bytes stay */

int ranges_count(const struct ranges *ranges); /* 0 for an empty file */
/* The missing bytes of range `index`: [*first, *last]; *first > *last when none is missing. */
void ranges_missing(const struct ranges *ranges, int index, int64_t *first, int64_t *last);
int64_t ranges_there(const struct ranges *ranges); /* number of downloaded bytes */

/* Appends to range `index`. STATUS_CORRUPT for more than is missing; STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status ranges_write(struct ranges *ranges, int index, const char *bytes, size_t length,
                                    struct error *error);

/* Empties the file: the next byte is the first. */
MUST_CHECK enum status ranges_restart(struct ranges *ranges, struct error *error);

/* Hashes at most `most` more bytes, as far as the file is complete from its beginning. *done: the whole file is
 * hashed. */
MUST_CHECK enum status ranges_hash(struct ranges *ranges, int64_t most, bool *done, struct error *error);
/* Call it when the last byte was hashed. *right: the file has the expected hash; then the file is durable on disk. */
MUST_CHECK enum status ranges_finish(struct ranges *ranges, bool *right, struct error *error);
/* Removes the record, after the file was put in place. */
void ranges_forget(struct ranges *ranges);
/* Removes the file and its record. */
void ranges_discard(struct ranges *ranges);

#endif
