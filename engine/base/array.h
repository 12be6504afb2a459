/* array.h: arrays that grow one element at a time. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Grows *items (malloc'd, elements of `size` bytes) so that it holds `count` elements. Capacity doubles, because such
 * arrays grow by one element at a time. */
MUST_CHECK enum status array_grow(void *items, int64_t count, int64_t *capacity, size_t size, struct error *error);

#endif
