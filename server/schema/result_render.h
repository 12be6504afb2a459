/* result_render.h: makes JSON documents from structs by the tables of base/result.h. */
#ifndef SCHEMA_RESULT_RENDER_H
#define SCHEMA_RESULT_RENDER_H

#include "base/error.h"
#include "base/result.h"

#include <jansson.h>

/* Renders the struct at `from` as an object, with its fields in the table's order. *out is a new reference, NULL unless
 * STATUS_OK. STATUS_NO_MEMORY; STATUS_INTERNAL when a required field is absent, or a number that may not be null is not
 * finite. */
MUST_CHECK enum status result_render(const struct result_shape *shape, const void *from, json_t **out,
                                     struct error *error);

/* Whether the struct at `from` has this field. */
bool result_has(const struct result_field *field, const void *from);

#endif
