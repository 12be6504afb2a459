/* rows.h: the answer to a statement. */
#ifndef POSTGRES_ROWS_H
#define POSTGRES_ROWS_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct rows;
struct pg_result;

/* Rows: numbered from 0, like columns. Texts are lent until rows_free. */
void rows_free(struct rows *rows); /* NULL is fine */
int rows_count(const struct rows *rows);
bool rows_null(const struct rows *rows, int row, int column);
const char *rows_text(const struct rows *rows, int row, int column); /* "" for NULL */
int64_t rows_integer(const struct rows *rows, int row, int column);  /* 0 for NULL */
double rows_double(const struct rows *rows, int row, int column);    /* NaN for NULL */
bool rows_boolean(const struct rows *rows, int row, int column);     /* false for NULL */
/* A new reference; JSON null for SQL NULL. STATUS_NO_MEMORY, STATUS_INTERNAL. */
MUST_CHECK enum status rows_json(const struct rows *rows, int row, int column, json_t **out, struct error *error);
/* A bytea: *out is malloc'ed and the caller's (free). */
MUST_CHECK enum status rows_bytes(const struct rows *rows, int row, int column, void **out, size_t *length,
                                  struct error *error);

/* Takes libpq's result. Used by connection.c alone. */
struct rows *rows_of(struct pg_result *result);

#endif
