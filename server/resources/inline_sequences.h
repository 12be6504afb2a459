/* inline_sequences.h: token sequences in a request's body, read from its text into files: the text may have 16 MiB, and
 * its JSON tree would have 20 times as much. */
#ifndef RESOURCES_INLINE_SEQUENCES_H
#define RESOURCES_INLINE_SEQUENCES_H

#include "files/json_reader.h"
#include "schema/faults.h"
#include "store/datasets.h"

struct spill;

struct inline_sequences {               /* {0}: none */
    struct spill *parts[DATASET_PARTS]; /* owned */
    int64_t counts[DATASET_PARTS];
};

/* Reads `text`, [[id, …], …], whose grammar was checked. Wrong values are added to `faults` with their pointer below
 * "/sequences". The files are nameless ones in `directory`. Reset *out with inline_sequences_reset, also after a
 * failure. STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status inline_sequences_read(struct json_reader_text text, const char *directory, struct faults *faults,
                                             struct inline_sequences *out, struct error *error);
void inline_sequences_reset(struct inline_sequences *sequences);

/* For dataset_insert; lent by `sequences`. */
struct dataset_sequences inline_sequences_source(const struct inline_sequences *sequences);

/* SHA-256 of the numbers, which identifies a dataset's content. STATUS_IO, STATUS_NO_MEMORY. */
enum { INLINE_SEQUENCES_HASH = 65 };
MUST_CHECK enum status inline_sequences_hash(const struct inline_sequences *sequences, char out[INLINE_SEQUENCES_HASH],
                                             struct error *error);

#endif
