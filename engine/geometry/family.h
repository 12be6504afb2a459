/* family.h: checkpoints of one model as points of one space: the same tensors in the same order, and linear
 * combinations of them as models that are never written to disk. The space is all parameters flattened, tensors in
 * ascending byte order of their names; other tensors in the files (masks, tables) are not part of it. */
#ifndef GEOMETRY_FAMILY_H
#define GEOMETRY_FAMILY_H

#include "model/model.h"
#include "weights/weights_mix.h"

struct family {
    int64_t count;                     /* of members */
    const struct model *const *models; /* [count], lent */
    const char *const *labels;         /* [count], lent: the members' names in messages */
    const struct weights **sources;    /* [count], owned array */
    int64_t tensors;
    const char **names; /* [tensors], ascending; owned array */
    int64_t *elements;  /* [tensors] */
    int64_t *indexes;   /* [tensors, count]: each tensor's place in each member's weights */
    int64_t parameters; /* of the space */
};

/* Members must be of one model: STATUS_INVALID naming the setting or the tensor that differs. STATUS_NO_MEMORY. The
 * caller resets *out. */
MUST_CHECK enum status family_init(const struct model *const *models, const char *const *labels, int64_t count,
                                   struct family *out, struct error *error);
void family_reset(struct family *family); /* {0} is fine */

/* Numbers [first, first + count) of tensor `tensor` of member `member`. STATUS_NOT_FINITE; statuses of
 * weights_read_f32. */
MUST_CHECK enum status family_read(const struct family *family, int64_t member, int64_t tensor, int64_t first,
                                   int64_t count, float *out, struct error *error);

/* The combination (sum of coefficients[k] times member k) / divisor (order of terms: weights_mix.h), as a mix to be
 * read or as a model with the first member's config.json. The members must outlive it. */
MUST_CHECK enum status family_mix(const struct family *family, const double *coefficients, double divisor,
                                  struct weights_mix **out, struct error *error);
MUST_CHECK enum status family_model(const struct family *family, const double *coefficients, double divisor,
                                    struct model **out, struct error *error);

/* Bytes of host memory that such a model takes while it is open. */
int64_t family_model_bytes(const struct family *family);
/* Bytes that the members store for the space. */
int64_t family_stored_bytes(const struct family *family);

#endif
