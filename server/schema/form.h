/* form.h: forms of texts in requests (struct param_form) that several tables share. */
#ifndef SCHEMA_FORM_H
#define SCHEMA_FORM_H

#include "base/error.h"
#include "base/param.h"

#include <jansson.h>

/* Names become parts of paths and of TRAJECTORY/NAME, so they have no "/" and no control characters, and are not "."
 * or "..", which clients remove from an address; the pattern does not say that. Each table sets their length. */
extern const struct param_form form_name;
/* A label of a worker: "gpu=h100", "debug". */
extern const struct param_form form_label;

/* Tags (NULL and null: none) that ?tag=KEY:VALUE can name. STATUS_INVALID at `pointer`. */
MUST_CHECK enum status form_check_tags(json_t *tags, const char *pointer, struct error *error);

#endif
