#include "eval/changepoint.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { BASIS = 3 };

/* Numbers or differences [count], the smooth trend as an orthonormal basis [columns][count], and the candidates. A
 * candidate of a level at k is 1 behind k (of differences: at k); of a slope it is u - u[k] behind k (of differences:
 * the gap, from k on). Sums of candidates with residuals are sums over all that lies behind k. */
struct view {
    bool differences;
    int64_t count, columns;
    double *u;                       /* [points], scaled to 0 … 1 */
    double *basis;                   /* [BASIS, points] */
    double *norm[CHANGEPOINT_KINDS]; /* [points] squares of each candidate without its smooth part; 0: none */
    double *rest;                    /* [points] current residuals */
    double *draw;                    /* [points] */
    double explained, total;         /* by the best candidate; squares of the residuals */
    double slope;                    /* of the residuals on it */
    enum changepoint_kind kind;
    int64_t at;
};

static double candidate(const struct view *view, enum changepoint_kind kind, int64_t k, int64_t i)
{
    if (view->differences && kind == CHANGEPOINT_LEVEL) return i == k ? 1 : 0;
    if (view->differences) return i >= k ? view->u[i + 1] - view->u[i] : 0;
    if (kind == CHANGEPOINT_LEVEL) return i > k ? 1 : 0;
    return i > k ? view->u[i] - view->u[k] : 0;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* Removes the smooth trend from `values`; twice, because one pass leaves a rounding error of its own. */
static void take_out(const struct view *view, double *values)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < view->columns; c++) {
            const double *column = view->basis + c * view->count;
            const double share = dot(column, values, view->count);
            for (int64_t i = 0; i < view->count; i++) values[i] -= share * column[i];
        }
}

static double smooth(int64_t c, double u)
{
    return c == 0 ? 1 : c == 1 ? u : log(u);
}

/* u of each point in the trend: the distance from the first point, plus the smallest gap. */
static void places_fill(const double *x, int64_t points, double *places)
{
    double gap = x[1] - x[0];
    for (int64_t i = 1; i + 1 < points; i++) gap = fmin(gap, x[i + 1] - x[i]);
    for (int64_t i = 0; i < points; i++) places[i] = (x[i] - x[0] + gap) / (x[points - 1] - x[0] + gap);
}

/* Leaves out columns that depend linearly on those before them. */
static void basis_fill(const double *x, int64_t points, struct view *view)
{
    double *places = view->draw;
    places_fill(x, points, places);
    for (int64_t c = view->differences ? 1 : 0; c < BASIS; c++) {
        double *column = view->basis + view->columns * view->count;
        for (int64_t i = 0; i < view->count; i++)
            column[i] = view->differences ? smooth(c, places[i + 1]) - smooth(c, places[i]) : smooth(c, places[i]);
        const double before = sqrt(dot(column, column, view->count));
        take_out(view, column);
        const double length = sqrt(dot(column, column, view->count));
        if (!(length > 1e-9 * before)) continue;
        for (int64_t i = 0; i < view->count; i++) column[i] /= length;
        view->columns++;
    }
}

/* Fills the norms of the candidates without their smooth part. A candidate that is almost entirely smooth is
 * dropped. */
static void norms_fill(int64_t points, struct view *view)
{
    for (int kind = 0; kind < CHANGEPOINT_KINDS; kind++)
        for (int64_t k = CHANGEPOINT_MARGIN - 1; k <= points - 1 - CHANGEPOINT_MARGIN; k++) {
            double whole = 0, left;
            for (int64_t i = 0; i < view->count; i++) {
                view->draw[i] = candidate(view, (enum changepoint_kind)kind, k, i);
                whole += view->draw[i] * view->draw[i];
            }
            take_out(view, view->draw);
            left = dot(view->draw, view->draw, view->count);
            view->norm[kind][k] = left > 1e-6 * whole ? left : 0;
        }
}

static void consider(struct view *view, enum changepoint_kind kind, int64_t k, double sum)
{
    if (view->norm[kind][k] <= 0 || sum * sum <= view->explained * view->norm[kind][k]) return;
    view->explained = sum * sum / view->norm[kind][k];
    view->slope = sum / view->norm[kind][k];
    view->kind = kind;
    view->at = k;
}

/* The best candidate for view->rest, which has no smooth part. One pass from the end gives all sums. */
static double best(int64_t points, struct view *view)
{
    double behind = 0, weighted = 0; /* sums of r, and of u r or of gap r */
    view->explained = 0;
    view->at = -1;
    view->total = dot(view->rest, view->rest, view->count);
    for (int64_t k = view->count - 1; k >= CHANGEPOINT_MARGIN - 1; k--) {
        const double r = view->rest[k];
        if (view->differences) weighted += (view->u[k + 1] - view->u[k]) * r;
        if (k <= points - 1 - CHANGEPOINT_MARGIN) {
            consider(view, CHANGEPOINT_LEVEL, k, view->differences ? r : behind);
            consider(view, CHANGEPOINT_SLOPE, k, view->differences ? weighted : weighted - view->u[k] * behind);
        }
        if (!view->differences) weighted += view->u[k] * r;
        behind += r;
    }
    return view->total > 0 ? view->explained / view->total : 0;
}

static void noise(struct view *view, double size, uint64_t stream)
{
    for (int64_t i = 0; i < view->count; i++)
        view->rest[i] = size * random_normal(view->differences, stream, (uint64_t)i);
}

