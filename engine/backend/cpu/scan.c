/* scan.c: the selective state space by strips of channels, as many as a vector has lanes.
 *
 * Forward tasks: (sequence, strip). In the backward pass the gradients of B and C are sums over all channels of a
 * group. It goes chunk by chunk from a sequence's end; each task takes some strips (all of a head, because they share
 * its step size) and sums into its own rows of scratch, which are then added up in order. Between chunks, dkept holds
 * the gradient of the state. */
#include "backend/cpu/cpu.h"

struct scan {
    const struct kernels *kernels;
    const struct scan_args *args;
    int64_t width;       /* channels of a group or a head, whose border no strip crosses */
    int64_t strips;      /* strips in as many channels */
    bool own_heads;      /* each channel is a head */
    bool tangent;        /* forward: scan_tangent; backward: scan_backward_tangent */
    float *partials;     /* backward: each task's sums, [chunk, columns] */
    int64_t columns;     /* 2 N, twice that with tangents: dB, dC, and behind all rows of these their tangents */
    int64_t items, step; /* heads or strips of a group; number of them in a task */
    int64_t start, end, first, count, group; /* the sequence, and the chunk's rows */
};

static struct scan scan_plan(struct backend *backend, const struct scan_args *args, bool tangent)
{
    const struct cpu *cpu = cpu_of(backend);
    const int64_t channels = args->x.columns / args->heads;
    const int64_t width = channels == 1 ? args->x.columns / args->groups : channels;
    return (struct scan){
        .kernels = cpu->kernels,
        .args = args,
        .width = width,
        .strips = ceil_divide(width, cpu->kernels->lanes),
        .own_heads = channels == 1,
        .tangent = tangent,
        .partials = cpu->partials,
        .columns = 2 * args->states * (tangent ? 2 : 1),
    };
}

/* Strip `index` of the `part`th run of `width` channels. */
static struct scan_strip strip_of(const struct scan *scan, int64_t part, int64_t index)
{
    const int64_t first = index * scan->kernels->lanes;
    return (struct scan_strip){
        .args = scan->args,
        .start = scan->start,
        .end = scan->end,
        .first = scan->first,
        .channel = part * scan->width + first,
        .width = smaller(scan->kernels->lanes, scan->width - first),
    };
}

static void forward_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct scan *scan = context;
    const struct batch *batch = scan->args->batch;
    const int64_t b = task % batch->sequences, strip_index = task / batch->sequences;
    struct scan_strip strip = strip_of(scan, strip_index / scan->strips, strip_index % scan->strips);
    strip.start = strip.first = batch->starts[b];
    strip.end = batch->starts[b + 1];
    strip.initial = scan->args->initial.data != NULL ? float_row(scan->args->initial, b) : NULL;
    strip.final = scan->args->final.data != NULL ? float_row(scan->args->final, b) : NULL;
    (scan->tangent ? scan->kernels->scan_tangent : scan->kernels->scan_forward)(&strip);
}

static void forward(struct backend *backend, const struct scan_args *args, bool tangent)
{
    struct scan scan = scan_plan(backend, args, tangent);
    const int64_t parts = args->x.columns / scan.width;
    team_run(backend->team, parts * scan.strips * args->batch->sequences, forward_task, &scan);
}

void cpu_scan_forward(struct backend *backend, const struct scan_args *args)
{
    forward(backend, args, false);
}

void cpu_scan_tangent(struct backend *backend, const struct scan_args *args)
{
    forward(backend, args, true);
}

static float *task_sums(const struct scan *scan, int64_t task)
{
    return scan->partials + task * SCAN_CHUNK * scan->columns;
}

static void backward_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct scan *scan = context;
    const int64_t states = scan->args->states, per_item = scan->own_heads ? 1 : scan->strips;
    float *dbc = task_sums(scan, task), *dbc_t = dbc + SCAN_CHUNK * 2 * states;
    scan->kernels->fill(dbc, scan->count * 2 * states, 0);
    if (scan->tangent) scan->kernels->fill(dbc_t, scan->count * 2 * states, 0);
    for (int64_t item = task * scan->step; item < smaller(scan->items, (task + 1) * scan->step); item++)
        for (int64_t i = 0; i < per_item; i++) {
            const struct scan_strip strip = scan->own_heads ? strip_of(scan, scan->group, item)
                                                            : strip_of(scan, scan->group * scan->items + item, i);
            if (scan->tangent)
                scan->kernels->scan_backward_tangent(&strip, dbc, dbc_t, i == 0);
            else
                scan->kernels->scan_backward(&strip, dbc, i == 0);
        }
}

/* Adds the tasks' sums for row i of the chunk to the group's columns of `to`; `offset` is their place in the tasks'
 * rows. */
static void row_collect(const struct scan *scan, struct matrix to, int64_t i, int64_t offset)
{
    const int64_t states = scan->args->states;
    for (int64_t task = 0; task < ceil_divide(scan->items, scan->step); task++)
        for (int half = 0; half < 2; half++) {
            const float *from = task_sums(scan, task) + offset + (2 * i + half) * states;
            float *row = float_row(to, scan->first + i) + (half * scan->args->groups + scan->group) * states;
            scan->kernels->add(row, from, states, 1, task == 0 ? 0 : 1);
        }
}

static void collect_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct scan *scan = context;
    row_collect(scan, scan->args->dbc, i, 0);
    if (scan->tangent) row_collect(scan, scan->args->dbc_t, i, SCAN_CHUNK * 2 * scan->args->states);
}

static void backward(struct backend *backend, const struct scan_args *args, bool tangent)
{
    struct scan scan = scan_plan(backend, args, tangent);
    const int64_t space = 2 * CPU_PARTIALS * CPU_LEAST_PARTIAL / (SCAN_CHUNK * scan.columns);
    scan.items = scan.own_heads ? scan.strips : args->heads / args->groups;
    scan.step = ceil_divide(scan.items, smaller(CPU_PARTIALS, space));
    for (int64_t b = 0; b < args->batch->sequences; b++) {
        scan.start = args->batch->starts[b];
        scan.end = args->batch->starts[b + 1];
        scan.first = scan.start + (scan.end - scan.start - 1) / SCAN_CHUNK * SCAN_CHUNK;
        for (; scan.first >= scan.start; scan.first -= SCAN_CHUNK) {
            scan.count = smaller(SCAN_CHUNK, scan.end - scan.first);
            for (scan.group = 0; scan.group < args->groups; scan.group++) {
                team_run(backend->team, ceil_divide(scan.items, scan.step), backward_task, &scan);
                team_run(backend->team, scan.count, collect_task, &scan);
            }
        }
    }
}

void cpu_scan_backward(struct backend *backend, const struct scan_args *args)
{
    backward(backend, args, false);
}

void cpu_scan_backward_tangent(struct backend *backend, const struct scan_args *args)
{
    backward(backend, args, true);
}
