/* verdict.h: a checkpoint held against the rules of a gate. A rule's verdict is
 *   pending  what it asks for was not measured, the weights were not read, or there is nothing to compare with;
 *   pass     the value of each series that fits is within the limit, or the weights were read and nothing is wrong;
 *   fail     otherwise.
 * Where the limit lies inside the 95 % interval of a value, "straddles" is true and the rule's own "straddle" decides.
 * A value without an interval has "straddles" null, and is pending rather than passed where "straddle" is "fail".
 * A rule on change points is pending below 12 measured points, fails where the test finds a change among the last N,
 * and passes where it finds none or an earlier one (verdict_change.h).
 * Ratios and changes are to the median of the last N measured checkpoints before; a ratio to what is not positive is
 * pending. The gate fails if a rule does; else it is pending if a rule is; else it passes. */
#ifndef FOLLOW_VERDICT_H
#define FOLLOW_VERDICT_H

#include "store/checkpoints.h"
#include "store/gates.h"

/* {"gate", "gate_id", "trajectory", "trajectory_id", "checkpoint", "checkpoint_name", "step", "verdict", "rules":
 * [{"rule", "verdict", "value", "interval", "limit", "straddles", "run", "series", "base", "compared_with", "flags",
 * "change", "p_value", "reason"}]}; the caller owns it. Of several series that of the worst verdict is shown.
 * `checkpoint` is one of the gate's trajectory. `kept`: an object, empty at first, that keeps the flags of trajectories
 * between the verdicts of one transaction, because finding them reads the whole trajectory; NULL: none. */
MUST_CHECK enum status verdict_make(struct connection *connection, const struct gate_row *gate,
                                    const struct checkpoint *checkpoint, json_t *kept, json_t **out,
                                    struct error *error);

#endif
