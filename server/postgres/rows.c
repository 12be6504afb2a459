#include "postgres/rows.h"

#include "base/hex.h"
#include "json/jsonb.h"

#include <libpq-fe.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* struct rows is libpq's result under our name: one allocation less, and nothing outside this room knows libpq. */
struct rows *rows_of(struct pg_result *result)
{
    return (struct rows *)result;
}

static const PGresult *result_of(const struct rows *rows)
{
    return (const PGresult *)rows;
}

void rows_free(struct rows *rows)
{
    PQclear((PGresult *)rows);
}

int rows_count(const struct rows *rows)
{
    return PQntuples(result_of(rows));
}

bool rows_null(const struct rows *rows, int row, int column)
{
    return PQgetisnull(result_of(rows), row, column) != 0;
}

const char *rows_text(const struct rows *rows, int row, int column)
{
    return PQgetvalue(result_of(rows), row, column);
}

int64_t rows_integer(const struct rows *rows, int row, int column)
{
    return strtoll(rows_text(rows, row, column), NULL, 10);
}

double rows_double(const struct rows *rows, int row, int column)
{
    return rows_null(rows, row, column) ? NAN : strtod(rows_text(rows, row, column), NULL);
}

bool rows_boolean(const struct rows *rows, int row, int column)
{
    return rows_text(rows, row, column)[0] == 't';
}

enum status rows_json(const struct rows *rows, int row, int column, json_t **out, struct error *error)
{
    *out = NULL;
    if (rows_null(rows, row, column)) {
        *out = json_null();
        return STATUS_OK;
    }
    struct error cause;
    const char *text = rows_text(rows, row, column);
    const enum status status = jsonb_read(text, strlen(text), out, &cause);
    if (status == STATUS_OK) return status;
    if (status == STATUS_NO_MEMORY)
        return error_set(error, STATUS_NO_MEMORY, "no memory for an answer of the database");
    return error_set(error, STATUS_INTERNAL, "the database answered %s", cause.detail);
}

enum status rows_bytes(const struct rows *rows, int row, int column, void **out, size_t *length, struct error *error)
{
    const char *text = rows_text(rows, row, column); /* \x and two digits a byte: bytea_output is hex in our sessions */
    const size_t digits = strlen(text);
    *out = NULL;
    *length = digits > 2 ? (digits - 2) / 2 : 0;
    unsigned char *bytes = malloc(*length + 1);
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of the database", *length);
    for (size_t i = 0; i < *length; i++)
        bytes[i] = (unsigned char)(hex_value(text[2 + 2 * i]) * 16 + hex_value(text[3 + 2 * i]));
    *out = bytes;
    return STATUS_OK;
}
