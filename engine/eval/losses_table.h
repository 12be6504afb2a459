/* losses_table.h: the losses of every sequence of an evaluation as a file. The files of two evaluations of the same
 * sequences allow a paired comparison.
 *
 * The file is CSV (RFC 4180, except that lines end in LF), and equal for equal numbers:
 *   sequence   index from 0, in the order of the dataset
 *   tokens     of the sequence; it has tokens - 1 predictions, which are its weight
 * then the writer's columns: means over the predictions of a sequence, in nats, with 17 significant digits, from which
 * the double can be restored; nan, inf or -inf if not finite. */
#ifndef EVAL_LOSSES_TABLE_H
#define EVAL_LOSSES_TABLE_H

#include "base/buffer.h"

#include <stdint.h>

enum { LOSSES_TABLE_COLUMNS = 3 }; /* most columns that are read */

struct losses_column {
    const char *name;
    const double *values; /* [sequences], lent */
};

/* Appends the whole file to `text`. STATUS_NO_MEMORY. */
MUST_CHECK enum status losses_table_print(struct buffer *text, const int64_t *predictions, int64_t sequences,
                                          const struct losses_column *columns, size_t column_count,
                                          struct error *error);

/* Appends a comma and one number in that format. */
void losses_table_number(struct buffer *text, double value);

/* The content of such a file. */
struct losses_table {
    int64_t sequences;
    int64_t *predictions;                  /* [sequences], owned, like the columns */
    double *columns[LOSSES_TABLE_COLUMNS]; /* [sequences], in the order of the file */
};

/* Reads the file at `path`, whose columns must be `names` (`count` of them, at most LOSSES_TABLE_COLUMNS). The caller
 * owns *out (losses_table_reset), also after a failure. STATUS_CORRUPT when it is not as losses_table_print writes it,
 * STATUS_TOO_LARGE (64 MiB, some 600,000 sequences), STATUS_NOT_FOUND, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status losses_table_read(const char *path, const char *const *names, size_t count,
                                         struct losses_table *out, struct error *error);
void losses_table_reset(struct losses_table *table); /* {0} is fine */

#endif
