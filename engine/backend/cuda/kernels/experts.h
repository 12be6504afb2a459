/* experts.h: kernels of reference/experts.c, which has the equations, over the layout of backend/routes.h. ROUTE_LANES
 * threads take a row of logits and divide its experts among them. Visits are sorted in tiles of ROUTE_TILE: count each
 * tile's visits by expert, compute where each of these runs begins, then each thread places the visits of its experts
 * in order. No sum and no place depends on the order of threads or blocks. */
#ifndef BACKEND_CUDA_KERNELS_EXPERTS_H
#define BACKEND_CUDA_KERNELS_EXPERTS_H

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/loss.h"
#include "backend/routes.h"

/* The address of a part of the routes; the functions of routes.h are for the host. */
DEVICE float *routes_part_of(struct matrix routes, enum routes_part part, int64_t per_token)
{
    return (float *)routes.data + (int64_t)part * routes.rows * per_token;
}

/* The row of a thread; the last block may have threads beyond the last row. */
DEVICE int64_t route_row(const struct launch *grid, int thread)
{
    return grid->block * ROUTE_ROWS + thread / ROUTE_LANES;
}

/* Index of expert e among the first `count` chosen of row t, or -1. */
DEVICE int64_t chosen_as(const struct route_args *route, int64_t t, int64_t e, int64_t count)
{
    const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, route->per_token) + t * route->per_token;
    for (int64_t j = 0; j < count; j++)
        if ((int64_t)chosen[j] == e) return j;
    return -1;
}

/* log of the sum of exponentials over S; every thread gets that of its row. */
DEVICE void lanes_log_sum(const struct launch *grid, const struct route_args *route, double *sum, double *shared)
{
    const int64_t k = route->per_token;
    const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, k);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        sum[MINE(thread)] = 0;
        if (t >= route->logits.rows) continue;
        const float *z = row_of(route->logits, t);
        const double largest = (double)z[(int64_t)chosen[t * k]];
        for (int64_t e = thread % ROUTE_LANES; e < route->logits.columns; e += ROUTE_LANES)
            if (!route->normalise || chosen_as(route, t, e, k) >= 0) sum[MINE(thread)] += exp((double)z[e] - largest);
    }
    lanes_sum(grid, sum, shared, ROUTE_LANES);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        if (t < route->logits.rows)
            sum[MINE(thread)] = (double)row_of(route->logits, t)[(int64_t)chosen[t * k]] + log(sum[MINE(thread)]);
    }
}

/* P of expert e, the j-th chosen (-1: not chosen). */
DEVICE double route_share(const struct route_args *route, int64_t t, int64_t e, int64_t j, double log_sum)
{
    return route->normalise && j < 0 ? 0 : exp((double)row_of(route->logits, t)[e] - log_sum);
}

/* Chooses the largest logit that is not chosen yet, the first of equals; NaN wins only if it is the first one left (as
 * in loss.h). */
DEVICE void choose_next(const struct launch *grid, const struct route_args *route, int64_t j, int64_t *best)
{
    const int64_t k = route->per_token, experts = route->logits.columns;
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        int64_t found = -1;
        for (int64_t e = thread % ROUTE_LANES; e < experts && t < route->logits.rows; e += ROUTE_LANES)
            if (chosen_as(route, t, e, j) < 0 && (found < 0 || stands_before(row_of(route->logits, t), e, found)))
                found = e;
        best[thread] = found;
    }
    for (int half = ROUTE_LANES / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % ROUTE_LANES >= half || best[thread + half] < 0) continue;
            if (best[thread] < 0 ||
                stands_before(row_of(route->logits, route_row(grid, thread)), best[thread + half], best[thread]))
                best[thread] = best[thread + half];
        }
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        if (thread % ROUTE_LANES > 0 || t >= route->logits.rows) continue;
        int64_t first = 0;
        while (chosen_as(route, t, first, j) >= 0) first++;
        routes_part_of(route->routes, ROUTES_EXPERT, k)[t * k + j] =
            (float)(isnan(row_of(route->logits, t)[first]) ? first : best[thread]);
    }
}

KERNEL(route_choose, route_kernel_args)
{
    SHARED int64_t best[KERNEL_THREADS];
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, log_sum);
    const struct route_args *route = &args->route;
    const int64_t k = route->per_token;
    for (int64_t j = 0; j < k; j++) choose_next(grid, route, j, best);
    lanes_log_sum(grid, route, log_sum, shared);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, k) + t * k;
        for (int64_t j = thread % ROUTE_LANES; j < k && t < route->logits.rows; j += ROUTE_LANES)
            row_of(route->weights, t)[j] = (float)route_share(route, t, (int64_t)chosen[j], j, log_sum[MINE(thread)]);
    }
}

/* Loads the experts of a tile's visits; returns the number of visits. */
DEVICE int64_t visits_load(const struct launch *grid, const struct route_args *route, int32_t *tile)
{
    const int64_t first = grid->block * ROUTE_TILE,
                  count = least(ROUTE_TILE, route->logits.rows * route->per_token - first);
    const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, route->per_token) + first;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < count; i += KERNEL_THREADS) tile[i] = (int32_t)chosen[i];
    }
    return count;
}

