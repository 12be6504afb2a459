/* fold.h: where scales of a linear's input columns (AWQ's, SmoothQuant's) go in a checkpoint. Dividing what makes the
 * inputs by them gives the same numbers and takes no room: the weight of the norm before, or the rows of the linear
 * whose outputs are the inputs but for a factor. */
#ifndef QUANT_FOLD_H
#define QUANT_FOLD_H

#include "model/program.h"
#include "quant/cuts.h"

enum fold {
    FOLD_NOWHERE, /* they have to be stored beside the weight */
    FOLD_NORM,    /* into the norm that makes the inputs, which nobody else reads */
    FOLD_ROWS,    /* into rows of the linear before: values for the attention's output, up for down of a gated MLP */
    FOLD_SHARED /* nowhere: inputs are values that several heads share (grouped queries), each with scales of its own */
};

enum fold fold_of(const struct program *program, const struct cut *cut);

#endif
