/* config_text.h: one config.json merged from several that describe the same model. */
#ifndef MODEL_CONFIG_TEXT_H
#define MODEL_CONFIG_TEXT_H

#include "base/error.h"

#include <stdint.h>

struct config_text {
    const char *name; /* in messages */
    const char *text; /* a JSON object; lent */
    size_t size;
};

/* Merges the members of all `texts` [count] into one object; a key that several have is taken from the first. The two
 * spellings of rotary settings count as one key. The caller frees *out (memory_free). STATUS_MALFORMED, STATUS_INVALID,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status config_text_merge(const struct config_text *texts, int count, char **out, size_t *size,
                                         struct error *error);

#endif