KERNEL(route_count, route_kernel_args)
{
    SHARED int32_t tile[ROUTE_TILE];
    const int64_t experts = args->route.logits.columns, count = visits_load(grid, &args->route, tile);
    EACH_THREAD(thread)
    {
        for (int64_t e = thread; e < experts; e += KERNEL_THREADS) {
            int32_t visits = 0;
            for (int64_t i = 0; i < count; i++) visits += tile[i] == (int32_t)e;
            args->counts[grid->block * experts + e] = visits;
        }
    }
}

/* One block. The counts of a tile become the expert's visits in earlier tiles; the last row becomes those in all
 * tiles. */
KERNEL(route_starts, route_kernel_args)
{
    const int64_t experts = args->route.logits.columns;
    float *starts = routes_part_of(args->route.routes, ROUTES_START, args->route.per_token);
    int32_t *totals = args->counts + args->tiles * experts;
    EACH_THREAD(thread)
    {
        for (int64_t e = thread; e < experts; e += KERNEL_THREADS) {
            int32_t before = 0;
            for (int64_t tile = 0; tile < args->tiles; tile++) {
                const int32_t here = args->counts[tile * experts + e];
                args->counts[tile * experts + e] = before;
                before += here;
            }
            totals[e] = before;
        }
    }
    EACH_THREAD(thread)
    {
        for (int64_t e = thread; e <= experts; e += KERNEL_THREADS) {
            int64_t first = 0;
            for (int64_t i = 0; i < e; i++) first += totals[i];
            starts[e] = (float)first;
        }
    }
}

KERNEL(route_place, route_kernel_args)
{
    SHARED int32_t tile[ROUTE_TILE];
    const struct route_args *route = &args->route;
    const int64_t k = route->per_token, experts = route->logits.columns, count = visits_load(grid, route, tile);
    const float *starts = routes_part_of(route->routes, ROUTES_START, k);
    float *rows = routes_part_of(route->routes, ROUTES_ROW, k),
          *visits = routes_part_of(route->routes, ROUTES_VISIT, k);
    EACH_THREAD(thread)
    {
        for (int64_t e = thread; e < experts; e += KERNEL_THREADS) {
            int64_t row = (int64_t)starts[e] + args->counts[grid->block * experts + e];
            for (int64_t i = 0; i < count; i++) {
                if (tile[i] != (int32_t)e) continue;
                rows[grid->block * ROUTE_TILE + i] = (float)row;
                visits[row++] = (float)(grid->block * ROUTE_TILE + i);
            }
        }
    }
}

KERNEL(route_backward, route_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, log_sum);
    PRIVATE(double, m);
    const struct route_args *route = &args->route;
    const int64_t k = route->per_token;
    lanes_log_sum(grid, route, log_sum, shared);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, k) + t * k;
        m[MINE(thread)] = 0;
        for (int64_t j = thread % ROUTE_LANES; j < k && t < route->logits.rows; j += ROUTE_LANES)
            m[MINE(thread)] += route_share(route, t, (int64_t)chosen[j], j, log_sum[MINE(thread)]) *
                               (double)row_of(route->dweights, t)[j];
    }
    lanes_sum(grid, m, shared, ROUTE_LANES);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        for (int64_t e = thread % ROUTE_LANES; e < route->logits.columns && t < route->logits.rows; e += ROUTE_LANES) {
            const int64_t j = chosen_as(route, t, e, k);
            const double d = j < 0 ? 0 : (double)row_of(route->dweights, t)[j];
            put(row_of(route->dlogits, t) + e,
                route_share(route, t, e, j, log_sum[MINE(thread)]) * (d - m[MINE(thread)]), route->accumulate);
        }
    }
}

/* The sum of P l. over the experts; every thread gets that of its row. */
DEVICE void lanes_mean_tangent(const struct launch *grid, const struct route_args *route, const double *log_sum,
                               double *mean, double *shared)
{
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        mean[MINE(thread)] = 0;
        for (int64_t e = thread % ROUTE_LANES; e < route->logits.columns && t < route->logits.rows; e += ROUTE_LANES)
            mean[MINE(thread)] +=
                route_share(route, t, e, chosen_as(route, t, e, route->per_token), log_sum[MINE(thread)]) *
                (double)row_of(route->logits_t, t)[e];
    }
    lanes_sum(grid, mean, shared, ROUTE_LANES);
}

