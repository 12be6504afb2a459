/* experts.c: the experts that each token visits, and rows sorted by expert (layout: backend.h, route_args and
 * experts_args).
 *   P = softmax of the logits over S: all experts, or the chosen ones alone (normalise);  w_j = P of the j-th chosen
 *   dl_e = P_e (D_e - m),  D_e = dw_j where e is the j-th chosen, else 0,  m = Σ P D
 *   P._e = P_e (l._e - Σ P l.),  w._j = P._e,  dl._e = P._e (D_e - m) + P_e (D._e - m.),  m. = Σ P. D + P D.
 * The choice of experts has no derivative. In double. */
#include "backend/reference/real.h"
#include "backend/routes.h"

#include <math.h>

static int64_t chosen_expert(const struct route_args *args, int64_t t, int64_t j)
{
    return routes_at(args->routes, ROUTES_EXPERT, args->per_token, t * args->per_token + j);
}

static bool is_chosen(const struct route_args *args, int64_t t, int64_t expert, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        if (chosen_expert(args, t, j) == expert) return true;
    return false;
}

/* The largest logit that is not chosen yet, the first of equals. */
static int64_t likeliest(const struct route_args *args, int64_t t, int64_t count)
{
    const real *logits = row_of(args->logits, t);
    int64_t best = -1;
    for (int64_t e = 0; e < args->logits.columns; e++)
        if ((best < 0 || logits[e] > logits[best]) && !is_chosen(args, t, e, count)) best = e;
    return best;
}

/* log Σ exp over S. */
static double row_log_sum(const struct route_args *args, int64_t t)
{
    const real *logits = row_of(args->logits, t);
    const double largest = (double)logits[chosen_expert(args, t, 0)];
    double sum = 0;
    if (args->normalise)
        for (int64_t j = 0; j < args->per_token; j++) sum += exp((double)logits[chosen_expert(args, t, j)] - largest);
    else
        for (int64_t e = 0; e < args->logits.columns; e++) sum += exp((double)logits[e] - largest);
    return largest + log(sum);
}

static void route_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct route_args *args = context;
    const real *logits = row_of(args->logits, t);
    for (int64_t j = 0; j < args->per_token; j++)
        routes_put(args->routes, ROUTES_EXPERT, args->per_token, t * args->per_token + j, likeliest(args, t, j));
    const double log_sum = row_log_sum(args, t);
    for (int64_t j = 0; j < args->per_token; j++)
        row_of(args->weights, t)[j] = (real)exp((double)logits[chosen_expert(args, t, j)] - log_sum);
}

/* A counting sort: rows of an expert become contiguous, in the order of their tokens. */
static void sort_by_expert(const struct route_args *args)
{
    const int64_t k = args->per_token, experts = args->logits.columns, visits = args->logits.rows * k;
    const struct matrix routes = args->routes;
    for (int64_t e = 0; e <= experts; e++) routes_put(routes, ROUTES_START, k, e, 0);
    for (int64_t a = 0; a < visits; a++) {
        const int64_t next = routes_at(routes, ROUTES_EXPERT, k, a) + 1;
        routes_put(routes, ROUTES_START, k, next, routes_at(routes, ROUTES_START, k, next) + 1);
    }
    for (int64_t e = 0; e < experts; e++)
        routes_put(routes, ROUTES_START, k, e + 1,
                   routes_at(routes, ROUTES_START, k, e) + routes_at(routes, ROUTES_START, k, e + 1));
    for (int64_t a = 0; a < visits; a++) { /* each start moves to the next expert's … */
        const int64_t expert = routes_at(routes, ROUTES_EXPERT, k, a), row = routes_at(routes, ROUTES_START, k, expert);
        routes_put(routes, ROUTES_START, k, expert, row + 1);
        routes_put(routes, ROUTES_ROW, k, a, row);
        routes_put(routes, ROUTES_VISIT, k, row, a);
    }
    for (int64_t e = experts; e > 0; e--) /* … and back */
        routes_put(routes, ROUTES_START, k, e, routes_at(routes, ROUTES_START, k, e - 1));
    routes_put(routes, ROUTES_START, k, 0, 0);
}

void REFERENCE(route_forward)(struct backend *backend, const struct route_args *args)
{
    struct route_args lent = *args;
    team_run(backend->team, args->logits.rows, route_row, &lent);
    sort_by_expert(args);
}

static void put(struct matrix to, int64_t t, int64_t c, double value, bool accumulate)
{
    real *out = row_of(to, t) + c;
    *out = accumulate ? *out + (real)value : (real)value;
}

/* One row's P and its sums. */
struct row {
    double log_sum, mean_t; /* Σ P l. */
    double m, m_t;
};

static double probability(const struct route_args *args, int64_t t, int64_t e, const struct row *row)
{
    if (args->normalise && !is_chosen(args, t, e, args->per_token)) return 0;
    return exp((double)row_of(args->logits, t)[e] - row->log_sum);
}

static double probability_tangent(const struct route_args *args, int64_t t, int64_t e, const struct row *row)
{
    return probability(args, t, e, row) * ((double)row_of(args->logits_t, t)[e] - row->mean_t);
}

