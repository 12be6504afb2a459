/* kept_plans.h: which statements a session has prepared, and under which names. Used by connection.c. */
#ifndef POSTGRES_KEPT_PLANS_H
#define POSTGRES_KEPT_PLANS_H

#include "postgres/value.h"

#include <stddef.h>

enum { KEPT_PLANS_MOST = 48, KEPT_PLAN_NAME = 8 };

/* Cleared by {0}: of a session that is new. */
struct kept_plans {
    size_t count;
    struct {
        const char *sql;
        int count;
        unsigned types[VALUES_MOST]; /* of its parameters, when it was prepared */
    } plans[KEPT_PLANS_MOST];
};

/* Where the statement's plan is, or will be: below plans->count it is there; at plans->count it must be prepared and
 * then be entered (kept_plans_enter). -1: the statement is sent as it is, because its text does not begin with
 * CONNECTION_KEEPS_PLAN, its parameters have other types than those of the plan, or too many plans are kept. `sql` is
 * a literal: it is told by its address. */
int kept_plans_find(const struct kept_plans *plans, const char *sql, const struct value_arguments *arguments);
void kept_plans_enter(struct kept_plans *plans, const char *sql, const struct value_arguments *arguments);
void kept_plans_name(int place, char out[KEPT_PLAN_NAME]);

#endif
