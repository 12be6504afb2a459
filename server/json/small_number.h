/* small_number.h: numbers in JSON that are not 0 and that a double holds as 0, or with few of their digits. jansson
 * reads them without a word, and refuses only those that are too large. */
#ifndef JSON_SMALL_NUMBER_H
#define JSON_SMALL_NUMBER_H

#include <stddef.h>

#define SMALL_NUMBER_LEAST "1e-307" /* smaller ones are refused */

/* The first such number in a text of JSON, lent, and its length; NULL: there is none. Of a text that is no JSON any
 * answer may come. */
const char *small_number_find(const char *text, size_t length, size_t *size);

#endif
