/* tokenizer_place.h: which file a checkpoint's tokenizer is read from. */
#ifndef TOKENIZER_TOKENIZER_PLACE_H
#define TOKENIZER_TOKENIZER_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the file's path into `out` [size]: the tokenizer.json in the directory of `checkpoint` (itself, or the one its
 * file lies in); where there is none, the checkpoint's .gguf (the first part of a split one), whose metadata has a
 * tokenizer; else the tokenizer.json of the whole trajectory, one or two directories above. False when there is none of
 * them (*out is then where the first would be), or when the path is too long. *above (may be NULL): it is the last, so
 * that whoever checked the checkpoint's directory has not checked it. */
bool tokenizer_place_find(const char *checkpoint, char *out, size_t size, bool *above);

#endif
