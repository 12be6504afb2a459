/* words.h: lists in messages: "json, csv". */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stddef.h>

/* Appends what `format` makes to the text list[size], behind ", " unless it is the first; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) void words_add(char *list, size_t size, const char *format, ...);

#endif
