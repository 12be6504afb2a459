/* gguf_split.h: names of the parts of a split GGUF file: "X-00001-of-00003.gguf". */
#ifndef GGUF_GGUF_SPLIT_H
#define GGUF_GGUF_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

enum { GGUF_SPLIT_MOST = 999 }; /* parts that are read */

/* True when `name` (may be a path) is the name of a part: number *part, from 1, of *count. */
bool gguf_split_read(const char *name, int *part, int *count);

/* The name of part `part` of the file that `name` is a part of. False when it does not fit `out`. */
bool gguf_split_name(const char *name, int part, char *out, size_t size);

#endif
