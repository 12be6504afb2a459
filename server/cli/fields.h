/* fields.h: flags made of the tables of the API (base/param.h), a flag a parameter: `--bits 4` is /params/method/bits.
 * There is no second list: what a table names, the command line has, with the table's help and default.
 * A field's flag is the shortest end of its path that no other field has (`--bits`, `--calibration.dataset`); all of
 * the path is understood too (`--method.bits`). Objects and lists are JSON text, or a file of it: @FILE. The name of a
 * method or schedule stands alone (`--method gptq`), values of a list may be separated by commas, a boolean is --NAME
 * or --no-NAME, and "null" is null where the table allows it. */
#ifndef CLI_FIELDS_H
#define CLI_FIELDS_H

#include "base/error.h"
#include "base/param.h"
#include "cli/options.h"

#include <jansson.h>

enum { FIELDS_PATH = 112, FIELDS_VARIANTS = 24, FIELDS_OBJECTS = 3 };

/* The rows of one field: its flag, all of its path, and both with "no-" before. */
enum { FIELDS_SHORT, FIELDS_FULL, FIELDS_NO_SHORT, FIELDS_NO_FULL, FIELDS_ROWS };

struct field {
    int object;                                  /* which of the objects that are filled it belongs to */
    char path[FIELDS_PATH];                      /* from that object: "method.bits" */
    const struct param *params[FIELDS_VARIANTS]; /* the rows of the variants that have it; one where it is in none */
    const char *variants[FIELDS_VARIANTS];       /* their names; NULL */
    int count, of;                               /* of so many variants in all */
    char flags[FIELDS_ROWS][FIELDS_PATH + 8];    /* "" where there is none of its own */
    char value[FIELDS_PATH];                     /* what stands for its value in the help */
};

struct fields {
    struct field *items; /* owned */
    int64_t count, capacity;
    struct option_row *rows;             /* owned by fields_rows; ends with a NULL flag */
    const char *objects[FIELDS_OBJECTS]; /* where each object stands in the body: "/params" */
    const char *titles[FIELDS_OBJECTS];  /* what stands above its fields in the help, or NULL */
};

/* Adds what `table` names to the object that stands at `pointer`, but for the names in `skip` (ends with NULL; NULL:
 * none). */
MUST_CHECK enum status fields_add(struct fields *fields, int object, const char *pointer, const struct param *table,
                                  const char *const *skip, struct error *error);
/* Makes fields->rows: the rows of the command itself (`own` ends with a NULL flag), then those of the fields. */
MUST_CHECK enum status fields_rows(struct fields *fields, const struct option_row *own, struct error *error);
void fields_reset(struct fields *fields);

/* Writes the fields of `object` that were given into `into`. STATUS_INVALID naming the flag. */
MUST_CHECK enum status fields_read(const struct fields *fields, int object, const struct options *options, json_t *into,
                                   struct error *error);
/* One field's value from its text, as in fields_read. The caller owns *out. */
MUST_CHECK enum status fields_value(const struct field *field, const char *text, json_t **out, struct error *error);
/* Several values of one field, for a grid: [1,2], @FILE, or 1,2, each read as by fields_value. Likewise. */
MUST_CHECK enum status fields_values(const struct field *field, const char *text, json_t **out, struct error *error);

/* The field that a word names: its path or the name of its flag without "--"; NULL: none, or of several. */
const struct field *fields_find(const struct fields *fields, int object, const char *word, size_t length);
/* The field that a pointer into the object leads to ("/method/bits"), or NULL. */
const struct field *fields_at(const struct fields *fields, int object, const char *pointer);
/* The words that a value may be, ends with NULL: choices and names of variants; NULL when it may be anything. The
 * caller frees the list, not its words. */
const char **fields_choices(const struct field *field);

/* One line a field. */
void fields_print(const struct fields *fields, FILE *out);

#endif
