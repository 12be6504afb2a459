/* recipes.h: named methods as data, and the id of any method: the hash of all its fields. {"recipe": NAME} in place of
 * {"name": …} is that method; other fields beside it change it. */
#ifndef INPUTS_RECIPES_H
#define INPUTS_RECIPES_H

#include "quant/quantize_method.h"

#include <jansson.h>

enum { RECIPE_TEXT = 17 };

/* For `recipes` of a PARAM_VARIANT. */
extern const struct param_recipe recipes_table[];

/* The method with all its fields, in the form of a request: {"name": "gptq", "bits": 4, …}. New reference; NULL when
 * memory ran out. */
json_t *recipes_document(const struct quantize_method *method);

/* The id of a complete method. STATUS_NO_MEMORY. */
MUST_CHECK enum status recipes_id(const struct quantize_method *method, char out[RECIPE_TEXT], struct error *error);

/* The name of the recipe with that id; NULL when there is none; lent for ever. */
const char *recipes_name(const char id[RECIPE_TEXT]);

/* [{"name", "recipe_id", "method"}], with all fields of each method. New reference; NULL when memory ran out. */
json_t *recipes_list(void);

#endif
