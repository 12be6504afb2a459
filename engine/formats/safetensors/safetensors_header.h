/* safetensors_header.h: the JSON header of a .safetensors file, checked in full. A pure function of its bytes. */
#ifndef SAFETENSORS_SAFETENSORS_HEADER_H
#define SAFETENSORS_SAFETENSORS_HEADER_H

#include "base/error.h"
#include "tensor/dtype.h"

#include <stdint.h>

enum { SAFETENSORS_RANK_MAX = 16 };
#define SAFETENSORS_HEADER_MAX INT64_C(100000000) /* bytes of JSON */

/* One tensor as the header describes it. Lent by the header (the open file). */
struct safetensors_tensor {
    const char *name; /* valid UTF-8 without control characters; never a path */
    enum dtype dtype;
    int rank;             /* 0 to 16; 0 is a single number */
    const int64_t *shape; /* [rank], outermost first, row-major */
    int64_t elements;
    /* offset of the first byte, from the end of the header (here) or the start of the file (safetensors.h) */
    int64_t offset;
    int64_t bytes;
};

struct safetensors_header;

/* Parses `text` [size] and checks it against the `data_bytes` bytes that follow it in the file. It refuses: anything
 * but one JSON object from first byte on, with trailing spaces only; a name, field or metadata key given twice (as
 * decoded); unknown fields and dtypes; NUL or control characters in names; ranks over 16, dimensions of 2^48 and more,
 * products that overflow; spans that are not exactly the size of their shape, or that do not cover the data from its
 * first byte to its last without gap or overlap. `name` names the file in messages. The caller owns *out.
 * STATUS_CORRUPT, STATUS_UNSUPPORTED (a dtype deltaq does not know), STATUS_NO_MEMORY. */
MUST_CHECK enum status safetensors_header_new(const char *name, const char *text, size_t size, int64_t data_bytes,
                                              struct safetensors_header **out, struct error *error);
void safetensors_header_free(struct safetensors_header *header); /* NULL is fine */

int64_t safetensors_header_count(const struct safetensors_header *header);
/* The tensor at `index`, in [0, count), in ascending byte order of names. */
void safetensors_header_tensor(const struct safetensors_header *header, int64_t index, struct safetensors_tensor *out);
/* Index of the tensor `name`, -1 when there is none. O(log count). */
int64_t safetensors_header_find(const struct safetensors_header *header, const char *name);

#endif