static void view_reset(struct view *view)
{
    memory_free(view->u);
    memory_free(view->basis);
    memory_free(view->norm[CHANGEPOINT_LEVEL]);
    memory_free(view->norm[CHANGEPOINT_SLOPE]);
    memory_free(view->rest);
    memory_free(view->draw);
}

static enum status view_new(const double *x, int64_t points, bool differences, struct view *out, struct error *error)
{
    *out = (struct view){.differences = differences, .count = points - differences, .at = -1};
    struct {
        int64_t count;
        double **out;
    } blocks[] = {{points, &out->u},
                  {BASIS * points, &out->basis},
                  {points, &out->norm[CHANGEPOINT_LEVEL]},
                  {points, &out->norm[CHANGEPOINT_SLOPE]},
                  {points, &out->rest},
                  {points, &out->draw}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const enum status status = memory_new(blocks[i].count, sizeof(double), "series", blocks[i].out, error);
        if (status != STATUS_OK) return status;
    }
    for (int64_t i = 0; i < points; i++) out->u[i] = (x[i] - x[0]) / (x[points - 1] - x[0]);
    basis_fill(x, points, out);
    norms_fill(points, out);
    return STATUS_OK;
}

static void rest_of(const double *y, struct view *view)
{
    for (int64_t i = 0; i < view->count; i++) view->rest[i] = view->differences ? y[i + 1] - y[i] : y[i];
    take_out(view, view->rest);
}

/* The part of simulated series without a change in which a change explains as much or more. */
static double test(const double *y, int64_t points, struct view *view)
{
    int64_t more = 0;
    double scale = 0;
    for (int64_t i = 0; i < points; i++) scale = fmax(scale, fabs(y[i]));
    rest_of(y, view);
    const double found = best(points, view);
    /* the residuals of an exact trend are rounding errors */
    if (view->at < 0 || view->total <= pow(1e-12 * scale, 2) * (double)points) return NAN;
    for (uint64_t s = 0; s < CHANGEPOINT_SIMULATIONS; s++) {
        noise(view, 1, s);
        take_out(view, view->rest);
        more += best(points, view) >= found;
    }
    rest_of(y, view);
    (void)best(points, view);
    return (double)(1 + more) / (1 + CHANGEPOINT_SIMULATIONS);
}

static int by_size(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* `view` has the best change of the series; afterwards its residuals are those of the last simulation. */
static void locate(int64_t points, struct view *view, struct changepoint *out)
{
    const enum changepoint_kind kind = view->kind;
    const int64_t at = view->at, spare = view->count - view->columns - 1;
    const double slope = view->slope, size = sqrt(fmax(view->total - view->explained, 0) / (double)spare);
    int64_t found[CHANGEPOINT_SIMULATIONS];
    for (uint64_t s = 0; s < CHANGEPOINT_SIMULATIONS; s++) {
        noise(view, size, CHANGEPOINT_SIMULATIONS + s);
        for (int64_t i = 0; i < view->count; i++) view->rest[i] += slope * candidate(view, kind, at, i);
        take_out(view, view->rest);
        (void)best(points, view);
        found[s] = view->at >= 0 ? view->at : at;
    }
    qsort(found, CHANGEPOINT_SIMULATIONS, sizeof found[0], by_size);
    out->kind = kind;
    out->after = at;
    out->low = found[CHANGEPOINT_SIMULATIONS / 40];
    out->high = found[CHANGEPOINT_SIMULATIONS - 1 - CHANGEPOINT_SIMULATIONS / 40];
    out->low = out->low < at ? out->low : at;
    out->high = out->high > at ? out->high : at;
    out->size = slope;
}

/* Whether the residuals of the numbers after the change are correlated like a random walk's. */
static bool walks(struct view *numbers)
{
    double steps = 0, squares = 0, before = 0;
    for (int64_t i = 0; i < numbers->count; i++) numbers->draw[i] = candidate(numbers, numbers->kind, numbers->at, i);
    take_out(numbers, numbers->draw);
    for (int64_t i = 0; i < numbers->count; i++) {
        const double left = numbers->rest[i] - numbers->slope * numbers->draw[i];
        if (i > 0) steps += (left - before) * (left - before);
        squares += left * left;
        before = left;
    }
    return steps < 1.5 * squares;
}

enum status changepoint_find(const double *x, const double *y, int64_t count, struct changepoint *out,
                             struct error *error)
{
    struct view numbers = {.u = NULL}, differences = {.u = NULL};
    *out = (struct changepoint){.p = NAN};
    if (count < CHANGEPOINT_LEAST || count > CHANGEPOINT_MOST) return STATUS_OK;
    enum status status = view_new(x, count, false, &numbers, error);
    if (status == STATUS_OK) status = view_new(x, count, true, &differences, error);
    if (status == STATUS_OK) {
        const double white = test(y, count, &numbers), walk = test(y, count, &differences);
        if (isfinite(white) && isfinite(walk)) {
            struct view *view = walks(&numbers) ? &differences : &numbers;
            out->p = fmax(white, walk);
            locate(count, view, out);
            if (out->kind == CHANGEPOINT_SLOPE) out->size /= x[count - 1] - x[0];
        }
    }
    view_reset(&numbers);
    view_reset(&differences);
    return status;
}
