/* fields.h: flags made from the API's tables (base/param.h), one flag for each parameter: `--bits 4` is
 * /params/method/bits. There is no second list: the command line has every parameter of a table, with the table's help
 * and default. A field's flag is the shortest end of its path that no other field has (`--bits`,
 * `--calibration.dataset`); the whole path works too (`--method.bits`). Objects and lists are JSON text, or a file of
 * it: @FILE. The name of a method or schedule is enough for its object (`--method gptq`), the values of a list may be
 * separated by commas, a boolean is --NAME or --no-NAME, and "null" is null where the table allows it. */
#ifndef CLI_FIELDS_H
#define CLI_FIELDS_H

#include "base/error.h"
#include "base/param.h"
#include "cli/options.h"

#include <jansson.h>

enum { FIELDS_PATH = 112, FIELDS_VARIANTS = 24, FIELDS_OBJECTS = 3 };

/* The option rows of one field: its short flag, its full path, and both with "no-" before them. */
enum { FIELDS_SHORT, FIELDS_FULL, FIELDS_NO_SHORT, FIELDS_NO_FULL, FIELDS_ROWS };

struct field {
    int object;                                  /* which of the filled objects it belongs to */
    char path[FIELDS_PATH];                      /* path within that object: "method.bits" */
    const struct param *params[FIELDS_VARIANTS]; /* its row in each variant that has it; one row when it is in no
                                                  * variant */
    const char *variants[FIELDS_VARIANTS];       /* the names of these variants; NULL outside of variants */
    int count, of;                               /* count of these variants, of `of` in all */
    char flags[FIELDS_ROWS][FIELDS_PATH + 8];    /* "" for a row that the field does not have */
    char value[FIELDS_PATH];                     /* the placeholder of its value in the help */
};

struct fields {
    struct field *items; /* owned */
    int64_t count, capacity;
    struct option_row *rows;             /* owned by fields_rows; ends with a NULL flag */
    const char *objects[FIELDS_OBJECTS]; /* the pointer of each object in the body: "/params" */
    const char *titles[FIELDS_OBJECTS];  /* the heading of its fields in the help, or NULL */
};

/* Adds the parameters of `table` to the object at `pointer`, except the names in `skip` (ends with NULL; NULL:
 * none). */
MUST_CHECK enum status fields_add(struct fields *fields, int object, const char *pointer, const struct param *table,
                                  const char *const *skip, struct error *error);
/* Makes fields->rows: the rows of the command itself (`own` ends with a NULL flag), then those of the fields. */
MUST_CHECK enum status fields_rows(struct fields *fields, const struct option_row *own, struct error *error);
void fields_reset(struct fields *fields);

/* Writes the given fields of `object` into `into`. STATUS_INVALID names the flag. */
MUST_CHECK enum status fields_read(const struct fields *fields, int object, const struct options *options, json_t *into,
                                   struct error *error);
/* Reads one field's value from its text, as fields_read does. The caller owns *out. */
MUST_CHECK enum status fields_value(const struct field *field, const char *text, json_t **out, struct error *error);
/* Reads several values of one field, for a grid: [1,2], @FILE, or 1,2, each as by fields_value. The caller owns
 * *out. */
MUST_CHECK enum status fields_values(const struct field *field, const char *text, json_t **out, struct error *error);

/* The field whose path or flag (without "--") is `word`, with "-" and "_" the same; NULL: no field, or several. */
const struct field *fields_find(const struct fields *fields, int object, const char *word, size_t length);
/* The field at a pointer into the object ("/method/bits"), or NULL. */
const struct field *fields_at(const struct fields *fields, int object, const char *pointer);
/* The words that a value may be (choices and names of variants), ends with NULL; NULL when any value is allowed. The
 * caller frees the list, not its words. */
const char **fields_choices(const struct field *field);

/* Prints one line for each field. */
void fields_print(const struct fields *fields, FILE *out);
/* Prints what that line says of a field behind its flag: its help, default and variants. */
void fields_print_help(const struct field *field, FILE *out);

#endif
