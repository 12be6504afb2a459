#include "postgres/value.h"

#include "base/utf8.h"
#include "json/written.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of pg_type, which never change; 0 lets the server infer json or jsonb. Stated types make `$1 is null`
 * unambiguous. */
static const unsigned types[] = {
    [VALUE_NULL] = 0,     [VALUE_TEXT] = 25, [VALUE_INTEGER] = 20, [VALUE_DOUBLE] = 701,
    [VALUE_BOOLEAN] = 16, [VALUE_JSON] = 0,  [VALUE_BYTES] = 17,
};

struct value value_text(const char *text)
{
    return (struct value){.type = VALUE_TEXT, .as.text = text};
}

struct value value_integer(int64_t integer)
{
    return (struct value){.type = VALUE_INTEGER, .as.integer = integer, .length = 1};
}

struct value value_integer_or_null(const int64_t *integer)
{
    return integer != NULL ? value_integer(*integer) : (struct value){.type = VALUE_INTEGER};
}

struct value value_double(double number)
{
    return (struct value){.type = VALUE_DOUBLE, .as.number = number};
}

struct value value_double_or_null(const double *number)
{
    return value_double(number != NULL ? *number : NAN);
}

struct value value_boolean(bool boolean)
{
    return (struct value){.type = VALUE_BOOLEAN, .as.boolean = boolean};
}

struct value value_json(const json_t *json)
{
    return (struct value){.type = VALUE_JSON, .as.json = json};
}

struct value value_bytes(const void *bytes, size_t length)
{
    return (struct value){.type = VALUE_BYTES, .as.bytes = bytes, .length = length};
}

static enum status value_render(const struct value *value, int i, struct value_arguments *out, struct error *error)
{
    char *number = out->numbers[i];
    out->types[i] = types[value->type];
    out->values[i] = NULL;
    out->formats[i] = value->type == VALUE_BYTES;
    out->lengths[i] = 0;
    switch (value->type) {
    case VALUE_NULL:
        break;
    case VALUE_TEXT:
        if (value->as.text != NULL && utf8_check(value->as.text, strlen(value->as.text)) != strlen(value->as.text))
            return error_set(error, STATUS_INVALID, "a text for the database is not UTF-8: \"%.60s\"", value->as.text);
        out->values[i] = value->as.text;
        break;
    case VALUE_INTEGER:
        (void)snprintf(number, sizeof out->numbers[i], "%lld", (long long)value->as.integer);
        if (value->length != 0) out->values[i] = number;
        break;
    case VALUE_DOUBLE:
        (void)snprintf(number, sizeof out->numbers[i], "%.17g", value->as.number);
        if (isfinite(value->as.number)) out->values[i] = number;
        break;
    case VALUE_BOOLEAN:
        out->values[i] = value->as.boolean ? "t" : "f";
        break;
    case VALUE_JSON:
        if (value->as.json == NULL) break;
        out->owned[i] = written_json(value->as.json, JSON_COMPACT | JSON_ENCODE_ANY);
        if (out->owned[i] == NULL)
            return error_set(error, STATUS_NO_MEMORY, "no memory to write a document for the database");
        out->values[i] = out->owned[i];
        break;
    case VALUE_BYTES:
        if (value->length > 0x3fffffff)
            return error_set(error, STATUS_TOO_LARGE, "%zu bytes in one field, at most 1 GiB", value->length);
        /* libpq takes a NULL pointer for SQL NULL, also with length 0. */
        out->values[i] = value->length != 0 ? value->as.bytes : "";
        out->lengths[i] = (int)value->length;
        break;
    }
    return STATUS_OK;
}

enum status value_arguments_fill(struct value_arguments *out, const struct value *values, size_t count,
                                 struct error *error)
{
    memset(out->owned, 0, sizeof out->owned);
    out->count = 0;
    if (count > VALUES_MOST)
        return error_set(error, STATUS_INTERNAL, "%zu parameters of a statement, at most %d", count, VALUES_MOST);
    for (size_t i = 0; i < count; i++) {
        out->count = (int)i + 1;
        const enum status status = value_render(&values[i], (int)i, out, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

void value_arguments_reset(struct value_arguments *arguments)
{
    for (int i = 0; i < VALUES_MOST; i++) {
        free(arguments->owned[i]);
        arguments->owned[i] = NULL;
    }
}
