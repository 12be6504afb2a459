#include "postgres/kept_plans.h"

#include "postgres/connection.h"

#include <stdio.h>
#include <string.h>

int kept_plans_find(const struct kept_plans *plans, const char *sql, const struct value_arguments *arguments)
{
    const size_t bytes = (size_t)arguments->count * sizeof arguments->types[0];
    if (strncmp(sql, CONNECTION_KEEPS_PLAN, strlen(CONNECTION_KEEPS_PLAN)) != 0) return -1;
    for (size_t i = 0; i < plans->count; i++)
        if (plans->plans[i].sql == sql)
            return plans->plans[i].count == arguments->count &&
                           memcmp(plans->plans[i].types, arguments->types, bytes) == 0
                       ? (int)i
                       : -1;
    return plans->count < KEPT_PLANS_MOST ? (int)plans->count : -1;
}

void kept_plans_enter(struct kept_plans *plans, const char *sql, const struct value_arguments *arguments)
{
    const size_t place = plans->count++;
    plans->plans[place].sql = sql;
    plans->plans[place].count = arguments->count;
    memcpy(plans->plans[place].types, arguments->types, (size_t)arguments->count * sizeof arguments->types[0]);
}

void kept_plans_name(int place, char out[KEPT_PLAN_NAME])
{
    (void)snprintf(out, KEPT_PLAN_NAME, "plan%d", place);
}
