/* jsonb.h: JSON as PostgreSQL prints it. A jsonb keeps numbers as decimals, so it prints 1e20 as an integer of 21
 * digits, and jansson refuses integers beyond 2^63. Here such an integer is a real; the others stay integers. */
#ifndef JSON_JSONB_H
#define JSON_JSONB_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* Any JSON value, of `length` bytes with a NUL behind them. *out is a new reference, NULL on failure: STATUS_CORRUPT of
 * what is no JSON and of a number beyond the doubles, STATUS_NO_MEMORY. */
MUST_CHECK enum status jsonb_read(const char *text, size_t length, json_t **out, struct error *error);

#endif
