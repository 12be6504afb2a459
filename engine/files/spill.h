/* spill.h: a file without a name for bytes that do not fit in memory for a while. The file disappears when its owner
 * closes it or dies. */
#ifndef FILES_SPILL_H
#define FILES_SPILL_H

#include "base/error.h"

#include <stdint.h>

struct spill;

/* Reserves `bytes` in `directory`; the file grows when more is written. `what` names the content in messages ("hidden
 * states") and is lent for the spill's life. The caller owns *out (spill_close). STATUS_DISK_FULL, STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status spill_open(const char *directory, int64_t bytes, const char *what, struct spill **out,
                                  struct error *error);
void spill_close(struct spill *spill); /* NULL is fine */

MUST_CHECK enum status spill_write(struct spill *spill, int64_t at, const void *bytes, size_t size,
                                   struct error *error);
MUST_CHECK enum status spill_read(const struct spill *spill, int64_t at, void *bytes, size_t size, struct error *error);

/* Makes such a file and nothing else: its descriptor (closed on execve), for the caller to close; -1 with errno. */
int spill_nameless(const char *directory);

/* A descriptor of the same file, for code that sends files; the caller closes it. STATUS_IO. */
MUST_CHECK enum status spill_descriptor(const struct spill *spill, int *out, struct error *error);

#endif
