/* config_text.h: one config.json out of several that each say something of a model. */
#ifndef MODEL_CONFIG_TEXT_H
#define MODEL_CONFIG_TEXT_H

#include "base/error.h"

#include <stdint.h>

struct config_text {
    const char *name; /* in messages */
    const char *text; /* a JSON object; lent */
    size_t size;
};

/* The members of all `texts` [count] as one object: of a key that several have, the first text's. The two spellings of
 * rotary settings count as one key. The caller frees *out (memory_free). STATUS_MALFORMED, STATUS_INVALID,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status config_text_merge(const struct config_text *texts, int count, char **out, size_t *size,
                                         struct error *error);

#endif