static struct row row_begin(const struct route_args *args, int64_t t, bool tangents)
{
    struct row row = {.log_sum = row_log_sum(args, t)};
    for (int64_t e = 0; e < args->logits.columns && tangents; e++)
        row.mean_t += probability(args, t, e, &row) * (double)row_of(args->logits_t, t)[e];
    return row;
}

static void backward_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct route_args *args = context;
    struct row row = row_begin(args, t, false);
    for (int64_t j = 0; j < args->per_token; j++)
        row.m += probability(args, t, chosen_expert(args, t, j), &row) * (double)row_of(args->dweights, t)[j];
    for (int64_t e = 0; e < args->logits.columns; e++)
        put(args->dlogits, t, e, -probability(args, t, e, &row) * row.m, args->accumulate);
    for (int64_t j = 0; j < args->per_token; j++) {
        const int64_t e = chosen_expert(args, t, j);
        put(args->dlogits, t, e, probability(args, t, e, &row) * (double)row_of(args->dweights, t)[j], true);
    }
}

void REFERENCE(route_backward)(struct backend *backend, const struct route_args *args)
{
    struct route_args lent = *args;
    team_run(backend->team, args->logits.rows, backward_row, &lent);
}

static void tangent_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct route_args *args = context;
    const struct row row = row_begin(args, t, true);
    for (int64_t j = 0; j < args->per_token; j++)
        row_of(args->weights_t, t)[j] = (real)probability_tangent(args, t, chosen_expert(args, t, j), &row);
}

void REFERENCE(route_tangent)(struct backend *backend, const struct route_args *args)
{
    struct route_args lent = *args;
    team_run(backend->team, args->logits.rows, tangent_row, &lent);
}

static void backward_tangent_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct route_args *args = context;
    const real *dw = row_of(args->dweights, t), *dw_t = row_of(args->dweights_t, t);
    struct row row = row_begin(args, t, true);
    for (int64_t j = 0; j < args->per_token; j++) {
        const int64_t e = chosen_expert(args, t, j);
        const double p = probability(args, t, e, &row), p_t = probability_tangent(args, t, e, &row);
        row.m += p * (double)dw[j];
        row.m_t += p_t * (double)dw[j] + p * (double)dw_t[j];
    }
    for (int64_t e = 0; e < args->logits.columns; e++) {
        const double p = probability(args, t, e, &row), p_t = probability_tangent(args, t, e, &row);
        put(args->dlogits, t, e, -p * row.m, args->accumulate);
        put(args->dlogits_t, t, e, -p_t * row.m - p * row.m_t, args->accumulate);
    }
    for (int64_t j = 0; j < args->per_token; j++) {
        const int64_t e = chosen_expert(args, t, j);
        const double p = probability(args, t, e, &row), p_t = probability_tangent(args, t, e, &row);
        put(args->dlogits, t, e, p * (double)dw[j], true);
        put(args->dlogits_t, t, e, p_t * (double)dw[j] + p * (double)dw_t[j], true);
    }
}

void REFERENCE(route_backward_tangent)(struct backend *backend, const struct route_args *args)
{
    struct route_args lent = *args;
    team_run(backend->team, args->logits.rows, backward_tangent_row, &lent);
}

/* The weight of visit `a`. */
static double visit_weight(const struct experts_args *args, int64_t a)
{
    return args->weights.data != NULL ? (double)row_of(args->weights, a / args->per_token)[a % args->per_token] : 1;
}

void REFERENCE(experts_spread)(struct backend *backend, const struct experts_args *args)
{
    (void)backend;
    for (int64_t r = 0; r < args->sorted.rows; r++) {
        const int64_t a = routes_at(args->routes, ROUTES_VISIT, args->per_token, r);
        for (int64_t c = 0; c < args->sorted.columns; c++)
            put(args->sorted, r, c, visit_weight(args, a) * (double)row_of(args->token, a / args->per_token)[c],
                args->accumulate);
    }
}

void REFERENCE(experts_collect)(struct backend *backend, const struct experts_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->token.rows; t++)
        for (int64_t j = 0; j < args->per_token; j++) {
            const int64_t a = t * args->per_token + j, r = routes_at(args->routes, ROUTES_ROW, args->per_token, a);
            for (int64_t c = 0; c < args->token.columns; c++)
                put(args->token, t, c, visit_weight(args, a) * (double)row_of(args->sorted, r)[c],
                    args->accumulate || j > 0);
        }
}

void REFERENCE(experts_dot)(struct backend *backend, const struct experts_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->token.rows; t++)
        for (int64_t j = 0; j < args->per_token; j++) {
            const int64_t r = routes_at(args->routes, ROUTES_ROW, args->per_token, t * args->per_token + j);
            double sum = 0;
            for (int64_t c = 0; c < args->token.columns; c++)
                sum += (double)row_of(args->token, t)[c] * (double)row_of(args->sorted, r)[c];
            put(args->dot, t, j, sum, args->accumulate);
        }
}
