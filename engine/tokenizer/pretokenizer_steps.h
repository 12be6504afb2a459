/* pretokenizer_steps.h: the inside of a pre-tokenizer, between its loader (pretokenizer_load.c) and its use
 * (pretokenizer.c). */
#ifndef TOKENIZER_PRETOKENIZER_STEPS_H
#define TOKENIZER_PRETOKENIZER_STEPS_H

#include "tokenizer/pretokenizer.h"

enum { PRETOKENIZER_STEPS = 64 };

/* How a match is treated, in the order of pretokenizer_load.c's names. */
enum pretokenizer_behavior {
    PRETOKENIZER_REMOVED,
    PRETOKENIZER_ISOLATED,
    PRETOKENIZER_MERGED_WITH_PREVIOUS,
    PRETOKENIZER_MERGED_WITH_NEXT,
    PRETOKENIZER_CONTIGUOUS
};

enum pretokenizer_prepend { PRETOKENIZER_FIRST, PRETOKENIZER_NEVER, PRETOKENIZER_ALWAYS };

struct pretokenizer_step {
    enum {
        PRETOKENIZER_SPLIT,        /* at the matches of `pattern` */
        PRETOKENIZER_PREFIX_SPACE, /* every piece begins with a space */
        PRETOKENIZER_METASPACE,    /* spaces become `replacement`, and one is put in front */
        PRETOKENIZER_BYTES         /* bytes become their stand-ins */
    } kind;
    struct pattern *pattern; /* owned */
    enum pretokenizer_behavior behavior;
    bool invert; /* the text between the matches counts as the match */
    struct text replacement;
    enum pretokenizer_prepend prepend;
    struct pretokenizer_border border;
};

struct pretokenizer {
    struct pretokenizer_step steps[PRETOKENIZER_STEPS];
    int count;
    bool raw_bytes;
};

#endif
