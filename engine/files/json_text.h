/* json_text.h: the strings and numbers of JSON, as json_reader.c needs them: scanned and checked first, decoded
 * afterwards. A scan begins at *at. It moves *at past what it found and returns NULL, or moves *at to the error and
 * returns a complaint. */
#ifndef FILES_JSON_TEXT_H
#define FILES_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A string, from its opening quote past its closing one. *escaped: it has escapes to decode. */
const char *json_text_string(const char **at, const char *end, bool *escaped);

const char *json_text_number(const char **at, const char *end);

/* Decodes the text between the quotes of a scanned string into `out`, which needs at most `size` bytes, because no
 * escape is shorter than its character. Returns the bytes written. */
size_t json_text_decode(const char *raw, size_t size, char *out);

#endif
