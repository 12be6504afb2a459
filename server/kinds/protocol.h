/* protocol.h: the data behind a number, as ids. An evaluation's id covers its exact tokens, how they are cut into
 * sequences, and the arithmetic of the passes. Numbers of one metric with different ids answer different questions and
 * never lie on one curve. */
#ifndef KINDS_PROTOCOL_H
#define KINDS_PROTOCOL_H

#include "base/error.h"
#include "dataset/dataset.h"
#include "quant/quantizer.h"
#include "store/measurements.h"

enum { PROTOCOL_TEXT = 17 };

MUST_CHECK enum status protocol_id(const struct sequences *evaluation, const char *precision, char out[PROTOCOL_TEXT],
                                   struct error *error);

/* The id of numbers that depend on more than the data of the evaluation `id`: covers both. */
MUST_CHECK enum status protocol_detailed(const char *id, const char *detail, char out[PROTOCOL_TEXT],
                                         struct error *error);

/* The calibration behind a quantized model. */
struct protocol_calibration {
    char id[PROTOCOL_TEXT]; /* covers the exact tokens, how they are cut into sequences, and the number of draws; "":
                             * none */
    char text[MEASUREMENT_CALIBRATED_ON]; /* "wikitext: 128 sequences, 262144 tokens"; "": none */
};

/* Both members are "" when the method reads no calibration: whatever was given does not affect its numbers.
 * `calibration` may be NULL or empty. STATUS_NO_MEMORY. */
MUST_CHECK enum status protocol_calibrated(const struct quantize_method *method, const struct sequences *calibration,
                                           int64_t draws, const char *dataset, struct protocol_calibration *out,
                                           struct error *error);

#endif
