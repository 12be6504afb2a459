/* gptq_order.h: the order in which GPTQ visits columns. In that order groups are runs of `group_size` positions, the
 * last may be shorter.
 *
 *   none  as they lie
 *   act   by descending diagonal of H; groups are runs of the visiting order, so g_idx is scattered
 *   gar   group-aware: inside each full group by descending diagonal, then the groups by their largest entry,
 *         descending; a short last group stays last and unsorted. Groups keep their members.
 *
 * Sorts are stable: equal diagonals (several dead columns) keep their order. */
#ifndef QUANT_GPTQ_ORDER_H
#define QUANT_GPTQ_ORDER_H

#include "base/error.h"

#include <stdint.h>

enum gptq_order_kind { GPTQ_ORDER_NONE, GPTQ_ORDER_ACT, GPTQ_ORDER_GAR };

struct gptq_order {
    int64_t columns, group_size, runs;
    int32_t *from;  /* [columns] owned: the column visited at a position */
    int32_t *group; /* [runs] owned: the group of a run of positions */
};

/* `diagonal` [columns] of H with 1 for dead columns; group_size in [1, …]. On failure the order may be reset all the
 * same. */
MUST_CHECK enum status gptq_order_init(struct gptq_order *order, enum gptq_order_kind kind, const float *diagonal,
                                       int64_t columns, int64_t group_size, struct error *error);
void gptq_order_reset(struct gptq_order *order); /* a zeroed one is fine */

#endif
