/* archive_segments.h: the segments of PostgreSQL's log in an archive (archive.h). A segment is 16 MiB of the log; its
 * name has 24 hexadecimal digits, and those of one timeline sort by time. */
#ifndef POSTGRES_ARCHIVE_SEGMENTS_H
#define POSTGRES_ARCHIVE_SEGMENTS_H

#include "postgres/archive.h"

#include <stdint.h>

enum { ARCHIVE_SEGMENT = 25 };

/* The segments from `first` on, of its timeline. `last`: the end of those that follow one another without a gap; "":
 * there is not even the first. `gap`: the first that is missing though there are later ones; "": none is. */
struct archive_segments {
    char last[ARCHIVE_SEGMENT], gap[ARCHIVE_SEGMENT];
};
MUST_CHECK enum status archive_segments_look(const struct archive *archive, const char *first,
                                             struct archive_segments *out, struct error *error);

/* Files in wal: of segments, and what belongs to one (NAME.gz, NAME.part, NAME.….backup.gz). */
struct archive_amount {
    int64_t files, bytes;
};
/* All of them. */
MUST_CHECK enum status archive_segments_count(const struct archive *archive, struct archive_amount *out,
                                              struct error *error);

/* What is of the same timeline as `first` and older; with `remove` it is removed, the oldest first. Other files are
 * left alone. STATUS_IO and the like name the first that cannot be removed; *out has what was. */
MUST_CHECK enum status archive_segments_before(const struct archive *archive, const char *first, bool remove,
                                               struct archive_amount *out, struct error *error);

/* How many segments wait to be archived; `data`: descriptor of the cluster's data. -1: it cannot be read. */
int archive_segments_waiting(int data);

#endif
