/* routes.h: the route table of the product. */
#ifndef RESOURCES_ROUTES_H
#define RESOURCES_ROUTES_H

#include "http/router.h"

/* *count rows, const for the life of the process. */
const struct route *routes_all(size_t *count);

/* The tables that openapi.yaml must agree with: {"NAME": JSON Schema}. The caller owns *out. Statuses of
 * schema_describe. */
MUST_CHECK enum status routes_schemas(json_t **out, struct error *error);

#endif
