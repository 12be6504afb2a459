/* routes.h: the route table of the product. */
#ifndef RESOURCES_ROUTES_H
#define RESOURCES_ROUTES_H

#include "http/router.h"

/* *count rows, const for the life of the process. */
const struct route *routes_all(size_t *count);

/* The tables that openapi.yaml must agree with: {"NAME": JSON Schema}; a new reference, NULL when out of memory. */
json_t *routes_schemas(void);

#endif
