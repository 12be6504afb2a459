/* pattern_syntax.h: regular expressions of tokenizer.json are written for Oniguruma; this rewrites them for PCRE2 so
 * that they match the same. Accepted is what means the same in both or can be rewritten; anything else is refused by
 * name rather than guessed. */
#ifndef TOKENIZER_PATTERN_SYNTAX_H
#define TOKENIZER_PATTERN_SYNTAX_H

#include "tokenizer/text.h"

/* Appends the PCRE2 form of `pattern` to *out. STATUS_UNSUPPORTED names the construct; STATUS_NO_MEMORY. */
MUST_CHECK enum status pattern_syntax_translate(const char *pattern, size_t bytes, struct text *out,
                                                struct error *error);

#endif
