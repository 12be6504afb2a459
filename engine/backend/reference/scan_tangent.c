/* scan_tangent.c: the tangents of scan.c; a dot means _t.
 *
 *   delta. = softplus' (step. + step_bias.);  A. = A a_log.;  a. = a (delta. A + delta A.)
 *   s._t = a._t s_{t-1} + a_t s._{t-1} + (delta. x + delta x.) B + delta x B.
 *   y._t = sum_n s. C + s C. + skip. x + skip x.
 *   g._t = dy. C + dy C. + a._{t+1} g_{t+1} + a_{t+1} g._{t+1}
 *   dC. += dy. s + dy s.;  dB. += g. delta x + g (delta x).
 *   w = sum_n g B;  dx. = skip. dy + skip dy. + delta. w + delta w.
 *   e = g a s_{t-1};  ddelta. = x. w + x w. + sum_n e. A + e A.
 *   da_log. += sum_t A. e delta + A e. delta + A e delta.
 *   dskip. += sum_t dy. x + dy x.;  dstep. = ddelta. softplus' + ddelta softplus'' (step. + step_bias.)
 * In double. */
#include "backend/reference/scan.h"

/* The values of a row that a channel's states need, with their tangents. */
struct row {
    double delta, delta_t, x, x_t;
};

static double parameter(struct matrix m, const struct scan_position *at)
{
    return m.data != NULL ? (double)row_of(m, 0)[at->head] : 0;
}

static void rows_fill(const struct scan_args *args, const struct scan_position *at, struct row *rows)
{
    for (int64_t i = 0; i < at->count; i++) {
        const struct scan_step step = scan_step(args, at, i);
        rows[i] = (struct row){
            .delta = step.value,
            .delta_t = step.slope * scan_step_tangent(args, at, i),
            .x = (double)row_of(args->x, at->first + i)[at->channel],
            .x_t = (double)row_of(args->x_t, at->first + i)[at->channel],
        };
    }
}

/* A value with its tangent. */
struct pair {
    double value, tangent;
};

static struct pair decay_of(const struct scan_args *args, const struct scan_position *at, int64_t n)
{
    const double a = -exp((double)*scan_decay(args->a_log, args, at, n));
    return (struct pair){a, args->a_log_t.data != NULL ? a * (double)*scan_decay(args->a_log_t, args, at, n) : 0};
}

static struct pair factor_of(const struct row *row, struct pair a)
{
    const double factor = exp(row->delta * a.value);
    return (struct pair){factor, factor * (row->delta_t * a.value + row->delta * a.tangent)};
}

static struct pair b_of(const struct scan_args *args, const struct scan_position *at, int64_t i, int64_t n)
{
    return (struct pair){(double)*scan_b(args->bc, args, at, i, n), (double)*scan_b(args->bc_t, args, at, i, n)};
}

static struct pair c_of(const struct scan_args *args, const struct scan_position *at, int64_t i, int64_t n)
{
    return (struct pair){(double)*scan_c(args->bc, args, at, i, n), (double)*scan_c(args->bc_t, args, at, i, n)};
}

static struct pair product(struct pair a, struct pair b)
{
    return (struct pair){a.value * b.value, a.value * b.tangent + a.tangent * b.value};
}

static struct pair sum(struct pair a, struct pair b)
{
    return (struct pair){a.value + b.value, a.tangent + b.tangent};
}

static struct pair input_of(const struct row *row)
{
    return product((struct pair){row->delta, row->delta_t}, (struct pair){row->x, row->x_t});
}

static struct pair state_before(const struct scan_args *args, const struct scan_position *at, int64_t n)
{
    if (at->first == at->start) return (struct pair){0, 0};
    return (struct pair){(double)*scan_kept(args->kept, args, at, n), (double)*scan_kept(args->kept_t, args, at, n)};
}

static void tangent_state(const struct scan_args *args, const struct scan_position *at, const struct row *rows,
                          int64_t n, struct pair *state, double *y_t)
{
    const struct pair a = decay_of(args, at, n);
    struct pair s = *state;
    if (at->first > at->start) *scan_kept(args->kept_t, args, at, n) = (real)s.tangent;
    for (int64_t i = 0; i < at->count; i++) {
        s = sum(product(factor_of(&rows[i], a), s), product(input_of(&rows[i]), b_of(args, at, i, n)));
        y_t[i] += product(s, c_of(args, at, i, n)).tangent;
    }
    *state = s;
}

static void tangent_channel(const struct scan_args *args, int64_t start, int64_t end, int64_t channel)
{
    struct scan_position at = scan_position(args, start, channel);
    const double skip = parameter(args->skip, &at), skip_t = parameter(args->skip_t, &at);
    struct pair states[SCAN_STATES] = {{0, 0}};
    struct row rows[SCAN_CHUNK];
    double y_t[SCAN_CHUNK];
    for (at.first = start; at.first < end; at.first += SCAN_CHUNK) {
        at.count = scan_count(at.first, end);
        rows_fill(args, &at, rows);
        for (int64_t i = 0; i < at.count; i++) y_t[i] = skip * rows[i].x_t + skip_t * rows[i].x;
        for (int64_t n = 0; n < args->states; n++) tangent_state(args, &at, rows, n, &states[n], y_t);
        for (int64_t i = 0; i < at.count; i++) row_of(args->y_t, at.first + i)[channel] = (real)y_t[i];
    }
}

