/* curve_text.h: curves as JSON, their points written from what the database answered. Building a value of each of
 * 10,000 points and rendering it takes three times the processor time, and says the same byte for byte. */
#ifndef RESOURCES_CURVE_TEXT_H
#define RESOURCES_CURVE_TEXT_H

#include "http/response.h"
#include "store/curve_points.h"

/* Answers with the document and points of curve_open. Every point also gets "flags": those that `flags`
 * ({CHECKPOINT: [FLAG]}) has of its checkpoint, or none. Takes "series" out of the document. */
MUST_CHECK enum status curve_text_answer(struct response *response, json_t *document, const struct curve_points *points,
                                         const json_t *flags, struct error *error);

#endif
