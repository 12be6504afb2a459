/* pieces.h: a file that is being downloaded in pieces, several at a time, and goes on where it stood after a crash.
 * Beside the bytes (partial/OID) lies how many of each piece are there (partial/OID.pieces); it is written after them.
 * What a power failure leaves wrong, the hash finds. One process at a time has a file open, one thread at a time
 * calls. */
#ifndef HUB_PIECES_H
#define HUB_PIECES_H

#include "base/error.h"

#include <stdint.h>

enum { PIECES_BYTES = 16 << 20 };

struct pieces;

/* Opens the file of blob `oid` of `bytes` bytes in `directory`. *out is NULL (STATUS_OK) while another process has it.
 * The caller owns *out (pieces_close). STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status pieces_open(int directory, const char *oid, int64_t bytes, struct pieces **out,
                                   struct error *error);
void pieces_close(struct pieces *pieces); /* NULL is fine; what is there stays */

int pieces_count(const struct pieces *pieces); /* 0 for an empty file */
/* The span of piece `index` that is missing: [*first, *last], *first > *last when nothing is. */
void pieces_missing(const struct pieces *pieces, int index, int64_t *first, int64_t *last);
int64_t pieces_there(const struct pieces *pieces); /* bytes that are there */

/* Appends to piece `index`. STATUS_CORRUPT for more than is missing; STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status pieces_write(struct pieces *pieces, int index, const char *bytes, size_t length,
                                    struct error *error);

/* Forgets all of it: the next byte is the first. */
MUST_CHECK enum status pieces_restart(struct pieces *pieces, struct error *error);

/* Hashes at most `most` more bytes of what is there from the beginning on. *done: all of the file is hashed. */
MUST_CHECK enum status pieces_hash(struct pieces *pieces, int64_t most, bool *done, struct error *error);
/* When all is hashed: whether it is what `oid` says, and durable on disk. */
MUST_CHECK enum status pieces_finish(struct pieces *pieces, bool *right, struct error *error);
/* When the file has been put in place: its record of pieces goes. */
void pieces_forget(struct pieces *pieces);
/* When it turns out not to be wanted: both go. */
void pieces_discard(struct pieces *pieces);

#endif
