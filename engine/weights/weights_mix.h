/* weights_mix.h: a linear combination of checkpoints as weights: (sum over k of c_k w_k) / divisor, computed while it
 * is read. Terms are added in the order of the sources, each product and the sum in double; terms with c_k = 0 are not
 * read. The result is rounded once, to the type that the reader asks for. Nothing is written, and memory holds only a
 * few pages. */
#ifndef WEIGHTS_WEIGHTS_MIX_H
#define WEIGHTS_WEIGHTS_MIX_H

#include "weights/weights.h"

enum { WEIGHTS_MIX_CHUNK = 4096 }; /* most numbers that weights_mix_read reads at once */

struct weights_mix_request {
    const struct weights *const *sources; /* [count], lent until the mix is closed */
    const double *coefficients;           /* [count], finite */
    double divisor;                       /* not 0; 1 divides by nothing */
    int64_t count;
    const char *const *names; /* [tensors], ascending: the tensors of the mix; every source has each, in one shape */
    int64_t tensors;
    const char *const *labels; /* [count], the sources' names in messages; NULL: their numbers */
};

struct weights_mix;

/* The caller owns *out (weights_mix_close, or weights_mix_open takes it). STATUS_INVALID naming the first tensor that a
 * source lacks or has in another shape than the first one; STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_mix_new(const struct weights_mix_request *request, struct weights_mix **out,
                                       struct error *error);
void weights_mix_close(struct weights_mix *mix); /* NULL is fine */

/* Numbers [first, first + count) of tensor `tensor` (its place in the request's names), before any rounding: for
 * callers that round to another type than float32. `count` is at most WEIGHTS_MIX_CHUNK. Statuses of
 * weights_read_f32. */
MUST_CHECK enum status weights_mix_read(const struct weights_mix *mix, int64_t tensor, int64_t first, int64_t count,
                                        double *out, struct error *error);

/* The mix (taken, also on failure) as weights of dtype F32, for everything that reads checkpoints. weights_directory is
 * that of the first source; `bytes` count what the sources store; weights_check_unchanged checks every source. The
 * caller owns *out (weights_close). STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_mix_open(struct weights_mix *mix, struct weights **out, struct error *error);

#endif
