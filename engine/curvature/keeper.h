/* keeper.h: how a long algorithm is watched, stopped and taken up again. After every product it shows all that it needs
 * to go on: numbers and vectors. Whoever owns the keeper may save them, and give them back to the same algorithm in
 * another process, which then ends with the bits that it would have had. */
#ifndef CURVATURE_KEEPER_H
#define CURVATURE_KEEPER_H

#include "curvature/basis.h"

struct kept {
    double *numbers; /* [number_count], of the algorithm's choosing; a NaN payload is never among them */
    int64_t number_count;
    struct basis *basis; /* NULL: the algorithm keeps no vectors */
};

struct keeper {
    void *owner;
    /* Fills numbers and vectors (up to the basis' capacity) with what was saved of this algorithm with as many numbers;
     * *found tells whether there was any. */
    enum status (*restore)(void *owner, struct kept *state, bool *found, struct error *error);
    /* After a product; at most `remaining` are still to come. Not OK stops the algorithm with that status. */
    enum status (*step)(void *owner, const struct kept *state, int64_t remaining, struct error *error);
};

/* These accept NULL: nothing is found, and one always goes on. */
static inline enum status keeper_restore(const struct keeper *keeper, struct kept *state, bool *found,
                                         struct error *error)
{
    *found = false;
    return keeper == NULL ? STATUS_OK : keeper->restore(keeper->owner, state, found, error);
}

static inline enum status keeper_step(const struct keeper *keeper, const struct kept *state, int64_t remaining,
                                      struct error *error)
{
    return keeper == NULL ? STATUS_OK : keeper->step(keeper->owner, state, remaining, error);
}

#endif
