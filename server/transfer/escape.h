/* escape.h: texts in addresses. */
#ifndef TRANSFER_ESCAPE_H
#define TRANSFER_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes `text` with everything but letters, digits, "-", "_", "." and "~" (and "/" where `keep_slashes`) as %XX. False
 * when it does not fit. */
bool escape_text(const char *text, bool keep_slashes, char *out, size_t size);

/* Undoes it in place; "+" becomes a space, as in forms. A "%" without two digits stays as it is, and so
 * does %00, which no text can hold. */
void escape_undo(char *text);

#endif
