/* gate_rules.h: what a gate's rules may be, as the table of its body and the checks that no table can say. */
#ifndef FOLLOW_GATE_RULES_H
#define FOLLOW_GATE_RULES_H

#include "base/error.h"
#include "base/param.h"
#include "schema/faults.h"

#include <jansson.h>

enum {
    GATE_LAST_MOST = 50,
    GATE_CHANGE_LEAST = 3,  /* points that must stand behind a change before it can be told (eval/changepoint.h) */
    GATE_CHANGE_MOST = 100, /* of the checkpoints that a test goes back over */
};

/* The kinds of limits, a row each; ends with a NULL name. */
struct gate_limit {
    const char *name;                                   /* of the rule's field: "max_ratio" */
    bool upper;                                         /* the value may not be above it, else not below */
    enum { LIMIT_VALUE, LIMIT_RATIO, LIMIT_CHANGE } of; /* the value itself; over, or minus, what came before */
};
extern const struct gate_limit gate_limits[];

/* An item of "rules". */
extern const struct param gate_rule;

/* Holds `rules`, which the table has accepted, to the rest: one limit each, metrics and keys of series that exist.
 * Faults are added; `pointer` is where the array stands. */
void gate_rules_check(const json_t *rules, const char *pointer, struct faults *faults);

#endif
