/* statistics.h: the numbers of /metrics that come from the database: queue, leases, workers, webhooks, the database
 * itself. No query reads all runs: the writes keep the counts of runs (sql/0021_transitions.sql). */
#ifndef STORE_STATISTICS_H
#define STORE_STATISTICS_H

#include "store/store.h"

/* *document: {NAME: NUMBER or [[LABEL, ..., NUMBER], ...]}, by the names in resources/service_metrics.c without
 * "deltaq_". `kinds` ["evaluate", ...]: the kinds that are listed even where there are no such runs. A change counts
 * once it has its id (changes_number), after a second at most. */
MUST_CHECK enum status statistics_read(struct connection *connection, const json_t *kinds, json_t **document,
                                       struct error *error);

#endif
