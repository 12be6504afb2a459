/* memory.h: checked sizes and aligned blocks. Kernels allocate nothing; large memory is allocated here, before work
 * begins. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "base/error.h"

#include <stdint.h>

/* a * b (a + b) into *out; STATUS_TOO_LARGE when it does not fit a size_t. `what` names the quantity in the detail. */
MUST_CHECK enum status size_multiply(size_t a, size_t b, const char *what, size_t *out, struct error *error);
MUST_CHECK enum status size_add(size_t a, size_t b, const char *what, size_t *out, struct error *error);

/* `count` elements of `size` bytes, 64-byte aligned, zeroed. The caller owns *out (memory_free). A count of 0 gives a
 * block that may be freed but not read. `out` is the address of a pointer, which becomes NULL on failure:
 * STATUS_NO_MEMORY, STATUS_TOO_LARGE. */
MUST_CHECK enum status memory_new(int64_t count, size_t size, const char *what, void *out, struct error *error);
void memory_free(void *block); /* NULL is fine */

#endif
