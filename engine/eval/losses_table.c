#include "eval/losses_table.h"

#include "base/memory.h"
#include "files/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest losses.csv that is read. */
#define READ_BYTES (INT64_C(64) << 20)

/* printf writes numbers that are not finite differently: a NaN may have a sign. */
void losses_table_number(struct buffer *text, double value)
{
    if (isnan(value))
        buffer_puts(text, ",nan");
    else
        buffer_printf(text, ",%.17g", value);
}

enum status losses_table_print(struct buffer *text, const int64_t *predictions, int64_t sequences,
                               const struct losses_column *columns, size_t column_count, struct error *error)
{
    buffer_puts(text, "sequence,tokens");
    for (size_t c = 0; c < column_count; c++) buffer_printf(text, ",%s", columns[c].name);
    buffer_puts(text, "\n");
    for (int64_t s = 0; s < sequences; s++) {
        buffer_printf(text, "%" PRId64 ",%" PRId64, s, predictions[s] + 1);
        for (size_t c = 0; c < column_count; c++) losses_table_number(text, columns[c].values[s]);
        buffer_puts(text, "\n");
    }
    return buffer_status(text, "the losses of sequences", error);
}

/* ---- Reading ---- */

static enum status corrupt(int64_t line, struct error *error)
{
    return error_set(error, STATUS_CORRUPT,
                     "the losses of the run's sequences: line %" PRId64 " is not as it was written", line);
}

/* Skips `expected` at the beginning of the text. */
static bool take_text(const char **text, const char *expected)
{
    const size_t length = strlen(expected);
    if (strncmp(*text, expected, length) != 0) return false;
    *text += length;
    return true;
}

/* A number of digits; strtoll would take blanks and signs. */
static bool take_integer(const char **text, int64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9') return false;
    *out = strtoll(*text, &end, 10);
    *text = end;
    return true;
}

static bool take_number(const char **text, double *out)
{
    char *end;
    if (!take_text(text, ",") || strchr("-0123456789in", **text) == NULL) return false;
    *out = strtod(*text, &end);
    if (end == *text) return false;
    *text = end;
    return true;
}

static bool take_row(const char **text, int64_t row, size_t count, struct losses_table *out)
{
    int64_t index = -1, tokens = 0;
    if (!take_integer(text, &index) || index != row || !take_text(text, ",")) return false;
    if (!take_integer(text, &tokens) || tokens < 2) return false;
    out->predictions[row] = tokens - 1;
    for (size_t c = 0; c < count; c++)
        if (!take_number(text, &out->columns[c][row])) return false;
    return take_text(text, "\n");
}

static enum status table_parse(const char *text, const char *end, const char *const *names, size_t count,
                               struct losses_table *out, struct error *error)
{
    int64_t lines = 0;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
    if (lines < 2) return corrupt(lines, error);
    out->sequences = lines - 1;
    enum status status =
        memory_new(out->sequences, sizeof *out->predictions, "losses of sequences", &out->predictions, error);
    for (size_t c = 0; c < count && status == STATUS_OK; c++)
        status = memory_new(out->sequences, sizeof *out->columns[c], "losses of sequences", &out->columns[c], error);
    if (status != STATUS_OK) return status;
    if (!take_text(&text, "sequence,tokens")) return corrupt(1, error);
    for (size_t c = 0; c < count; c++)
        if (!take_text(&text, ",") || !take_text(&text, names[c])) return corrupt(1, error);
    if (!take_text(&text, "\n")) return corrupt(1, error);
    for (int64_t row = 0; row < out->sequences; row++)
        if (!take_row(&text, row, count, out)) return corrupt(row + 2, error);
    return text == end ? STATUS_OK : corrupt(lines + 1, error);
}

enum status losses_table_read(const char *path, const char *const *names, size_t count, struct losses_table *out,
                              struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    *out = (struct losses_table){0};
    enum status status = file_read_all(AT_FDCWD, path, READ_BYTES, &text, &bytes, error);
    if (status == STATUS_OK) status = table_parse(text, text + bytes, names, count, out, error);
    memory_free(text);
    return status;
}

void losses_table_reset(struct losses_table *table)
{
    memory_free(table->predictions);
    for (size_t c = 0; c < LOSSES_TABLE_COLUMNS; c++) memory_free(table->columns[c]);
    *table = (struct losses_table){0};
}
