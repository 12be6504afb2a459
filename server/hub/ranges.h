/* ranges.h: a file that is being downloaded in ranges, several at a time, and goes on where it stood after a crash.
 * Beside the bytes (partial/OID) lies how many of each range are there (partial/OID.ranges); it is written after them.
 * What a power failure leaves wrong, the hash finds. One process at a time has a file open, one thread at a time
 * calls. */
#ifndef HUB_RANGES_H
#define HUB_RANGES_H

#include "base/error.h"

#include <stdint.h>

enum { RANGES_BYTES = 16 << 20 };

struct ranges;

/* Opens the file of blob `oid` of `bytes` bytes in `directory`. *out is NULL (STATUS_OK) while another process has it.
 * The caller owns *out (ranges_close). STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status ranges_open(int directory, const char *oid, int64_t bytes, struct ranges **out,
                                   struct error *error);
void ranges_close(struct ranges *ranges); /* NULL is fine; what is there stays */

int ranges_count(const struct ranges *ranges); /* 0 for an empty file */
/* The span of range `index` that is missing: [*first, *last], *first > *last when nothing is. */
void ranges_missing(const struct ranges *ranges, int index, int64_t *first, int64_t *last);
int64_t ranges_there(const struct ranges *ranges); /* bytes that are there */

/* Appends to range `index`. STATUS_CORRUPT for more than is missing; STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status ranges_write(struct ranges *ranges, int index, const char *bytes, size_t length,
                                    struct error *error);

/* Forgets all of it: the next byte is the first. */
MUST_CHECK enum status ranges_restart(struct ranges *ranges, struct error *error);

/* Hashes at most `most` more bytes of what is there from the beginning on. *done: all of the file is hashed. */
MUST_CHECK enum status ranges_hash(struct ranges *ranges, int64_t most, bool *done, struct error *error);
/* When all is hashed: whether it is what `oid` says, and durable on disk. */
MUST_CHECK enum status ranges_finish(struct ranges *ranges, bool *right, struct error *error);
/* When the file has been put in place: its record of ranges goes. */
void ranges_forget(struct ranges *ranges);
/* When it turns out not to be wanted: both go. */
void ranges_discard(struct ranges *ranges);

#endif
