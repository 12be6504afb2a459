/* orders.h: what an emulated device was asked for and has not done yet: a queue for its stream and one for each lane.
 * An order runs when somebody waits for it, or for one that waits for it, and no sooner, so all copies and all work are
 * as late as they may be: who forgot to wait, or used memory again that an order still reads, gets other numbers. */
#ifndef TESTS_CUDA_ORDERS_H
#define TESTS_CUDA_ORDERS_H

#include "backend/lane.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS_STREAM = LANE_COUNT, ORDERS_QUEUES, ORDERS_MOST = 512 };

typedef void order_run(void *context, const void *payload);

struct order {
    struct order *next;
    order_run *run; /* NULL: waits for number `until` of queue `other` */
    int other;
    int64_t until;
    max_align_t payload[];
};

struct orders {
    void *context;
    struct {
        struct order *first, *last;
        int64_t asked, done; /* orders are numbered from 1 */
    } queues[ORDERS_QUEUES];
};

/* Runs a queue up to an order. */
static inline void orders_reach(struct orders *orders, int queue, int64_t number)
{
    while (orders->queues[queue].done < number) {
        struct order *order = orders->queues[queue].first;
        orders->queues[queue].first = order->next;
        if (order->run == NULL)
            orders_reach(orders, order->other, order->until);
        else
            order->run(orders->context, order->payload);
        free(order);
        orders->queues[queue].done++;
    }
}

static inline void orders_reach_all(struct orders *orders)
{
    for (int queue = 0; queue < ORDERS_QUEUES; queue++) orders_reach(orders, queue, orders->queues[queue].asked);
}

static inline int orders_append(struct orders *orders, int queue, struct order *order)
{
    if (order == NULL) return 1;
    if (orders->queues[queue].asked == orders->queues[queue].done)
        orders->queues[queue].first = order;
    else
        orders->queues[queue].last->next = order;
    orders->queues[queue].last = order;
    orders_reach(orders, queue, ++orders->queues[queue].asked - ORDERS_MOST);
    return 0;
}

/* 0, or 1 without memory. The payload is copied. */
static inline int orders_add(struct orders *orders, int queue, order_run *run, const void *payload, size_t size)
{
    struct order *order = calloc(1, sizeof *order + size);
    if (order == NULL) return 1;
    order->run = run;
    memcpy(order->payload, payload, size);
    return orders_append(orders, queue, order);
}

/* What the queue is given from now on comes after order `until` of another. */
static inline int orders_wait(struct orders *orders, int queue, int other, int64_t until)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL) return 1;
    order->other = other;
    order->until = until;
    return orders_append(orders, queue, order);
}

#endif
