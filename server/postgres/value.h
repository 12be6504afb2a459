/* value.h: the parameters of a statement, typed. */
#ifndef POSTGRES_VALUE_H
#define POSTGRES_VALUE_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

/* A parameter of a statement. Pointers are lent for the call. */
struct value {
    enum value_type {
        VALUE_NULL,
        VALUE_TEXT,
        VALUE_INTEGER,
        VALUE_DOUBLE,
        VALUE_BOOLEAN,
        VALUE_JSON,
        VALUE_BYTES
    } type;
    union {
        const char *text;
        int64_t integer;
        double number;
        bool boolean;
        const json_t *json;
        const void *bytes;
    } as;
    size_t length; /* VALUE_BYTES */
};

/* NULL pointers become SQL NULL; a double that is not finite too (the schema and the API know only finite numbers). */
struct value value_text(const char *text);
struct value value_integer(int64_t integer);
struct value value_integer_or_null(const int64_t *integer);
struct value value_double(double number);
struct value value_double_or_null(const double *number);
struct value value_boolean(bool boolean);
struct value value_json(const json_t *json); /* for json and jsonb */
struct value value_bytes(const void *bytes, size_t length);

/* VALUES(value_text(id), value_integer(epoch)): the two arguments `values, count`. */
#define VALUES(...) \
    (const struct value[]){__VA_ARGS__}, sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value)
#define NO_VALUES NULL, 0

/* The same for libpq's calls. Used by connection.c alone. */
#define VALUES_MOST 32
struct value_arguments {
    unsigned types[VALUES_MOST];
    const char *values[VALUES_MOST];
    int lengths[VALUES_MOST], formats[VALUES_MOST];
    char numbers[VALUES_MOST][32];
    char *owned[VALUES_MOST];
    int count;
};
/* Renders `count` values into *out; value_arguments_reset frees what it made. STATUS_NO_MEMORY, STATUS_INVALID for
 * a text that is not UTF-8, STATUS_INTERNAL for too many. */
MUST_CHECK enum status value_arguments_fill(struct value_arguments *out, const struct value *values, size_t count,
                                            struct error *error);
void value_arguments_reset(struct value_arguments *arguments);

#endif
