/* written.h: JSON as text, whole or not at all. jansson 2.14 ignores that it had no room for the name of a member, and
 * json_dumps then gives a text with a part missing: a hash of it, or a manifest, would be wrong and look right. */
#ifndef JSON_WRITTEN_H
#define JSON_WRITTEN_H

#include <jansson.h>

/* json_dumps, with its flags. The caller frees it; NULL: no memory, or a NULL value. */
char *written_json(const json_t *value, size_t flags);

#endif
