/* fold.h: where scales of a linear's input columns (AWQ's, SmoothQuant's) go in a checkpoint. The operation that makes
 * the inputs can be divided by them, which gives the same numbers and takes no space: the weight of the norm before, or
 * the rows of the linear whose outputs are the inputs up to a factor. */
#ifndef QUANT_FOLD_H
#define QUANT_FOLD_H

#include "model/program.h"
#include "quant/cuts.h"

enum fold {
    FOLD_NOWHERE, /* nowhere: they must be stored beside the weight */
    FOLD_NORM,    /* into the norm that makes the inputs, if nothing else reads them */
    FOLD_ROWS,    /* into rows of the linear before: values for the attention's output, up for down of a gated MLP */
    FOLD_SHARED   /* nowhere: heads share the inputs (grouped queries), each with its own scales */
};

enum fold fold_of(const struct program *program, const struct cut *cut);

#endif
