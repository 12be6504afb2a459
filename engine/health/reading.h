/* reading.h: one reading of a checkpoint's weights, tensor by tensor: a digest of each, norms, kurtosis, far-out and
 * broken numbers, and how far it is from the same tensor of another checkpoint. A slice of one tensor is in memory at a
 * time; slices and chunks are cut by shape alone, so the same weights give the same bits with any number of threads. */
#ifndef HEALTH_READING_H
#define HEALTH_READING_H

#include "base/monitor.h"
#include "base/plan.h"
#include "base/team.h"
#include "health/moments.h"
#include "weights/weights.h"

enum { READING_DIGEST = 32 }; /* bytes */

/* A hash that whoever asks brings along: the engine has none against attackers. Called for one tensor after the other,
 * from one thread at a time, with the numbers as little-endian float32 in row-major order: the same tensor has the same
 * digest in whatever format and type it is stored. */
struct reading_hash {
    void *owner;
    enum status (*begin)(void *owner, struct error *error);
    enum status (*add)(void *owner, const void *bytes, size_t size, struct error *error);
    enum status (*finish)(void *owner, unsigned char digest[READING_DIGEST], struct error *error);
};

#define READING_OUTLIER 6.0 /* times the tensor's root mean square: from there on a number is counted as far out */

struct tensor_reading {
    const char *name; /* lent by the weights */
    enum dtype dtype;
    int rank, file; /* as in weights_tensor */
    int layer;      /* the first whole number in its name ("model.layers.12.mlp..."), -1: none */
    int64_t elements;
    struct moments moments;
    int64_t outliers;
    unsigned char digest[READING_DIGEST];
    bool compared; /* the other checkpoint has it too, with as many numbers */
    struct distance distance;
};

struct reading_request {
    const struct weights *weights;
    const struct weights *previous; /* to be compared with; NULL: none */
    struct team *team;              /* may be NULL */
    const struct reading_hash *hash;
    const struct monitor *monitor; /* progress by "tensor" */
};

struct reading {
    int64_t count; /* of the tensors that hold floating point numbers; others are left out */
    struct tensor_reading *tensors;
};

/* Statuses of weights_read_f32, of the hash and of the monitor; STATUS_NO_MEMORY. The caller resets *out. Numbers that
 * are not finite are no error: they are counted. */
MUST_CHECK enum status reading_make(const struct reading_request *request, struct reading *out, struct error *error);
/* What that takes and reads with a team of `threads`, onto a plan. `previous` may be NULL. */
void reading_plan(const struct weights *weights, const struct weights *previous, int threads, struct run_plan *plan);
void reading_reset(struct reading *reading); /* {0} is fine */

/* Of the tensors with this layer, or of all for READING_ALL: norms and counts of everything; kurtosis the mean over
 * matrices (rank 2 and more), each weighing as much as it has numbers: vectors (norms, biases) are few and of another
 * kind. */
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
