/* reading.h: one reading of a checkpoint's weights, tensor by tensor: a digest of each, norms, kurtosis, the numbers of
 * far-out and non-finite values, and the distance to the same tensor of another checkpoint. Only a slice of one tensor
 * is in memory at a time. Slices and chunks depend on the shape alone, so results are bit-for-bit identical with any
 * number of threads. */
#ifndef HEALTH_READING_H
#define HEALTH_READING_H

#include "base/monitor.h"
#include "base/plan.h"
#include "base/team.h"
#include "health/moments.h"
#include "weights/weights.h"

enum { READING_DIGEST = 32 }; /* bytes */

/* A cryptographic hash, provided by the caller because the engine has none. Called for one tensor after the other, from
 * one thread at a time, with the numbers as little-endian float32 in row-major order: the same tensor has the same
 * digest in every file format and dtype. */
struct reading_hash {
    void *owner;
    enum status (*begin)(void *owner, struct error *error);
    enum status (*add)(void *owner, const void *bytes, size_t size, struct error *error);
    enum status (*finish)(void *owner, unsigned char digest[READING_DIGEST], struct error *error);
};

#define READING_OUTLIER 6.0 /* a number counts as far out from so many times the tensor's root mean square on */

struct tensor_reading {
    const char *name; /* lent by the weights */
    enum dtype dtype;
    int rank, file; /* as in weights_tensor */
    int layer;      /* the first whole number in its name ("model.layers.12.mlp..."), -1: none */
    int64_t elements;
    struct moments moments;
    int64_t outliers;
    unsigned char digest[READING_DIGEST];
    bool compared; /* the other checkpoint has a tensor of this name and as many numbers */
    struct distance distance;
};

struct reading_request {
    const struct weights *weights;
    const struct weights *previous; /* checkpoint to compare with; NULL: none */
    struct team *team;              /* may be NULL */
    const struct reading_hash *hash;
    const struct monitor *monitor; /* progress by "tensor" */
};

struct reading {
    int64_t count; /* number of floating point tensors; others are left out */
    struct tensor_reading *tensors;
};

/* Reads all tensors. NaN and infinities are counted and are no error. The caller resets *out. Statuses of
 * weights_read_f32, of the hash and of the monitor; STATUS_NO_MEMORY. */
MUST_CHECK enum status reading_make(const struct reading_request *request, struct reading *out, struct error *error);
/* Adds the memory and reads of reading_make with a team of `threads` to a plan. `previous` may be NULL. */
void reading_plan(const struct weights *weights, const struct weights *previous, int threads, struct run_plan *plan);
void reading_reset(struct reading *reading); /* {0} is fine */

/* Summary of the tensors of one layer, or of all for READING_ALL. Norms and counts include every tensor. Kurtosis is
 * the mean over matrices (rank 2 and more), weighted by their sizes, because vectors (norms, biases) are few and of
 * another kind. */
enum { READING_ALL = -2 };

struct health {
    int64_t count, nan, infinite, outliers;
    double l1, l2, linf, kurtosis; /* kurtosis NaN: no matrix */
    double outlier_share;
    bool compared;
    double relative, cosine; /* to the previous checkpoint, over all compared tensors; NaN: none */
};

void reading_health(const struct reading *reading, int layer, struct health *out);
/* 1 + the highest layer. */
int reading_layers(const struct reading *reading);

#endif
