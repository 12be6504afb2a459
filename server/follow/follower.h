/* follower.h: one thread that follows the change log for the gates: what was measured or read gives its checkpoint a
 * verdict, and one that differs from the last is told as a change. How far it has come is a row of the database,
 * written in the transaction of the verdicts: a restart loses and doubles nothing, and of several servers one works at
 * a time. */
#ifndef FOLLOW_FOLLOWER_H
#define FOLLOW_FOLLOWER_H

#include "base/error.h"

struct follower;

/* `conninfo` is copied. The caller owns *out (follower_stop). */
MUST_CHECK enum status follower_start(const char *conninfo, struct follower **out, struct error *error);
void follower_stop(struct follower *follower); /* NULL is fine */

#endif
