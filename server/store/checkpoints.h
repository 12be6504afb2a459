/* checkpoints.h: weights at one point of training. A reference is an id, TRAJECTORY/NAME, or a name that only one
 * checkpoint has. Document: id, name, trajectory (its name), step, tokens, learning_rate, source, architecture,
 * parameters, dtype, bytes, sha256, derived_from, tags, created_at. */
#ifndef STORE_CHECKPOINTS_H
#define STORE_CHECKPOINTS_H

#include "store/store.h"

/* Everything is lent. NULL means "not known" (or "not given"). */
struct checkpoint_new {
    const char *trajectory; /* made when no trajectory has this name */
    const char *name;
    const int64_t *step, *tokens;
    const double *learning_rate;
    const json_t *source; /* {"path"}, {"repo", "revision", "commit"} or {"path", "commit"}, as the API shows it */
    const char *path;     /* where the weights are on disk; NULL when they are in a hub or bucket and no run here made
                           * them */
    const char *architecture; /* "llama" */
    const int64_t *parameters, *bytes;
    const char *dtype;
    const char *fingerprint;    /* hash of the headers and sizes; a different one under the same name is a conflict */
    const json_t *files;        /* {path, bytes, mtime, inode} of each file, for later comparison; stored unchanged */
    const char *sha256;         /* hash of the content; may be set later (checkpoint_set_content) */
    const json_t *derived_from; /* object; its "run" is the run that makes the checkpoint */
    const json_t *tags;         /* object */
};

enum { CHECKPOINT_CONFIG_SIZE = 4096, CHECKPOINT_REPO = 904 };

struct checkpoint {
    struct store_id id, trajectory;
    char name[STORE_NAME];
    char trajectory_name[STORE_NAME];
    char path[4096]; /* "" for one that is fetched: see inputs/checkpoint_place.h. With a repo: where the checkpoint was
                      * made */
    char repo[CHECKPOINT_REPO], revision[204], commit[41]; /* of the hub or a bucket, as in its source; "" otherwise */
    char files[1024];                                      /* likewise, as JSON */
    char config[CHECKPOINT_CONFIG_SIZE]; /* configuration given beside config.json, as JSON text; "" when none was
                                          * given */
    char sha256[65];                     /* "" until known */
    char fingerprint[65];
    char architecture[64];
    int64_t step, tokens; /* -1: not known */
    double learning_rate; /* NaN: not known */
};

/* row->config, or NULL when there is none. */
const char *checkpoint_config(const struct checkpoint *row);

/* Inserts a checkpoint. An equal one is STORE_EXISTED with the stored document; a different one is STATUS_CONFLICT at
 * the first field that differs ("/step", "/source/path"; "" for the content of the files). Fields that are NULL in the
 * second call are not compared. The source is not compared either when the same run made both, because an attempt on
 * another machine has other paths; the newest attempt's path is stored, unless the files are in a bucket. */
MUST_CHECK enum status checkpoint_insert(struct connection *connection, const struct checkpoint_new *checkpoint,
                                         enum store_outcome *outcome, json_t **document, struct error *error);
/* STATUS_NOT_FOUND; STATUS_CONFLICT for a bare name that several trajectories have. */
MUST_CHECK enum status checkpoint_find(struct connection *connection, const char *reference, struct checkpoint *out,
                                       struct error *error);
MUST_CHECK enum status checkpoint_get(struct connection *connection, const char *reference, json_t **document,
                                      struct error *error);
/* *out: the `files` that were stored. */
MUST_CHECK enum status checkpoint_files(struct connection *connection, const char *reference, json_t **document,
                                        struct error *error);
/* `trajectory`: a reference, or NULL for all trajectories. */
MUST_CHECK enum status checkpoint_list(struct connection *connection, const char *trajectory,
                                       const struct list_filter *filter, const struct page *page, json_t **document,
                                       struct error *error);
/* All checkpoints of a trajectory by step; those without a step come last: *out is malloc'ed and the caller's
 * (free). */
MUST_CHECK enum status checkpoint_of_trajectory(struct connection *connection, const char *trajectory,
                                                struct checkpoint **out, size_t *count, struct error *error);
/* Finds the nearest earlier checkpoint of the same trajectory that can be read; *id is "" when there is none. */
MUST_CHECK enum status checkpoint_before(struct connection *connection, const char *checkpoint, struct store_id *id,
                                         struct error *error);
/* Any of name, step, tokens, learning_rate, tags; null clears, an absent field stays. The caller has checked the
 * types. */
MUST_CHECK enum status checkpoint_patch(struct connection *connection, const char *reference, const json_t *changes,
                                        json_t **document, struct error *error);
/* STATUS_CONFLICT while a queued or running run uses it. Finished runs keep their results. */
MUST_CHECK enum status checkpoint_delete(struct connection *connection, const char *reference, struct error *error);
/* Stores what the files of a fetched checkpoint say when they are read for the first time: architecture, parameters,
 * dtype, bytes, fingerprint, files, sha256; also step, tokens and learning rate where they are not known yet. Later
 * calls change nothing. */
MUST_CHECK enum status checkpoint_fill(struct connection *connection, const struct store_id *id,
                                       const struct checkpoint_new *files, struct error *error);
/* Registers [{"name", "step", "tokens", "learning_rate", "source", "tags"}] in a trajectory, which is made when it does
 * not exist. Answers {"registered": [documents], "existing": n, "different": [names]}: `different` are registered with
 * another source and stay as they are. */
MUST_CHECK enum status checkpoint_insert_many(struct connection *connection, const char *trajectory, const json_t *rows,
                                              json_t **document, struct error *error);
/* Checkpoints of the hub that queued and running runs read. *out is malloc'ed and the caller's (free). */
struct checkpoint_need {
    char repo[CHECKPOINT_REPO], commit[41], files[1024];
    bool running;
};
MUST_CHECK enum status checkpoint_needs(struct connection *connection, struct checkpoint_need **out, size_t *count,
                                        struct error *error);
/* Stores the content hash. STATUS_INPUT_CHANGED if another one is stored already. */
MUST_CHECK enum status checkpoint_set_content(struct connection *connection, const struct store_id *id,
                                              const char *sha256, struct error *error);

#endif
