/* pattern_syntax.h: rewrites regular expressions of tokenizer.json, which are written for Oniguruma, so that PCRE2
 * matches the same. It accepts constructs that mean the same in both or can be rewritten, and refuses any other by
 * name. */
#ifndef TOKENIZER_PATTERN_SYNTAX_H
#define TOKENIZER_PATTERN_SYNTAX_H

#include "tokenizer/text.h"

/* Appends the PCRE2 form of `pattern` to *out. STATUS_UNSUPPORTED names the construct; STATUS_NO_MEMORY. */
MUST_CHECK enum status pattern_syntax_translate(const char *pattern, size_t bytes, struct text *out,
                                                struct error *error);

#endif