KERNEL(route_tangent, route_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, log_sum);
    PRIVATE(double, mean);
    const struct route_args *route = &args->route;
    const int64_t k = route->per_token;
    lanes_log_sum(grid, route, log_sum, shared);
    lanes_mean_tangent(grid, route, log_sum, mean, shared);
    EACH_THREAD(thread)
    {
        const int64_t t = route_row(grid, thread);
        const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, k) + t * k;
        for (int64_t j = thread % ROUTE_LANES; j < k && t < route->logits.rows; j += ROUTE_LANES) {
            const int64_t e = (int64_t)chosen[j];
            row_of(route->weights_t, t)[j] = (float)(route_share(route, t, e, j, log_sum[MINE(thread)]) *
                                                     ((double)row_of(route->logits_t, t)[e] - mean[MINE(thread)]));
        }
    }
}

KERNEL(route_backward_tangent, route_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, log_sum);
    PRIVATE(double, mean);
    PRIVATE(double, m);
    PRIVATE(double, m_t);
    const struct route_args *route = &args->route;
    const int64_t k = route->per_token;
    lanes_log_sum(grid, route, log_sum, shared);
    lanes_mean_tangent(grid, route, log_sum, mean, shared);
    EACH_THREAD(thread)
    {
        const int me = MINE(thread);
        const int64_t t = route_row(grid, thread);
        const float *chosen = routes_part_of(route->routes, ROUTES_EXPERT, k) + t * k;
        m[me] = m_t[me] = 0;
        for (int64_t j = thread % ROUTE_LANES; j < k && t < route->logits.rows; j += ROUTE_LANES) {
            const int64_t e = (int64_t)chosen[j];
            const double p = route_share(route, t, e, j, log_sum[me]), d = (double)row_of(route->dweights, t)[j];
            m[me] += p * d;
            m_t[me] += p * ((double)row_of(route->logits_t, t)[e] - mean[me]) * d +
                       p * (double)row_of(route->dweights_t, t)[j];
        }
    }
    lanes_sum(grid, m, shared, ROUTE_LANES);
    lanes_sum(grid, m_t, shared, ROUTE_LANES);
    EACH_THREAD(thread)
    {
        const int me = MINE(thread);
        const int64_t t = route_row(grid, thread);
        for (int64_t e = thread % ROUTE_LANES; e < route->logits.columns && t < route->logits.rows; e += ROUTE_LANES) {
            const int64_t j = chosen_as(route, t, e, k);
            const double p = route_share(route, t, e, j, log_sum[me]),
                         p_t = p * ((double)row_of(route->logits_t, t)[e] - mean[me]);
            const double d = j < 0 ? 0 : (double)row_of(route->dweights, t)[j];
            const double d_t = j < 0 ? 0 : (double)row_of(route->dweights_t, t)[j];
            put(row_of(route->dlogits, t) + e, p * (d - m[me]), route->accumulate);
            put(row_of(route->dlogits_t, t) + e, p_t * (d - m[me]) + p * (d_t - m_t[me]), route->accumulate);
        }
    }
}

/* The weight of visit a. */
DEVICE double visit_weight(const struct experts_args *args, int64_t a)
{
    return args->weights.data == NULL ? 1 : (double)*element_of(args->weights, a);
}

KERNEL(experts_spread, experts_args)
{
    const float *visits = routes_part_of(args->routes, ROUTES_VISIT, args->per_token);
    EACH_ELEMENT(i, args->sorted.rows * args->sorted.columns)
    {
        const int64_t r = i / args->sorted.columns, c = i % args->sorted.columns, a = (int64_t)visits[r];
        put(row_of(args->sorted, r) + c, visit_weight(args, a) * (double)row_of(args->token, a / args->per_token)[c],
            args->accumulate);
    }
}

KERNEL(experts_collect, experts_args)
{
    const float *rows = routes_part_of(args->routes, ROUTES_ROW, args->per_token);
    EACH_ELEMENT(i, args->token.rows * args->token.columns)
    {
        const int64_t t = i / args->token.columns, c = i % args->token.columns;
        double sum = 0;
        for (int64_t a = t * args->per_token; a < (t + 1) * args->per_token; a++)
            sum += visit_weight(args, a) * (double)row_of(args->sorted, (int64_t)rows[a])[c];
        put(row_of(args->token, t) + c, sum, args->accumulate);
    }
}

/* One visit per row of lanes. */
KERNEL(experts_dot, experts_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const float *rows = routes_part_of(args->routes, ROUTES_ROW, args->per_token);
    const int64_t visits = args->token.rows * args->per_token;
    EACH_THREAD(thread)
    {
        const int64_t a = route_row(grid, thread);
        sum[MINE(thread)] = 0;
        if (a >= visits) continue;
        const float *x = row_of(args->token, a / args->per_token), *y = row_of(args->sorted, (int64_t)rows[a]);
        for (int64_t c = thread % ROUTE_LANES; c < args->token.columns; c += ROUTE_LANES)
            sum[MINE(thread)] += (double)x[c] * (double)y[c];
    }
    lanes_sum(grid, sum, shared, ROUTE_LANES);
    EACH_THREAD(thread)
    {
        const int64_t a = route_row(grid, thread);
        if (thread % ROUTE_LANES == 0 && a < visits) put(element_of(args->dot, a), sum[MINE(thread)], args->accumulate);
    }
}

#endif
