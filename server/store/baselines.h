/* baselines.h: full-precision losses measured once for (content hash, data, precision) and never again. */
#ifndef STORE_BASELINES_H
#define STORE_BASELINES_H

#include "store/store.h"

/* `key`: hash over content, data and precision. STATUS_NOT_FOUND. */
MUST_CHECK enum status baseline_get(struct connection *connection, const char *key, json_t **document, struct error *error);
/* The first one stays. */
MUST_CHECK enum status baseline_put(struct connection *connection, const char *key, const json_t *document, struct error *error);

#endif
