/* protocol.h: the evaluation behind a number, as an id: the very tokens, how they are cut into sequences, the
 * arithmetic of the passes. Two numbers of one metric under different ids answer different questions, and never lie on
 * one curve. */
#ifndef KINDS_PROTOCOL_H
#define KINDS_PROTOCOL_H

#include "base/error.h"
#include "dataset/dataset.h"

enum { PROTOCOL_TEXT = 17 };

MUST_CHECK enum status protocol_id(const struct sequences *evaluation, const char *precision, char out[PROTOCOL_TEXT],
                                   struct error *error);

#endif
