/* json_body.h: strict parsing of JSON from clients. */
#ifndef HTTP_JSON_BODY_H
#define HTTP_JSON_BODY_H

#include "base/error.h"

#include <jansson.h>

/* Parses `bytes` (UTF-8) as one JSON value of any kind into *out (the caller's reference; NULL on failure).
 * STATUS_MALFORMED with line and column: bad grammar or UTF-8, duplicate keys, \u0000, numbers out of range (also
 * smaller than 1e-307 in magnitude and not 0), text after the value, more than 32 levels. STATUS_TOO_LARGE: more than
 * 65,536 objects or 524,288 arrays (a tree takes up to 77 times its text). */
MUST_CHECK enum status json_body_parse(const char *bytes, size_t length, json_t **out, struct error *error);

#endif