void REFERENCE(scan_tangent)(struct backend *backend, const struct scan_args *args)
{
    (void)backend;
    for (int64_t b = 0; b < args->batch->sequences; b++)
        for (int64_t c = 0; c < args->x.columns; c++)
            tangent_channel(args, args->batch->starts[b], args->batch->starts[b + 1], c);
}

/* A channel's sums over the states, by row of the chunk: w = sum_n g B, and the decay's part of ddelta. */
struct chunk {
    struct row rows[SCAN_CHUNK];
    struct pair dy[SCAN_CHUNK], w[SCAN_CHUNK], decayed[SCAN_CHUNK];
};

static void backward_state(const struct scan_args *args, const struct scan_position *at, int64_t n, struct pair *carry,
                           struct chunk *chunk)
{
    const struct pair a = decay_of(args, at, n);
    struct pair before[SCAN_CHUNK], s = state_before(args, at, n), g = *carry;
    double da_t = 0;
    for (int64_t i = 0; i < at->count; i++) {
        before[i] = product(factor_of(&chunk->rows[i], a), s);
        s = sum(before[i], product(input_of(&chunk->rows[i]), b_of(args, at, i, n)));
    }
    for (int64_t i = at->count - 1; i >= 0; i--) {
        const struct row *row = &chunk->rows[i];
        const struct pair b = b_of(args, at, i, n), input = input_of(row), delta = {row->delta, row->delta_t};
        s = sum(before[i], product(input, b));
        g = sum(g, product(chunk->dy[i], c_of(args, at, i, n)));
        const struct pair db = product(g, input), dc = product(chunk->dy[i], s), e = product(product(g, before[i]), a);
        *scan_b(args->dbc, args, at, i, n) += (real)db.value;
        *scan_b(args->dbc_t, args, at, i, n) += (real)db.tangent;
        *scan_c(args->dbc, args, at, i, n) += (real)dc.value;
        *scan_c(args->dbc_t, args, at, i, n) += (real)dc.tangent;
        chunk->w[i] = sum(chunk->w[i], product(g, b));
        chunk->decayed[i] = sum(chunk->decayed[i], e);
        da_t += product(e, delta).tangent;
        g = product(g, factor_of(row, a));
    }
    *carry = g;
    if (args->da_log_t.data != NULL) *scan_decay(args->da_log_t, args, at, n) += (real)da_t;
}

/* Stores the gradients from the chunk's sums; returns the tangent of the gradient of step_bias. */
static double chunk_store(const struct scan_args *args, const struct scan_position *at, const struct chunk *chunk)
{
    const struct pair skip = {parameter(args->skip, at), parameter(args->skip_t, at)};
    double bias_t = 0;
    for (int64_t i = 0; i < at->count; i++) {
        const struct row *row = &chunk->rows[i];
        const struct scan_step step = scan_step(args, at, i);
        const struct pair x = {row->x, row->x_t}, delta = {row->delta, row->delta_t};
        const struct pair dx = sum(product(skip, chunk->dy[i]), product(delta, chunk->w[i]));
        const struct pair ddelta = sum(product(x, chunk->w[i]), chunk->decayed[i]);
        const struct pair dstep =
            product(ddelta, (struct pair){step.slope, step.curve * scan_step_tangent(args, at, i)});
        row_of(args->dx, at->first + i)[at->channel] = (real)dx.value;
        row_of(args->dx_t, at->first + i)[at->channel] = (real)dx.tangent;
        row_of(args->dstep, at->first + i)[at->head] += (real)dstep.value;
        row_of(args->dstep_t, at->first + i)[at->head] += (real)dstep.tangent;
        bias_t += dstep.tangent;
    }
    return bias_t;
}

static void backward_channel(const struct scan_args *args, int64_t start, int64_t end, int64_t channel)
{
    struct scan_position at = scan_position(args, start, channel);
    struct pair carry[SCAN_STATES] = {{0, 0}};
    double dskip_t = 0, dbias_t = 0;
    struct chunk chunk;
    for (at.first = scan_last(start, end); at.first >= start; at.first -= SCAN_CHUNK) {
        at.count = scan_count(at.first, end);
        rows_fill(args, &at, chunk.rows);
        for (int64_t i = 0; i < at.count; i++) {
            const struct row *row = &chunk.rows[i];
            chunk.dy[i] = (struct pair){(double)row_of(args->dy, at.first + i)[channel],
                                        (double)row_of(args->dy_t, at.first + i)[channel]};
            chunk.w[i] = chunk.decayed[i] = (struct pair){0, 0};
            dskip_t += product(chunk.dy[i], (struct pair){row->x, row->x_t}).tangent;
        }
        for (int64_t n = 0; n < args->states; n++) backward_state(args, &at, n, &carry[n], &chunk);
        dbias_t += chunk_store(args, &at, &chunk);
    }
    if (args->dskip_t.data != NULL) row_of(args->dskip_t, 0)[at.head] += (real)dskip_t;
    if (args->dstep_bias_t.data != NULL) row_of(args->dstep_bias_t, 0)[at.head] += (real)dbias_t;
}

void REFERENCE(scan_backward_tangent)(struct backend *backend, const struct scan_args *args)
{
    const struct matrix sums[] = {args->dstep, args->dbc, args->dstep_t, args->dbc_t};
    for (int i = 0; i < 4; i++) REFERENCE(fill)(backend, sums[i], 0);
    for (int64_t b = 0; b < args->batch->sequences; b++)
        for (int64_t c = 0; c < args->x.columns; c++)
            backward_channel(args, args->batch->starts[b], args->batch->starts[b + 1], c);
}
