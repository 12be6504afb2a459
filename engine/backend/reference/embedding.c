/* embedding.c: rows of a table [V, C] by token id: out [T, C] = table[ids[t]], and the sum of gradients back into the
 * table. */
#include "backend/reference/real.h"

void REFERENCE(gather)(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) row_of(to, t)[c] = row_of(table, ids[t])[c];
}

void REFERENCE(scatter_add)(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids)
{
    (void)backend;
    for (int64_t t = 0; t < from.rows; t++)
        for (int64_t c = 0; c < from.columns; c++) row_of(table, ids[t])[c] += row_of(from, t)[c];
}
