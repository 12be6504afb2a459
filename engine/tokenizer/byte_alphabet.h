/* byte_alphabet.h: GPT-2's printable stand-ins for the 256 bytes: a byte that is a printable Latin-1 character is its
 * own stand-in, the others (controls, space, U+00AD, ...) take U+0100 and up in order (Radford et al. 2019,
 * encoder.py's table). */
#ifndef TOKENIZER_BYTE_ALPHABET_H
#define TOKENIZER_BYTE_ALPHABET_H

#include "tokenizer/text.h"

enum { BYTE_ALPHABET_END = 0x144 }; /* all stand-ins are below */

/* Fills the stand-in of each byte [256]. */
void byte_alphabet_fill(uint16_t *characters);

/* The byte whose stand-in is `character`; -1: none. */
int byte_alphabet_byte(uint32_t character);

/* Appends the stand-ins of `bytes` to *out, in UTF-8. */
MUST_CHECK enum status byte_alphabet_append(struct text *out, const char *bytes, size_t size, struct error *error);

#endif
