/* verdict_change.h: a gate's rule on change points, held against the series of a checkpoint (kinds/changepoints.h). */
#ifndef FOLLOW_VERDICT_CHANGE_H
#define FOLLOW_VERDICT_CHANGE_H

#include "base/error.h"
#include "kinds/changepoints.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What a test says of a series, in whose item it set "change" and "p_value". */
struct verdict_change {
    const char *reason; /* why there is no test; or NULL */
    bool recent;        /* the change was found among the last N points */
    bool straddles;     /* so that the interval of its place has some of them and others */
};

/* Before the tests: *refused is NULL, or why the series of `list` (store/gates.h, gate_history) are too many to be
 * tested; on STATUS_OK the caller resets *tests. */
MUST_CHECK enum status verdict_change_begin(const json_t *rule, const json_t *list, struct changepoints_tests *tests,
                                            const char **refused, struct error *error);

/* Tests "points" of `item`, one of that list. p values are multiplied by the number of tests. */
MUST_CHECK enum status verdict_change_test(const json_t *rule, json_t *item, struct changepoints_tests *tests,
                                           struct verdict_change *out, struct error *error);

#endif
