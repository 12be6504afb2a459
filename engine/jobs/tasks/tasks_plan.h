/* tasks_plan.h: the plan of a list of tasks (tasks_plan, in tasks.h), and of one of its askings. */
#ifndef TASKS_TASKS_PLAN_H
#define TASKS_TASKS_PLAN_H

#include "jobs/tasks/tasks_list.h"

/* Adds an asking of the collected group to the group's plan. `likelihood` was made for it. */
void tasks_plan_asking(const struct tasks_list *list, const struct tasks_asking *asking,
                       const struct likelihood *likelihood, struct run_plan *group);

#endif
