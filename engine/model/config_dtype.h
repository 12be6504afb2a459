/* config_dtype.h: the type of weights that a config.json names. Readers that are left the choice of a type take that
 * one, and round the weights to it. */
#ifndef MODEL_CONFIG_DTYPE_H
#define MODEL_CONFIG_DTYPE_H

#include "base/error.h"
#include "tensor/dtype.h"

enum { CONFIG_DTYPE_SIZE = 80 };

/* Sets `out` to a JSON object of those of `torch_dtype` and `dtype` that the config.json `text` [size] has and that
 * name another type than `stored`, with the name of `stored`; empty when there are none. config_text_merge puts them
 * into the text. `name` is for messages. STATUS_MALFORMED, STATUS_NO_MEMORY. */
MUST_CHECK enum status config_dtype_members(const char *name, const char *text, size_t size, enum dtype stored,
                                            char out[CONFIG_DTYPE_SIZE], struct error *error);

#endif
