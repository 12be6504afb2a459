/* compared_run.h: a finished run as one side of a comparison: the losses that it left of every sequence, and of every
 * token if it kept them. */
#ifndef KINDS_COMPARED_RUN_H
#define KINDS_COMPARED_RUN_H

#include "kinds/compared.h"
#include "store/store.h"

struct artifact_place;

struct compared_run {
    const char *pointer; /* the field that errors name: "/params/a"; set by the caller, like id; both lent */
    const char *id;
    json_t *document;               /* of the run; owned */
    const struct losses_kind *left; /* the losses that its kind leaves */
    /* lent by the document; "": none */
    const char *kind, *protocol, *checkpoint, *recipe, *calibration;
    struct losses_table table;           /* owned */
    float *tokens[LOSSES_TABLE_COLUMNS]; /* owned; NULL: the run left none, or they were not asked for */
};
void compared_run_reset(struct compared_run *run); /* {0} is fine */

/* Finds the run. STATUS_NOT_FOUND; STATUS_INVALID at the pointer for a kind that leaves no losses; STATUS_CONFLICT for
 * a run that has not succeeded. The caller resets *run, also after a failure. */
MUST_CHECK enum status compared_run_open(struct connection *connection, struct compared_run *run, struct error *error);

/* STATUS_OK when two such runs can be compared: same kind and same evaluation; quantizations also need the same
 * checkpoint or the same recipe. STATUS_INVALID at b's pointer, with what to do. */
MUST_CHECK enum status compared_runs_check(const struct compared_run *a, const struct compared_run *b,
                                           struct error *error);

/* Finds the losses that the run left and their size in bytes; *tokens: it left the values of tokens. STATUS_INVALID at
 * the pointer when it left no losses of sequences, or, with `tokens_needed`, none of tokens. */
MUST_CHECK enum status compared_run_find(struct connection *connection, const struct compared_run *run,
                                         bool tokens_needed, bool *tokens, int64_t *bytes, struct error *error);

/* Reads the losses that compared_run_find finds, those of tokens only if asked for. Statuses of compared_run_find and
 * artifact_file_open; STATUS_NO_MEMORY. */
MUST_CHECK enum status compared_run_read(struct connection *connection, const struct artifact_place *place, bool tokens,
                                         struct compared_run *run, struct error *error);

/* Lent by the run. */
struct compared_losses compared_run_losses(const struct compared_run *run);

#endif
