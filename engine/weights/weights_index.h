/* weights_index.h: the index of a sharded checkpoint, *.index.json, which names the file of each tensor. */
#ifndef WEIGHTS_WEIGHTS_INDEX_H
#define WEIGHTS_WEIGHTS_INDEX_H

#include "base/error.h"

#include <stdint.h>

struct weights_index;

/* Parses `text` [size]. Refuses duplicate names, and file names that do not end in `suffix` or contain slashes, only
 * dots, or control characters. `name` names the index in messages. The caller owns *out. STATUS_CORRUPT,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_index_new(const char *name, const char *text, size_t size, const char *suffix,
                                         struct weights_index **out, struct error *error);
void weights_index_free(struct weights_index *index); /* NULL is fine */

int weights_index_files(const struct weights_index *index);
const char *weights_index_file(const struct weights_index *index, int file); /* in ascending byte order; lent */

int64_t weights_index_count(const struct weights_index *index);
/* Name of the tensor at `i`, in ascending byte order of names; *file: the index of its file. Lent. */
const char *weights_index_tensor(const struct weights_index *index, int64_t i, int *file);

#endif
