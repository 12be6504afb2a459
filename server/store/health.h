/* health.h: properties of checkpoints' weights, measured by runs of the kind "health". */
#ifndef STORE_HEALTH_H
#define STORE_HEALTH_H

#include "store/store.h"

/* Replaces all health data of a checkpoint. Everything is lent. */
struct health_new {
    const char *checkpoint; /* id */
    /* {"sha256", "tensor_count", "elements", "nan", "infinite", "l1", "l2", "linf", "kurtosis", "outlier_share",
     * "previous", "relative_l2", "cosine", "files", "blocks"} */
    const json_t *document;
    const json_t *tensors; /* [{"place", "matrix", "name", ...}]: columns of tensor_health */
    int64_t matrices;
    const uint64_t *keys; /* [matrices] */
    const int32_t *homes; /* [matrices] */
};
/* STATUS_NOT_FOUND when the checkpoint is gone. */
MUST_CHECK enum status health_save(struct connection *connection, const struct health_new *health, struct error *error);

/* *document: norms, kurtosis and the other numbers of the whole checkpoint, by layer and by tensor. STATUS_NOT_FOUND;
 * also until a run has read the checkpoint. */
MUST_CHECK enum status health_get(struct connection *connection, const char *checkpoint, json_t **document,
                                  struct error *error);

/* The checkpoints of one trajectory in the order of training, with the numbers from which their integrity is judged. */
struct health_row {
    struct store_id id;
    char name[STORE_NAME];
    int64_t step, tokens; /* -1: not known */
    bool measured;        /* false: no member below is set */
    char content[65];
    struct store_id previous; /* "": none */
    double relative, cosine;  /* NaN: not known */
    int64_t not_finite;
    json_t *files; /* owned: [{"name", "key", "relative_l2"}] */
    int64_t matrices;
    uint64_t *keys; /* owned */
    int32_t *homes; /* owned */
};
struct health_rows {
    struct health_row *items; /* owned */
    int64_t count;
};
MUST_CHECK enum status health_of_trajectory(struct connection *connection, const char *trajectory,
                                            struct health_rows *out, struct error *error);
void health_rows_reset(struct health_rows *rows); /* {0} is fine */
/* The ids of those trajectories, given by names or ids, of which a run has read a checkpoint; the caller owns *out. */
MUST_CHECK enum status health_trajectories(struct connection *connection, const char *const *references, size_t count,
                                           json_t **out, struct error *error);

/* Names of matrices: `wanted` is [[checkpoint id, place among its matrices]]; *out the names in the same order (null:
 * unknown). */
MUST_CHECK enum status health_matrix_names(struct connection *connection, const json_t *wanted, json_t **out,
                                           struct error *error);
/* Tensors with numbers that are not finite, of a trajectory, or of one checkpoint of it (an id; NULL: all):
 * [{"checkpoint", "name", "tensor", "nan", "infinite"}], at most `most`. */
MUST_CHECK enum status health_not_finite(struct connection *connection, const char *trajectory, const char *checkpoint,
                                         int64_t most, json_t **out, struct error *error);

#endif
