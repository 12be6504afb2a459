/* result.h: results as tables, beside param.h. One table is the only source of a result's JSON, its schema in
 * openapi.yaml, the numbers in curves, and the texts of GET /v1/metrics. The table knows no JSON: the server renders a
 * struct by it. */
#ifndef BASE_RESULT_H
#define BASE_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum result_type {
    RESULT_END,      /* ends a table */
    RESULT_INTEGER,  /* int64_t at `offset` */
    RESULT_NUMBER,   /* double at `offset`; null when it is not finite */
    RESULT_BOOLEAN,  /* bool at `offset` */
    RESULT_CHOICE,   /* int at `offset`: the index in `choices` */
    RESULT_TEXT,     /* const char * at `offset`; NULL: absent */
    RESULT_CHARS,    /* char [] at `offset`, ends with 0 */
    RESULT_INTERVAL, /* doubles at `offset` and `high`: [low, high], null unless both are finite */
    RESULT_OBJECT,   /* a struct at `offset`, rendered by `shape` */
    RESULT_MERGED,   /* likewise, but its fields appear in the enclosing object; `name` is NULL */
    /* An array of `item`: a pointer to the first at `offset`, an int64_t at `count`. With a pointer of NULL the field
     * is absent, or empty if it is required. */
    RESULT_LIST,
    RESULT_ARRAY, /* likewise, but the items lie in the struct itself from `offset` on */
    RESULT_MAP,   /* as RESULT_LIST, but an object: each item under its const char * at `key` */
    /* A pointer at `offset` to a document that the server has made: an object described by `shape`, or an array
     * described by `item`; NULL: absent. */
    RESULT_DOCUMENT
};

/* How an absent field is rendered. */
enum result_absence {
    RESULT_ALWAYS, /* the field is never absent */
    RESULT_NULL,   /* a RESULT_NUMBER without `when` is absent when it is not finite */
    RESULT_LEFT_OUT
};

enum result_better { RESULT_NEITHER, RESULT_LOWER, RESULT_HIGHER };

/* How a number is shown to a person. */
enum result_format {
    RESULT_DIGITS,  /* by its significant digits */
    RESULT_FIXED,   /* with four decimals: losses */
    RESULT_PERCENT, /* a share, shown in percent */
    RESULT_BYTES,   /* as a size in memory or on disk */
    RESULT_FORMATS
};

enum result_spread {
    RESULT_NO_SPREAD,
    RESULT_BETWEEN, /* doubles at `spread_low` and `spread_high` */
    RESULT_STDERR   /* double at `spread_low`: a standard error from `spread_count` independent units (an int64_t
                       there); the interval is Student's with one degree of freedom less; a single unit has none */
};

/* A metric: a RESULT_NUMBER with this is also kept beside the result, for curves. One name is one metric: rows of
 * several kinds that measure it point at the same struct (a test checks this). */
struct result_metric {
    const char *name;  /* as in curves */
    const char *label; /* names it for a person */
    const char *axis;  /* text at an axis, before the unit; NULL: the label */
    const char *unit;  /* "nats"; NULL: a plain number */
    const char *help;  /* one line, ends without a full stop */
    enum result_better better;
    enum result_format format;
    bool of_method; /* measures the quantized model: belongs to the method's series */
};

struct result_field;

/* The fields of one struct. */
struct result_shape {
    const char *name; /* of its schema in openapi.yaml; NULL: the schema is written inline */
    const char *help; /* as in struct result_field; or NULL */
    const struct result_field *fields;
    size_t size; /* of the struct; only items of a list need it */
};

struct result_field {
    const char *name;
    enum result_type type;
    size_t offset;
    size_t high;    /* RESULT_INTERVAL */
    size_t count;   /* RESULT_LIST, RESULT_ARRAY: where the int64_t lies, unless `length` */
    size_t key;     /* RESULT_MAP: from the item's start */
    int64_t length; /* RESULT_LIST, RESULT_ARRAY: fixed number of items; 0: `count` has it */
    size_t stride;  /* RESULT_LIST, RESULT_ARRAY: bytes from item to item; 0: those of an item */
    /* RESULT_LIST, RESULT_ARRAY: the row of an item. Its type, shape, choices, item, length and `finite` are read; its
     * offsets count from the item's start. */
    const struct result_field *item;
    const struct result_shape *shape; /* RESULT_OBJECT, RESULT_MERGED, RESULT_DOCUMENT */
    const char *const *choices;       /* RESULT_CHOICE; RESULT_TEXT, RESULT_CHARS: described only; ends with NULL */
    enum result_absence absence;
    /* Offset of the bool that says whether the field is present. Not read for a field that is always present, nor for a
     * pointer (NULL: absent). */
    size_t when;
    bool has_when;                      /* `when` is read (it may be 0) */
    bool finite;                        /* RESULT_NUMBER: never null; a value that is not finite is a bug */
    bool later;                         /* results of earlier versions lack it: the schema does not require it */
    const char *unit;                   /* "nats"; NULL: the metric's, or none */
    const char *help;                   /* one line, ends without a full stop; NULL: the metric's, or none */
    const char *label;                  /* names it for a person; NULL: the metric's; neither: not shown on its own */
    enum result_format format;          /* beside `label` */
    const struct result_metric *metric; /* RESULT_NUMBER; NULL: none */
    bool of_method;                 /* the number is the quantized model's, although the metric is not `of_method` */
    bool unkept;                    /* the number has the metric's help and unit but is not kept for curves */
    enum result_spread spread;      /* of the metric */
    size_t spread_low, spread_high; /* where its doubles lie */
    size_t spread_count;            /* RESULT_STDERR */
    size_t spread_degrees;          /* RESULT_STDERR: its degrees of freedom (a double), where units do not weigh the
                                       same; 0: spread_count less one */
};

#endif
