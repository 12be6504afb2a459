#include "base/words.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void words_add(char *list, size_t size, const char *format, ...)
{
    va_list arguments;
    if (list[0] != '\0') (void)snprintf(list + strlen(list), size - strlen(list), ", ");
    const size_t used = strlen(list);
    va_start(arguments, format);
    (void)vsnprintf(list + used, size - used, format, arguments);
    va_end(arguments);
}

size_t words_edits(const char *a, const char *b)
{
    const size_t rows = strlen(a), columns = strlen(b);
    size_t last[3][WORDS_EDITS_MOST + 1] = {{0}};
    if (rows > WORDS_EDITS_MOST || columns > WORDS_EDITS_MOST) return WORDS_EDITS_MOST;
    for (size_t j = 0; j <= columns; j++) last[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        const size_t *two = last[(i + 1) % 3], *one = last[(i + 2) % 3];
        size_t *row = last[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);
            if (one[j] + 1 < best) best = one[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && two[j - 2] + 1 < best) best = two[j - 2] + 1;
            row[j] = best;
        }
    }
    return last[rows % 3][columns];
}

void words_consider(struct words_meant *meant, const char *known)
{
    const size_t edits = words_edits(meant->given, known);
    if (edits >= meant->below) return;
    meant->below = edits;
    meant->found = known;
}
