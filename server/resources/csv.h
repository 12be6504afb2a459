/* csv.h: tables in the form of RFC 4180. */
#ifndef RESOURCES_CSV_H
#define RESOURCES_CSV_H

#include "base/buffer.h"
#include "http/response.h"

#include <jansson.h>

enum { CSV_MAX = 64 << 20 }; /* the most bytes of a table */

/* Appends a number with the digits that it has in JSON, a text or nothing (null, NULL), then `end`. A text that a
 * spreadsheet would read as a formula gets an apostrophe in front. */
void csv_field(struct buffer *out, const json_t *value, char end);

/* Answers 200 with the table (its buffer is taken). STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status csv_answer(struct response *response, struct buffer *table, struct error *error);

/* The same for rows of another text type; the answer is empty without rows. */
MUST_CHECK enum status csv_answer_as(struct response *response, const char *content_type, struct buffer *table,
                                     struct error *error);

#endif
