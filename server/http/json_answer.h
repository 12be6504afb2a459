/* json_answer.h: compact JSON in which each fraction has the shortest form that reads back as the same double (0.003,
 * where jansson's 17 digits give 0.0030000000000000001). */
#ifndef HTTP_JSON_ANSWER_H
#define HTTP_JSON_ANSWER_H

#include <jansson.h>

enum { JSON_ANSWER_REAL = 40 };

/* A finite number with the fewest digits, at least 15, that read back as the same double; without a point where it is
 * whole. */
void json_answer_real(double value, char out[JSON_ANSWER_REAL]);

/* The text of any JSON value, NUL-terminated; the caller frees it. NULL when out of memory. */
char *json_answer_dump(const json_t *value);

#endif
