/* run_unfinished.h: the SQL of the runs that have not ended, a table with the columns id, kind and state. The indexes
 * of runs that wait and of runs that are executed have one state each, and PostgreSQL uses neither for a list of
 * states: it would read all runs that there ever were. */
#ifndef STORE_RUN_UNFINISHED_H
#define STORE_RUN_UNFINISHED_H

#define RUN_UNFINISHED                                          \
    " (select id, kind, state from runs where state = 'queued'" \
    " union all select id, kind, state from runs where state = 'running') "

#endif
