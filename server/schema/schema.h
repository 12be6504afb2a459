/* schema.h: checks JSON documents against the tables of base/param.h. A table is the only source of what is accepted:
 * validation, the defaults that are written back, the struct that the engine reads, and the schema in openapi.yaml
 * (which a test compares). */
#ifndef SCHEMA_SCHEMA_H
#define SCHEMA_SCHEMA_H

#include "base/error.h"
#include "base/param.h"
#include "schema/faults.h"

#include <jansson.h>

/* A struct filled from a document. Strings in it are lent by the document, which must outlive it. */
struct schema_filled {
    void *params;  /* owned */
    void **blocks; /* owned: the texts of PARAM_JSON fields, the items of lists */
    size_t block_count;
};

/* Checks `object` by `table` and fills a new zeroed struct of `size` bytes from it. Every absent field gets its
 * default, in the struct and in `object` itself; a number given as an integer is written back as a real, and an integer
 * given as 256.0 as 256, so that equal requests look equal. `pointer` is where `object` stands in the body ("/params").
 * On STATUS_OK *out is the caller's (schema_filled_reset). STATUS_INVALID: all faults were added to `faults` (may be
 * NULL) and the first one is in `error`; STATUS_NO_MEMORY. */
MUST_CHECK enum status schema_fill(const struct param *table, size_t size, json_t *object, const char *pointer,
                                   struct faults *faults, struct schema_filled *out, struct error *error);
void schema_filled_reset(struct schema_filled *filled);

/* Calls `visit` for each reference (PARAM_CHECKPOINT, PARAM_DATASET, PARAM_TRAJECTORY), also in lists, that stands in a
 * document that schema_fill accepted; `value` is its string, which visit may replace with json_string_set. Stops at the
 * first status that is not OK. */
typedef enum status schema_visitor(void *context, enum param_type type, const char *pointer, json_t *value,
                                   struct error *error);
MUST_CHECK enum status schema_references(const struct param *table, json_t *object, const char *pointer,
                                         schema_visitor *visit, void *context, struct error *error);

/* Writes integers, numbers and booleans of a filled struct back into its document, for rules that complete some of
 * them. */
MUST_CHECK enum status schema_write_back(const struct param *table, const void *params, json_t *object,
                                         struct error *error);

/* Adds the table to `document` as a JSON Schema (2020-12, as OpenAPI 3.1 uses it) under `name`. Parts whose rows have a
 * `schema` are added under theirs, and referred to as "#/components/schemas/NAME"; a variant's own fields are added
 * under its name joined to theirs. STATUS_CONFLICT: a name stands for two schemas; STATUS_NO_MEMORY. */
MUST_CHECK enum status schema_describe(json_t *document, const char *name, const struct param *table,
                                       struct error *error);

/* The document that would fill `table` with what the struct at `params` holds, every field spelled out: a nullable
 * number that is 0 and a nullable choice that is the first are their null and their name. Variants, references and free
 * JSON are left out. New reference; NULL when memory ran out. */
json_t *schema_document(const struct param *table, const void *params);

#endif
