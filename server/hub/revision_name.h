/* revision_name.h: the checkpoint's training step, tokens and stage, read from the name of a revision. A table of
 * patterns has the names that public training runs use. */
#ifndef HUB_REVISION_NAME_H
#define HUB_REVISION_NAME_H

#include "base/error.h"

#include <stdint.h>

struct revision_name {
    bool known;         /* a row of the table fits */
    int64_t step;       /* -1: not told */
    int64_t tokens;     /* -1: not told; names round them up */
    char stage[64];     /* "stage1", "lc-4k-to-32k", "it", "final"; "": not told */
    int64_t ingredient; /* number of a training of the stage, when several are trained to be averaged; -1: not told */
    int order;          /* number of the stage in the order of training; equal for names without a stage */
};

struct revision_names;

/* The table, compiled. The caller owns *out (revision_names_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status revision_names_new(struct revision_names **out, struct error *error);
void revision_names_free(struct revision_names *names); /* NULL is fine */

void revision_name_read(const struct revision_names *names, const char *text, struct revision_name *out);

/* Orders by stage, ingredient, step; names without a step come last. For qsort. */
int revision_name_compare(const struct revision_name *a, const struct revision_name *b);

#endif
