/* escape.h: escapes texts for addresses. */
#ifndef TRANSFER_ESCAPE_H
#define TRANSFER_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes `text` with everything except letters, digits, "-", "_", "." and "~" (and "/" with `keep_slashes`) as %XX.
 * False when it does not fit. */
bool escape_text(const char *text, bool keep_slashes, char *out, size_t size);

/* Removes the escapes in place; "+" becomes a space, as in forms. A "%" without two digits stays, and so does %00,
 * which no C string can contain. */
void escape_undo(char *text);

#endif
