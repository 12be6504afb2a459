/* curve_text.h: curves as JSON whose points are written directly from the database's answer. Making a JSON value for
 * each of 10,000 points and rendering it takes three times the processor time, and gives the same bytes. */
#ifndef RESOURCES_CURVE_TEXT_H
#define RESOURCES_CURVE_TEXT_H

#include "http/response.h"
#include "store/curve_points.h"

/* Answers with the document and points of curve_open. Every point also gets "flags": the flags of its checkpoint in
 * `flags` ({CHECKPOINT: [FLAG]}), or none. Removes "series" from the document. */
MUST_CHECK enum status curve_text_answer(struct response *response, json_t *document, const struct curve_points *points,
                                         const json_t *flags, struct error *error);

#endif
