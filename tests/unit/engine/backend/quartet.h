/* quartet.h: the backends whose slots for quantizers are held against each other, and bytes in their memory. */
#ifndef TESTS_BACKEND_QUARTET_H
#define TESTS_BACKEND_QUARTET_H

#include "engine/backend/cases.h"

enum { BACKENDS = 4 };

struct quartet {
    struct team *team;
    struct backend *all[BACKENDS]; /* float loops, double loops, fast on two threads, fast on one */
};

static inline int quartet_setup(void **state)
{
    struct quartet *q = calloc(1, sizeof *q);
    struct error error;
    if (q == NULL || team_new(2, &q->team, &error) != STATUS_OK) return -1;
    if (backend_reference_new(false, NULL, &q->all[0], &error) != STATUS_OK) return -1;
    if (backend_reference_new(true, NULL, &q->all[1], &error) != STATUS_OK) return -1;
    if (backend_cpu_new(q->team, &q->all[2], &error) != STATUS_OK) return -1;
    if (backend_cpu_new(NULL, &q->all[3], &error) != STATUS_OK) return -1;
    *state = q;
    return 0;
}

static inline int quartet_teardown(void **state)
{
    struct quartet *q = *state;
    for (int i = 0; i < BACKENDS; i++) backend_free(q->all[i]);
    team_free(q->team);
    free(q);
    return 0;
}

static inline void *bytes_new(struct world *world, const void *from, int64_t bytes)
{
    const struct matrix m = world_zeros(world, 1, backend_elements(world->backend, bytes), 0);
    if (from != NULL) world->backend->ops->write_bytes(world->backend, m.data, from, (size_t)bytes);
    return m.data;
}

static inline void bytes_read(struct world *world, const void *from, void *to, int64_t bytes)
{
    struct error error;
    world->backend->ops->read_bytes(world->backend, from, to, (size_t)bytes);
    if (world->backend->ops->sync(world->backend, &error) != STATUS_OK) fail_msg("%s", error.detail);
    show_bits(world, "bytes", to, (size_t)bytes, bytes);
}

#endif
