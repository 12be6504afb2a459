/* config_keys.h: the keys of a configuration that a person wrote for a new model. A published config.json has many keys
 * that mean nothing here, and its weights show what it forgot; in one that is written by hand a mistyped key would
 * leave a default in its place, and so another model. */
#ifndef MODEL_CONFIG_KEYS_H
#define MODEL_CONFIG_KEYS_H

#include "base/error.h"

#include <stddef.h>

/* Every key of the JSON object, and of its rope_scaling and rope_parameters, must be read by config.h, or be known to
 * have no effect on a model trained here: names and ids, or a dropout of 0. STATUS_INVALID otherwise, at `pointer`/KEY,
 * with the key that was meant; STATUS_UNSUPPORTED of another dropout. STATUS_MALFORMED: not JSON. `name` is for
 * messages. */
MUST_CHECK enum status config_keys_check(const char *name, const char *pointer, const char *text, size_t size,
                                         struct error *error);

#endif
