/* verdict_change.h: a gate's rule on change points, held against the series of a checkpoint (kinds/changepoints.h). */
#ifndef FOLLOW_VERDICT_CHANGE_H
#define FOLLOW_VERDICT_CHANGE_H

#include "base/error.h"

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
 * tested; *tests is the number of those that can be tested. */
MUST_CHECK enum status verdict_change_count(const json_t *rule, const json_t *list, int64_t *tests,
                                            const char **refused, struct error *error);

/* Tests "points" of `item`, one of that list. p values are multiplied by `tests`. */
MUST_CHECK enum status verdict_change_test(const json_t *rule, json_t *item, int64_t tests, struct verdict_change *out,
                                           struct error *error);

#endif
