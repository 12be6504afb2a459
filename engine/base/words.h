/* words.h: lists in messages ("json, csv"), and names that were mistyped. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stddef.h>

/* Appends what `format` makes to the text list[size], behind ", " unless it is the first; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) void words_add(char *list, size_t size, const char *format, ...);

enum { WORDS_EDITS_MOST = 40 };

/* How many edits make `b` of `a`; swapping two neighbours is one (the distance of Levenshtein and Damerau). A text of
 * more than WORDS_EDITS_MOST bytes is that far from all. */
size_t words_edits(const char *a, const char *b);

/* The known name that was meant: the first of the fewest edits. */
struct words_meant {
    const char *given, *found; /* lent; found: NULL while none is near enough */
    size_t below;              /* a name of fewer edits is nearer than all so far */
};

/* Compares one more known name. */
void words_consider(struct words_meant *meant, const char *known);

#endif
