/* result_render.h: JSON documents made from structs by the tables of base/result.h. */
#ifndef SCHEMA_RESULT_RENDER_H
#define SCHEMA_RESULT_RENDER_H

#include "base/error.h"
#include "base/result.h"

#include <jansson.h>

/* The struct at `from` as an object, its fields in the order of the table. *out is a new reference, NULL unless
 * STATUS_OK. STATUS_NO_MEMORY; STATUS_INTERNAL when a field that is always there is not, or a number that is never null
 * is not finite. */
MUST_CHECK enum status result_render(const struct result_shape *shape, const void *from, json_t **out,
                                     struct error *error);

/* Whether the struct at `from` has this field. */
bool result_has(const struct result_field *field, const void *from);

#endif
