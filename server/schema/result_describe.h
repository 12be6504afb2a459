/* result_describe.h: the tables of base/result.h as JSON Schemas (2020-12, as OpenAPI 3.1 uses them). */
#ifndef SCHEMA_RESULT_DESCRIBE_H
#define SCHEMA_RESULT_DESCRIBE_H

#include "base/result.h"

#include <jansson.h>

/* Adds the schema of `shape`, which must have a name, and of every named shape below it to `document`, each once. False
 * when memory ran out. */
bool result_describe(const struct result_shape *shape, json_t *document);

#endif
