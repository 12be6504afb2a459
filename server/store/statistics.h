/* statistics.h: what /metrics tells of the database: the queue, the leases, the workers, the webhooks, the database
 * itself. Nothing of it reads all runs: counts of runs are those that the writes keep (sql/0021_transitions.sql). */
#ifndef STORE_STATISTICS_H
#define STORE_STATISTICS_H

#include "store/store.h"

/* *document: {NAME: NUMBER or [[LABEL, ..., NUMBER], ...]}, by the names in resources/service_metrics.c without
 * "deltaq_". `kinds` ["evaluate", ...]: those that are told of, also where there are no such runs. Changes count once
 * they have their ids (changes_number), which takes a second at most. */
MUST_CHECK enum status statistics_read(struct connection *connection, const json_t *kinds, json_t **document,
                                       struct error *error);

#endif
