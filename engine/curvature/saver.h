/* saver.h: lets the owner of a long algorithm watch it, stop it and continue it later. After every product the
 * algorithm shows its whole state: numbers and vectors. The owner of the saver may save these and pass them to the
 * same algorithm in another process, whose result is then bit-for-bit identical. */
#ifndef CURVATURE_SAVER_H
#define CURVATURE_SAVER_H

#include "curvature/basis.h"

struct saver_state {
    double *numbers; /* [number_count], chosen by the algorithm; never a NaN with a payload */
    int64_t number_count;
    struct basis *basis; /* NULL: the algorithm keeps no vectors */
};

struct saver {
    void *owner;
    /* Fills numbers and vectors (up to the basis' capacity) with the saved state of this algorithm with as many
     * numbers; *found: there was one. */
    enum status (*restore)(void *owner, struct saver_state *state, bool *found, struct error *error);
    /* Called after a product; at most `remaining` are still to come. Any status but OK stops the algorithm. */
    enum status (*step)(void *owner, const struct saver_state *state, int64_t remaining, struct error *error);
};

/* These accept NULL: nothing is found, and the algorithm always goes on. */
static inline enum status saver_restore(const struct saver *saver, struct saver_state *state, bool *found,
                                        struct error *error)
{
    *found = false;
    return saver == NULL ? STATUS_OK : saver->restore(saver->owner, state, found, error);
}

static inline enum status saver_step(const struct saver *saver, const struct saver_state *state, int64_t remaining,
                                     struct error *error)
{
    return saver == NULL ? STATUS_OK : saver->step(saver->owner, state, remaining, error);
}

#endif
