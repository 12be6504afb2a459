#include "transfer/escape.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool escape_text(const char *text, bool keep_slashes, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (used + 4 > size) return false;
        if (isalnum(byte) || strchr("-_.~", byte) != NULL || (keep_slashes && byte == '/'))
            out[used++] = (char)byte;
        else
            used += (size_t)snprintf(out + used, 4, "%%%02X", byte);
    }
    if (used >= size) return false;
    out[used] = '\0';
    return true;
}

void escape_undo(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        const bool coded = from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]) &&
                           (from[1] != '0' || from[2] != '0');
        const char digits[3] = {coded ? from[1] : '\0', coded ? from[2] : '\0', '\0'};
        *to++ = coded ? (char)strtol(digits, NULL, 16) : *from == '+' ? ' ' : *from;
        if (coded) from += 2;
    }
    *to = '\0';
}
