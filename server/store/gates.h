/* gates.h: budgets on the measurements of a trajectory's checkpoints. A reference is an id or a name. Document: id,
 * name, trajectory (its name), rules, created_at. follow/verdict.h defines the rules. */
#ifndef STORE_GATES_H
#define STORE_GATES_H

#include "store/store.h"

struct gate_row {
    struct store_id id, trajectory;
    char name[STORE_NAME], trajectory_name[STORE_NAME];
    json_t *rules; /* owned (gate_row_reset) */
};
void gate_row_reset(struct gate_row *gate);

/* Inserts a gate. An equal one is STORE_EXISTED; a different one with the same name is STATUS_CONFLICT at /name. */
MUST_CHECK enum status gate_insert(struct connection *connection, const char *name, const char *trajectory,
                                   const json_t *rules, enum store_outcome *outcome, json_t **document,
                                   struct error *error);
MUST_CHECK enum status gate_get(struct connection *connection, const char *reference, json_t **document,
                                struct error *error);
/* A page of the gates whose name matches; "*" stands for any text; NULL: all gates. */
MUST_CHECK enum status gate_list(struct connection *connection, const char *name, const struct page *page,
                                 json_t **document, struct error *error);
MUST_CHECK enum status gate_delete(struct connection *connection, const char *reference, struct error *error);
MUST_CHECK enum status gate_find(struct connection *connection, const char *reference, struct gate_row *out,
                                 struct error *error);

struct gate_question {
    const char *checkpoint; /* id */
    const char *metric;
    const json_t *series; /* {KEY: VALUE}: label, dataset, protocol, calibration, method, method.NAME */
    int64_t last;         /* how many measured checkpoints before it the value is compared with; 0: none */
};

/* One item for each series that fits, newest run first: {"series", "value", "low", "high", "run", "base": median or
 * null, "compared_with": [names]}. As in measurement_table.h the newest measurement counts, and checkpoints of the same
 * content share measurements. At most the 1,000 checkpoints before are considered. */
MUST_CHECK enum status gate_values(struct connection *connection, const struct gate_question *question,
                                   json_t **document, struct error *error);

/* The same series, each with its "points" up to the checkpoint: [{"x": step or null, "y", "checkpoint",
 * "checkpoint_name"}] in the order of the trajectory, but the checkpoint before others of its step, over it and the
 * `last` ones before it, measured or not. At most 100: as many later ones are judged anew when one of them changes. */
MUST_CHECK enum status gate_history(struct connection *connection, const struct gate_question *question,
                                    json_t **document, struct error *error);

/* null, or {"run"}: the newest run that measured the metric of the checkpoint in such a series and found no finite
 * number. Only of the losses of `evaluate` and `quantize`, and of ΔQL, which a result lacks for no other reason. */
MUST_CHECK enum status gate_not_finite(struct connection *connection, const struct gate_question *question,
                                       json_t **document, struct error *error);

/* null, or {"key", "asked", "there": [texts]}: the first key of the question's series (label, method, dataset,
 * protocol, calibration) whose value no series of the metric has in the whole trajectory, and at most `most` of the
 * values that there are, each cut to 200 characters (names have no more). null too where the metric was never measured:
 * nothing tells what will be. */
MUST_CHECK enum status gate_unmatched(struct connection *connection, const struct gate_question *question, int64_t most,
                                      json_t **document, struct error *error);

/* Whether the checkpoint's weights were read by a health run. */
MUST_CHECK enum status gate_read(struct connection *connection, const char *checkpoint, bool *read,
                                 struct error *error);

/* For who follows the log (store/followers.h), inside one transaction of the caller: */

/* [{"gate", "checkpoint"}]: ids of the pairs whose verdict the changes in (after, until] may have altered: the
 * checkpoints themselves, those of the same content, the next hundred with a verdict behind the places where they are
 * and, if they were moved or deleted, were, and, of a gate on integrity, which is about the whole trajectory, every
 * checkpoint with a verdict where weights were read or a checkpoint was moved or deleted. */
MUST_CHECK enum status gate_touched(struct connection *connection, int64_t after, int64_t until, json_t **document,
                                    struct error *error);
/* *until: the last of the next `most` changes that concern any gate; the log's end when there are none. */
MUST_CHECK enum status gate_horizon(struct connection *connection, int64_t after, int64_t most, int64_t *until,
                                    struct error *error);
/* Removes the verdicts on checkpoints whose deletion is among the changes in (after, until]. No key does: who judges
 * would wait for a deletion that is under way. */
MUST_CHECK enum status gate_forget(struct connection *connection, int64_t after, int64_t until, struct error *error);
/* Stores a verdict document (follow/verdict.h). When it differs from the last one (pending where there was none), a
 * change of kind verdict is written; a failure also writes an alert. */
MUST_CHECK enum status gate_tell(struct connection *connection, const struct gate_row *gate, const json_t *verdict,
                                 struct error *error);

#endif
