/* written.h: JSON as text, complete or not at all. jansson 2.14 ignores a failed allocation for the name of a member;
 * json_dumps then returns a text with a part missing, and a hash of it, or a manifest, would be wrong without
 * notice. */
#ifndef JSON_WRITTEN_H
#define JSON_WRITTEN_H

#include <jansson.h>

/* json_dumps, with its flags. The caller frees it; NULL: no memory, or a NULL value. */
char *written_json(const json_t *value, size_t flags);

#endif
