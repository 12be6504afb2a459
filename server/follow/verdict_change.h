/* verdict_change.h: a gate's rule on change points, held against the series of a checkpoint (kinds/changepoints.h). */
#ifndef FOLLOW_VERDICT_CHANGE_H
#define FOLLOW_VERDICT_CHANGE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* What a test says of a series, in whose item it set "change" and "p_value". */
struct verdict_change {
    const char *reason; /* why there is no test; or NULL */
    bool recent;        /* the change was found among the last N points */
    bool straddles;     /* so that the interval of its place has some of them and others */
};

/* Tests "points" of item `i` of `list` (store/gates.h, gate_history). p values are multiplied by the number of the
 * list's series that can be tested. */
MUST_CHECK enum status verdict_change_test(const json_t *rule, const json_t *list, size_t i, struct verdict_change *out,
                                           struct error *error);

/* NULL, or why the list's series are too many to be tested. */
const char *verdict_change_refuses(const json_t *list);

#endif
