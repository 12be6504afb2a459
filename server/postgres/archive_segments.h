/* archive_segments.h: the segments of PostgreSQL's log in an archive (archive.h). A segment is 16 MiB of the log; its
 * name has 24 hexadecimal digits, and those of one timeline sort by time. */
#ifndef POSTGRES_ARCHIVE_SEGMENTS_H
#define POSTGRES_ARCHIVE_SEGMENTS_H

#include "postgres/archive.h"

#include <stdint.h>

enum { ARCHIVE_SEGMENT = 25 };

/* The segments from `first` on, on its timeline. `last`: the last of those that follow without a gap; "": even the
 * first is missing. `gap`: the first missing segment that has later ones; "": none. */
struct archive_segments {
    char last[ARCHIVE_SEGMENT], gap[ARCHIVE_SEGMENT];
};
MUST_CHECK enum status archive_segments_look(const struct archive *archive, const char *first,
                                             struct archive_segments *out, struct error *error);

/* Files in wal: segments and the files of a segment (NAME.gz, NAME.part, NAME.….backup.gz). */
struct archive_amount {
    int64_t files, bytes;
};
/* Counts all of them. */
MUST_CHECK enum status archive_segments_count(const struct archive *archive, struct archive_amount *out,
                                              struct error *error);

/* Counts, and with `remove` removes, the segments of the same timeline that are older than `first`, the oldest first.
 * Other files are ignored. STATUS_IO and other errors name the first file that cannot be removed; *out has what was
 * removed. */
MUST_CHECK enum status archive_segments_before(const struct archive *archive, const char *first, bool remove,
                                               struct archive_amount *out, struct error *error);

/* How many segments wait to be archived; `data`: descriptor of the cluster's data directory. -1: it cannot be read. */
int archive_segments_waiting(int data);

#endif
