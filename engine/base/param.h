/* param.h: schemas of parameters as tables. One table is the only source of a request's validation, its defaults, the
 * struct the engine reads, `--help` and the OpenAPI check. The table knows no JSON: the server fills a struct from a
 * document by it. */
#ifndef BASE_PARAM_H
#define BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum param_type {
    PARAM_END,        /* ends a table */
    PARAM_INTEGER,    /* int64_t at `offset` */
    PARAM_NUMBER,     /* double at `offset` */
    PARAM_BOOLEAN,    /* bool at `offset` */
    PARAM_STRING,     /* const char * at `offset`, lent by the document the struct was filled from */
    PARAM_CHOICE,     /* int at `offset`: the index in `choices` (give the enum the same order) */
    PARAM_OBJECT,     /* a struct at `offset`, filled by `children` */
    PARAM_VARIANT,    /* an object whose "name" picks one of `variants`: int at `offset` (its index); the variant's own
                         fields are filled by its table into a struct that lies `variants[i].offset` bytes after
                         that int */
    PARAM_CHECKPOINT, /* an id or name of a checkpoint: const char * (the id, after the server resolved it) */
    PARAM_DATASET,    /* an id or name of a dataset: likewise */
    PARAM_TRAJECTORY, /* an id or name of a trajectory: likewise */
    PARAM_JSON,       /* any object: const char * (its text); checked by its reader (a model configuration) */
    PARAM_ARRAY,      /* an array that is not stored: its reader takes it from the document; `item` describes it */
    PARAM_LIST        /* an array of `item`: struct param_list at `offset` */
};

struct param;

/* The form that a text must have: described for people, as a pattern for machines, and as a check. */
struct param_form {
    const char *pattern; /* an ECMA 262 regular expression, as in JSON Schema */
    bool (*fits)(const char *text);
    const char *wanted; /* "must be …" */
};

/* A filled PARAM_LIST: int64_t, double, const char *, int (PARAM_CHOICE) or structs (PARAM_OBJECT), as the type of its
 * `item` says. Lent like strings. */
struct param_list {
    int64_t count;
    union {
        const int64_t *integers;
        const double *numbers;
        const char *const *texts;
        const int *choices;
        const void *objects;
    };
};

struct param_variant {
    const char *name;           /* value of "name" */
    const struct param *params; /* the other fields */
    size_t offset;              /* where its struct lies, from the PARAM_VARIANT's own offset */
};

/* A name for a variant's fields. */
struct param_recipe {
    const char *name;   /* value of "recipe" */
    const char *fields; /* JSON text of an object, "name" included */
};

struct param {
    const char *name;
    enum param_type type;
    /* what openapi.yaml calls its type, described once for all fields of it; NULL: described in each field */
    const char *schema;
    size_t offset;
    /* The default as JSON text ("4", "true", "null", "{}"); NULL: the field is required. "null" of a field that is not
     * nullable: it may be absent, and is then stored as zeros. */
    const char *fallback;
    /* PARAM_INTEGER, PARAM_NUMBER: bounds; both 0: unbounded. PARAM_STRING: most bytes in `maximum`, least in
     * `minimum`, where 0 is 1 and -1 is 0. PARAM_LIST: the number of items. */
    double minimum, maximum;
    const char *const *choices;    /* PARAM_CHOICE, ends with NULL */
    const struct param_form *form; /* PARAM_STRING; or NULL */
    const int64_t *allowed;        /* PARAM_INTEGER: the only values, ends with 0 (0 itself cannot be one); or NULL */
    const struct param *children;  /* PARAM_OBJECT */
    const struct param_variant *variants; /* PARAM_VARIANT, ends with a NULL name */
    /* PARAM_VARIANT: what {"recipe": NAME} stands for (fields beside it change it); ends with a NULL name; NULL: there
     * are none */
    const struct param_recipe *recipes;
    /* PARAM_LIST, PARAM_ARRAY (described only): the row of an item, which is a number, a choice, a string, a reference,
     * or an object without references. Its type, schema, bounds, choices, children, size and help are read. */
    const struct param *item;
    size_t size;           /* PARAM_OBJECT as the item of a list: bytes of its struct */
    bool nullable;         /* null is allowed and stored as 0 / 0.0 / NULL / a zeroed struct */
    bool not_zero;         /* PARAM_INTEGER: 0 is refused, although it lies within the bounds */
    bool null_is_negative; /* null of a PARAM_INTEGER or PARAM_NUMBER is stored as -1: 0 is a value of its own */
    /* left out it may mean something else than `fallback`, which is then not described as its default */
    bool absent_differs;
    bool apart;       /* may be large and is read apart from the document, which has null in its place */
    const char *help; /* one line, ends without a full stop */
};

/* Whether the field has no value that says nothing: null is refused, only its absence is not. */
static inline bool param_optional_not_null(const struct param *param)
{
    return !param->nullable && param->fallback != NULL && param->fallback[0] == 'n';
}

#endif
