/* form.h: forms that texts of requests must have (struct param_form), where more than one table needs them. */
#ifndef SCHEMA_FORM_H
#define SCHEMA_FORM_H

#include "base/param.h"

/* Names stand in paths and in TRAJECTORY/NAME: no "/" and no control characters. Their length is the table's. */
extern const struct param_form form_name;
/* What a worker is or has, as a word: "gpu=h100", "debug". */
extern const struct param_form form_label;

#endif
