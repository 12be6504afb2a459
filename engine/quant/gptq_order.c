#include "quant/gptq_order.h"

#include "base/integer.h"
#include "base/memory.h"

#include <stdlib.h>

struct entry {
    float key;
    int32_t index;
};

/* Descending by key, ascending by index: what a stable descending sort gives. */
static int entry_compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

static void sort_columns(const float *diagonal, int64_t first, int64_t count, struct entry *entries, int32_t *from)
{
    for (int64_t i = 0; i < count; i++) entries[i] = (struct entry){diagonal[first + i], (int32_t)(first + i)};
    qsort(entries, (size_t)count, sizeof *entries, entry_compare);
    for (int64_t i = 0; i < count; i++) from[i] = entries[i].index;
}

static void order_by_group(struct gptq_order *order, const float *diagonal, struct entry *entries)
{
    const int64_t size = order->group_size, full = order->columns / size;
    for (int64_t g = 0; g < full; g++) {
        float largest = diagonal[g * size];
        for (int64_t i = 1; i < size; i++)
            largest = diagonal[g * size + i] > largest ? diagonal[g * size + i] : largest;
        entries[g] = (struct entry){largest, (int32_t)g};
    }
    qsort(entries, (size_t)full, sizeof *entries, entry_compare);
    for (int64_t run = 0; run < full; run++) order->group[run] = entries[run].index;
    for (int64_t run = 0; run < full; run++)
        sort_columns(diagonal, order->group[run] * size, size, entries, order->from + run * size);
}

enum status gptq_order_init(struct gptq_order *order, enum gptq_order_kind kind, const float *diagonal, int64_t columns,
                            int64_t group_size, struct error *error)
{
    enum status status;
    struct entry *entries = NULL;
    *order = (struct gptq_order){.columns = columns, .group_size = group_size};
    order->runs = ceil_divide(columns, group_size);
    if ((status = memory_new(columns, sizeof *order->from, "column order", &order->from, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(order->runs, sizeof *order->group, "group order", &order->group, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(columns, sizeof *entries, "column order", &entries, error)) != STATUS_OK) goto done;
    for (int64_t c = 0; c < columns; c++) order->from[c] = (int32_t)c;
    for (int64_t run = 0; run < order->runs; run++) order->group[run] = (int32_t)run;
    if (kind == GPTQ_ORDER_ACT) sort_columns(diagonal, 0, columns, entries, order->from);
    if (kind == GPTQ_ORDER_GAR) order_by_group(order, diagonal, entries);
done:
    memory_free(entries);
    return status;
}

void gptq_order_reset(struct gptq_order *order)
{
    memory_free(order->from);
    memory_free(order->group);
    *order = (struct gptq_order){0};
}
