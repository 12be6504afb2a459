/* scan.c: the selective state space and its backward pass (backend.h, scan_args), channel by channel, state by state.
 *
 *   a_t = exp(delta_t A);  s_t = a_t s_{t-1} + delta_t x_t B_t;  y_t = sum_n s_t C_t + skip x_t
 *   g_t = dy_t C_t + a_{t+1} g_{t+1}                     the gradient of s_t
 *   dC_t += dy_t s_t;  dB_t += g_t delta_t x_t           sums over the channels of a group
 *   dx_t = skip dy_t + delta_t sum_n g_t B_t
 *   ddelta_t = x_t sum_n g_t B_t + sum_n g_t a_t s_{t-1} A
 *   dstep_t = ddelta_t softplus'                         sums over the channels of a head
 *   da_log += A sum_t g_t a_t s_{t-1} delta_t;  dskip += sum_t dy_t x_t;  dstep_bias += sum_t dstep_t
 *
 * States within a chunk are recomputed from the state kept before it. In double. */
#include "backend/reference/scan.h"

static void forward_state(const struct scan_args *args, const struct scan_position *at, const double *delta, int64_t n,
                          double *state, double *y)
{
    const double a = -exp((double)*scan_decay(args->a_log, args, at, n));
    double s = *state;
    if (args->kept.data != NULL && at->first > at->start) *scan_kept(args->kept, args, at, n) = (real)s;
    for (int64_t i = 0; i < at->count; i++) {
        const double x = (double)row_of(args->x, at->first + i)[at->channel];
        s = exp(delta[i] * a) * s + delta[i] * x * (double)*scan_b(args->bc, args, at, i, n);
        y[i] += s * (double)*scan_c(args->bc, args, at, i, n);
    }
    *state = s;
}

static void forward_channel(const struct scan_args *args, int64_t b, int64_t channel)
{
    const int64_t start = args->batch->starts[b], end = args->batch->starts[b + 1];
    struct scan_position at = scan_position(args, start, channel);
    double states[SCAN_STATES] = {0}, delta[SCAN_CHUNK], y[SCAN_CHUNK];
    for (int64_t n = 0; args->initial.data != NULL && n < args->states; n++)
        states[n] = (double)row_of(args->initial, b)[n * args->x.columns + channel];
    for (at.first = start; at.first < end; at.first += SCAN_CHUNK) {
        at.count = scan_count(at.first, end);
        for (int64_t i = 0; i < at.count; i++) {
            delta[i] = scan_step(args, &at, i).value;
            y[i] = (double)row_of(args->skip, 0)[at.head] * (double)row_of(args->x, at.first + i)[channel];
        }
        for (int64_t n = 0; n < args->states; n++) forward_state(args, &at, delta, n, &states[n], y);
        for (int64_t i = 0; i < at.count; i++) row_of(args->y, at.first + i)[channel] = (real)y[i];
    }
    for (int64_t n = 0; args->final.data != NULL && n < args->states; n++)
        row_of(args->final, b)[n * args->x.columns + channel] = (real)states[n];
}

void REFERENCE(scan_forward)(struct backend *backend, const struct scan_args *args)
{
    (void)backend;
    for (int64_t b = 0; b < args->batch->sequences; b++)
        for (int64_t c = 0; c < args->x.columns; c++) forward_channel(args, b, c);
}

/* A channel's sums over the states, by row of the chunk. */
struct chunk_gradients {
    double delta[SCAN_CHUNK], dx[SCAN_CHUNK], ddelta[SCAN_CHUNK];
};

static void backward_state(const struct scan_args *args, const struct scan_position *at, int64_t n, double *carry,
                           struct chunk_gradients *to)
{
    const double a = -exp((double)*scan_decay(args->a_log, args, at, n));
    double before[SCAN_CHUNK], s = at->first > at->start ? (double)*scan_kept(args->kept, args, at, n) : 0, g = *carry,
                               da = 0;
    for (int64_t i = 0; i < at->count; i++) { /* before: a_t s_{t-1} */
        before[i] = exp(to->delta[i] * a) * s;
        s = before[i] + to->delta[i] * (double)row_of(args->x, at->first + i)[at->channel] *
                            (double)*scan_b(args->bc, args, at, i, n);
    }
    for (int64_t i = at->count - 1; i >= 0; i--) {
        const double x = (double)row_of(args->x, at->first + i)[at->channel], delta = to->delta[i];
        const double dy = (double)row_of(args->dy, at->first + i)[at->channel],
                     b = (double)*scan_b(args->bc, args, at, i, n);
        g += dy * (double)*scan_c(args->bc, args, at, i, n);
        *scan_c(args->dbc, args, at, i, n) += (real)(dy * (before[i] + delta * x * b));
        *scan_b(args->dbc, args, at, i, n) += (real)(g * delta * x);
        to->dx[i] += delta * g * b;
        to->ddelta[i] += x * g * b + g * before[i] * a;
        da += g * before[i] * delta;
        g *= exp(delta * a);
    }
    *carry = g;
    if (args->da_log.data != NULL) *scan_decay(args->da_log, args, at, n) += (real)(da * a);
}

static void backward_channel(const struct scan_args *args, int64_t start, int64_t end, int64_t channel)
{
    struct scan_position at = scan_position(args, start, channel);
    const double skip = (double)row_of(args->skip, 0)[at.head];
    double carry[SCAN_STATES] = {0}, dskip = 0, dbias = 0;
    struct chunk_gradients to;
    for (at.first = scan_last(start, end); at.first >= start; at.first -= SCAN_CHUNK) {
        at.count = scan_count(at.first, end);
        for (int64_t i = 0; i < at.count; i++) {
            const double dy = (double)row_of(args->dy, at.first + i)[channel];
            to.delta[i] = scan_step(args, &at, i).value;
            to.dx[i] = skip * dy;
            to.ddelta[i] = 0;
            dskip += dy * (double)row_of(args->x, at.first + i)[channel];
        }
        for (int64_t n = 0; n < args->states; n++) backward_state(args, &at, n, &carry[n], &to);
        for (int64_t i = 0; i < at.count; i++) {
            const double dstep = to.ddelta[i] * scan_step(args, &at, i).slope;
            row_of(args->dx, at.first + i)[channel] = (real)to.dx[i];
            row_of(args->dstep, at.first + i)[at.head] += (real)dstep;
            dbias += dstep;
        }
    }
    if (args->dskip.data != NULL) row_of(args->dskip, 0)[at.head] += (real)dskip;
    if (args->dstep_bias.data != NULL) row_of(args->dstep_bias, 0)[at.head] += (real)dbias;
}

void REFERENCE(scan_backward)(struct backend *backend, const struct scan_args *args)
{
    REFERENCE(fill)(backend, args->dstep, 0);
    REFERENCE(fill)(backend, args->dbc, 0);
    for (int64_t b = 0; b < args->batch->sequences; b++)
        for (int64_t c = 0; c < args->x.columns; c++)
            backward_channel(args, args->batch->starts[b], args->batch->starts[b + 1], c);
}
