/* disk_usage.h: a thread that adds up the sizes of directories in the data directory, because no request may wait for
 * that. It takes a fiftieth of a processor at most. */
#ifndef RESOURCES_DISK_USAGE_H
#define RESOURCES_DISK_USAGE_H

#include "base/error.h"

#include <stdint.h>

struct disk_usage;

/* Names of directories below $DATA, ends with NULL. */
extern const char *const disk_usage_names[];

/* `data_directory` is copied. The caller owns *out (disk_usage_stop). */
MUST_CHECK enum status disk_usage_start(const char *data_directory, struct disk_usage **out, struct error *error);
void disk_usage_stop(struct disk_usage *usage); /* NULL is fine */

/* Bytes on disk of directory number `which`; a file with several links counts in equal parts for each. -1: not added up
 * yet. */
int64_t disk_usage_bytes(const struct disk_usage *usage, size_t which);

#endif
