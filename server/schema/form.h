/* form.h: forms of texts in requests (struct param_form) that several tables share. */
#ifndef SCHEMA_FORM_H
#define SCHEMA_FORM_H

#include "base/param.h"

/* Names become parts of paths and of TRAJECTORY/NAME, so they have no "/" and no control characters. Each table sets
 * their length. */
extern const struct param_form form_name;
/* A label of a worker: "gpu=h100", "debug". */
extern const struct param_form form_label;

#endif
