/* phrase.h: a growing UTF-8 text, and the operations of Python's str that define prompts. Blanks are those of
 * str.isspace; cases are the simple mappings of Unicode. Each operation works on the text added last: the bytes from
 * `from` on. */
#ifndef TASKS_PHRASE_H
#define TASKS_PHRASE_H

#include "base/error.h"

#include <stdint.h>

struct phrase {  /* start with {0} */
    char *bytes; /* owned (phrase_reset); no NUL at the end */
    size_t size, capacity;
};
void phrase_reset(struct phrase *phrase); /* leaves {0} */

MUST_CHECK enum status phrase_add(struct phrase *phrase, const char *bytes, size_t size, struct error *error);

void phrase_strip(struct phrase *phrase, size_t from); /* both ends */
void phrase_strip_left(struct phrase *phrase, size_t from);
void phrase_before_blank(struct phrase *phrase, size_t from); /* keeps the text before the first "_" */
void phrase_after_blank(struct phrase *phrase, size_t from);  /* keeps the text after the first "_", stripped */
MUST_CHECK enum status phrase_capitalise(struct phrase *phrase, size_t from, struct error *error);

/* HellaSwag's clean-up: strips; " [title]" becomes ". "; removes every shortest run from "[" to the next "]" on one
 * line; every pair of spaces becomes one, in one pass from the left. */
void phrase_clean_wikihow(struct phrase *phrase, size_t from);

/* Number of bytes of blanks at the end of `bytes`. */
size_t phrase_blanks_at_end(const char *bytes, size_t size);
/* Number of characters (code points). */
int64_t phrase_characters(const char *bytes, size_t size);

#endif
