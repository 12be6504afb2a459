/* tokenizer_place.h: which file a checkpoint's tokenizer is read from. */
#ifndef TOKENIZER_TOKENIZER_PLACE_H
#define TOKENIZER_TOKENIZER_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of the tokenizer's file into `out` [size]: the tokenizer.json in the directory of `checkpoint`
 * (`checkpoint` itself, or the directory of that file); if there is none, the checkpoint's .gguf (the first part of a
 * split one), whose metadata has a tokenizer; otherwise the tokenizer.json of the whole trajectory, one or two
 * directories above. False when there is none of them (*out is then the first of these paths), or when the path is too
 * long. *above (may be NULL): the file is the trajectory's, so checking the checkpoint's directory did not check it. */
bool tokenizer_place_find(const char *checkpoint, char *out, size_t size, bool *above);

#endif
