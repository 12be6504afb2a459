#include "eval/changepoint.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BASIS = 4, ENOUGH = 25 };

/* What the noise of a series may be: independent; a walk of equal steps; a walk whose steps' variance is the gap that
 * they cross. Of points with equal gaps the last two are one. */
enum noise { NOISE_WHITE, NOISE_STEPS, NOISE_GAPS, NOISES };

/* Where the first gap is below this part of the range, a trend like a power of u is no longer a + b u + c log(u). */
static const double wide = 1e-3;
/* Equal gaps, but for rounding; and the smallest gap that counts, in medians: points close together tell apart
 * nothing but what a measurement adds. */
static const double equal_gaps = 1.01, least_gap = 0.1;

/* A series as its noise wants it: the numbers, or the differences between neighbours over their noise; `count` of
 * them. The smooth trend is an orthonormal basis [columns][count]. A candidate of a level at k is 1 behind k (of
 * differences: their weight at k); of a slope it is u - u[k] behind k (of differences: weighted gaps, from k on). */
struct view {
    enum noise noise;
    int64_t count, columns;
    double *weight;                  /* [points] of differences: 1 over the deviation of their noise */
    double *step;                    /* [points] gaps of u behind each point, of differences weighted */
    double *basis;                   /* [BASIS, points] */
    double *norm[CHANGEPOINT_KINDS]; /* [points] squares of each candidate without its smooth part; 0: none */
    double *rest;                    /* [points] current residuals */
    double *draw;                    /* [points] */
    double *drawn;                   /* [simulations] the statistic of those simulated so far */
    int64_t drawn_count;
    double explained, total; /* by the best candidate; squares of the residuals */
    double slope;            /* of the residuals on it */
    enum changepoint_kind kind;
    int64_t at;
};

struct changepoint_model {
    int64_t points, simulations;
    double *x, *u; /* [points]; u is x scaled to 0 … 1 */
    int views;
    struct view view[NOISES];
};

static double candidate(const struct changepoint_model *model, const struct view *view, enum changepoint_kind kind,
                        int64_t k, int64_t i)
{
    const bool level = kind == CHANGEPOINT_LEVEL;
    if (view->noise != NOISE_WHITE) return level ? (i == k ? view->weight[i] : 0) : (i >= k ? view->step[i] : 0);
    return i <= k ? 0 : level ? 1 : model->u[i] - model->u[k];
}

/* Sums of `values` with the candidates at k, from those at k + 1; from the end on, where they are 0. */
static void extend(const struct view *view, const double *values, int64_t k, double sums[CHANGEPOINT_KINDS])
{
    if (view->noise == NOISE_WHITE) {
        sums[CHANGEPOINT_LEVEL] += values[k + 1];
        sums[CHANGEPOINT_SLOPE] += view->step[k] * sums[CHANGEPOINT_LEVEL];
    } else {
        sums[CHANGEPOINT_LEVEL] = view->weight[k] * values[k];
        sums[CHANGEPOINT_SLOPE] += view->step[k] * values[k];
    }
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

/* A series as the view wants it: numbers, or weighted differences. */
static void seen(const struct view *view, const double *series, double *out)
{
    for (int64_t i = 0; i < view->count; i++)
        out[i] = view->noise == NOISE_WHITE ? series[i] : (series[i + 1] - series[i]) * view->weight[i];
}

static double smooth(int64_t c, double u)
{
    const double log_u = log(u);
    return c == 0 ? 1 : c == 1 ? u : c == 2 ? log_u : log_u * log_u;
}

static double smallest_gap(const double *x, int64_t points)
{
    double gap = x[1] - x[0];
    for (int64_t i = 1; i + 1 < points; i++) gap = fmin(gap, x[i + 1] - x[i]);
    return gap;
}

/* u of a point in the trend is its distance from the first, plus the smallest gap. Leaves out columns that depend
 * linearly on those before them. */
static void basis_fill(const struct changepoint_model *model, struct view *view)
{
    const double *x = model->x, gap = smallest_gap(x, model->points), range = x[model->points - 1] - x[0] + gap;
    const int64_t most = gap < wide * range ? BASIS : BASIS - 1;
    for (int64_t c = view->noise == NOISE_WHITE ? 0 : 1; c < most; c++) {
        double *column = view->basis + view->columns * view->count;
        for (int64_t i = 0; i < model->points; i++) view->draw[i] = smooth(c, (x[i] - x[0] + gap) / range);
        seen(view, view->draw, column);
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
static void norms_fill(const struct changepoint_model *model, struct view *view)
{
    double sums[BASIS][CHANGEPOINT_KINDS] = {{0}};
    for (int64_t k = model->points - 2; k >= CHANGEPOINT_MARGIN - 1; k--) {
        for (int64_t c = 0; c < view->columns; c++) extend(view, view->basis + c * view->count, k, sums[c]);
        if (k > model->points - 1 - CHANGEPOINT_MARGIN) continue;
        for (int kind = 0; kind < CHANGEPOINT_KINDS; kind++) {
            double whole = 0, trend = 0;
            for (int64_t i = k; i < view->count; i++)
                whole += pow(candidate(model, view, (enum changepoint_kind)kind, k, i), 2);
            for (int64_t c = 0; c < view->columns; c++) trend += sums[c][kind] * sums[c][kind];
            view->norm[kind][k] = whole - trend > 1e-6 * whole ? whole - trend : 0;
        }
    }
}

/* The best candidate for view->rest, which has no smooth part, and the share of the squares that it explains. */
static double best(int64_t points, struct view *view)
{
    double sums[CHANGEPOINT_KINDS] = {0};
    view->explained = 0;
    view->at = -1;
    view->total = dot(view->rest, view->rest, view->count);
    for (int64_t k = points - 2; k >= CHANGEPOINT_MARGIN - 1; k--) {
        extend(view, view->rest, k, sums);
        if (k > points - 1 - CHANGEPOINT_MARGIN) continue;
        for (int kind = 0; kind < CHANGEPOINT_KINDS; kind++) {
            const double norm = view->norm[kind][k], sum = sums[kind];
            if (norm <= 0 || sum * sum <= view->explained * norm) continue;
            view->explained = sum * sum / norm;
            view->slope = sum / norm;
            view->kind = (enum changepoint_kind)kind;
            view->at = k;
        }
    }
    return view->total > 0 ? view->explained / view->total : 0;
}

static void noise_fill(struct view *view, double size, uint64_t stream)
{
    for (int64_t i = 0; i < view->count; i++)
        view->rest[i] = size * random_normal((uint64_t)view->noise, stream, (uint64_t)i);
}

static enum status blocks_new(const struct changepoint_model *model, struct view *view, struct error *error)
{
    const struct {
        int64_t count;
        double **out;
    } blocks[] = {{model->points, &view->weight},
                  {model->points, &view->step},
                  {BASIS * model->points, &view->basis},
                  {model->points, &view->norm[CHANGEPOINT_LEVEL]},
                  {model->points, &view->norm[CHANGEPOINT_SLOPE]},
                  {model->points, &view->rest},
                  {model->points, &view->draw},
                  {model->simulations, &view->drawn}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const enum status status = memory_new(blocks[i].count, sizeof(double), "series", blocks[i].out, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* `usual`: the median gap of u. */
static enum status view_new(const struct changepoint_model *model, enum noise noise, double usual, struct view *out,
                            struct error *error)
{
    *out = (struct view){.noise = noise, .count = model->points - (noise != NOISE_WHITE), .at = -1};
    const enum status status = blocks_new(model, out, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i + 1 < model->points; i++) {
        const double gap = model->u[i + 1] - model->u[i];
        out->weight[i] = noise == NOISE_GAPS ? 1 / sqrt(fmax(gap / usual, least_gap)) : 1;
        out->step[i] = gap * out->weight[i];
    }
    basis_fill(model, out);
    norms_fill(model, out);
    return STATUS_OK;
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static enum status views_new(struct changepoint_model *model, struct error *error)
{
    const int64_t gaps = model->points - 1;
    double *sorted = NULL;
    enum status status = memory_new(gaps, sizeof *sorted, "series", &sorted, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < gaps; i++) sorted[i] = model->u[i + 1] - model->u[i];
    qsort(sorted, (size_t)gaps, sizeof *sorted, by_value);
    const double usual = sorted[gaps / 2];
    const int noises = sorted[gaps - 1] > equal_gaps * sorted[0] ? NOISES : NOISE_GAPS;
    memory_free(sorted);
    while (model->views < noises && status == STATUS_OK) {
        status = view_new(model, (enum noise)model->views, usual, &model->view[model->views], error);
        model->views++;
    }
    return status;
}

static bool fits(const struct changepoint_model *model, const double *x, int64_t count, int64_t simulations)
{
    return model != NULL && model->points == count && model->simulations == simulations &&
           memcmp(model->x, x, (size_t)count * sizeof *x) == 0;
}

enum status changepoint_model_of(const double *x, int64_t count, int64_t simulations, struct changepoint_model **kept,
                                 struct error *error)
{
    if (fits(*kept, x, count, simulations)) return STATUS_OK;
    changepoint_model_free(*kept);
    *kept = NULL;
    enum status status = memory_new(1, sizeof **kept, "model of a series", kept, error);
    if (status != STATUS_OK) return status;
    struct changepoint_model *model = *kept;
    model->points = count;
    model->simulations = simulations;
    status = memory_new(count, sizeof *model->x, "series", &model->x, error);
    if (status == STATUS_OK) status = memory_new(count, sizeof *model->u, "series", &model->u, error);
    if (status == STATUS_OK) {
        memcpy(model->x, x, (size_t)count * sizeof *x);
        for (int64_t i = 0; i < count; i++) model->u[i] = (x[i] - x[0]) / (x[count - 1] - x[0]);
        status = views_new(model, error);
    }
    if (status == STATUS_OK) return STATUS_OK;
    changepoint_model_free(model);
    *kept = NULL;
    return status;
}

void changepoint_model_free(struct changepoint_model *model)
{
    if (model == NULL) return;
    for (int v = 0; v < model->views; v++) {
        struct view *view = &model->view[v];
        memory_free(view->weight);
        memory_free(view->step);
        memory_free(view->basis);
        memory_free(view->norm[CHANGEPOINT_LEVEL]);
        memory_free(view->norm[CHANGEPOINT_SLOPE]);
        memory_free(view->rest);
        memory_free(view->draw);
        memory_free(view->drawn);
    }
    memory_free(model->x);
    memory_free(model->u);
    memory_free(model);
}

/* The best change of a series; false: the residuals of an exact trend are rounding errors. */
static bool fit(const struct changepoint_model *model, const double *y, struct view *view)
{
    double scale = 0;
    for (int64_t i = 0; i < view->count; i++)
        scale = fmax(scale, fabs(y[i]) * (view->noise == NOISE_WHITE ? 1 : view->weight[i]));
    seen(view, y, view->rest);
    take_out(view, view->rest);
    (void)best(model->points, view);
    return view->at >= 0 && view->total > pow(1e-12 * scale, 2) * (double)model->points;
}

/* The part of simulated series without a change in which a change explains `found` or more; by ENOUGH of them the
 * part is known well enough (Besag and Clifford 1991). */
static double part(const struct changepoint_model *model, struct view *view, double found)
{
    int64_t more = 0;
    for (int64_t s = 0; s < model->simulations; s++) {
        if (s == view->drawn_count) {
            noise_fill(view, 1, (uint64_t)s);
            take_out(view, view->rest);
            view->drawn[view->drawn_count++] = best(model->points, view);
        }
        more += view->drawn[s] >= found;
        if (more == ENOUGH) return (double)more / (double)(s + 1);
    }
    return (double)(1 + more) / (double)(1 + model->simulations);
}

static double test(const struct changepoint_model *model, const double *y, struct view *view)
{
    if (!fit(model, y, view)) return NAN;
    const double p = part(model, view, view->explained / view->total);
    (void)fit(model, y, view);
    return p;
}

static int by_place(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* `view` has the best change of the series; afterwards its residuals are those of the last simulation. */
static void locate(const struct changepoint_model *model, struct view *view, struct changepoint *out)
{
    const enum changepoint_kind kind = view->kind;
    const int64_t at = view->at, spare = view->count - view->columns - 1;
    const double slope = view->slope, size = sqrt(fmax(view->total - view->explained, 0) / (double)spare);
    int64_t found[CHANGEPOINT_SIMULATIONS];
    for (uint64_t s = 0; s < CHANGEPOINT_SIMULATIONS; s++) {
        noise_fill(view, size, CHANGEPOINT_SIMULATIONS + s);
        for (int64_t i = 0; i < view->count; i++) view->rest[i] += slope * candidate(model, view, kind, at, i);
        take_out(view, view->rest);
        (void)best(model->points, view);
        found[s] = view->at >= 0 ? view->at : at;
    }
    qsort(found, CHANGEPOINT_SIMULATIONS, sizeof found[0], by_place);
    out->kind = kind;
    out->after = at;
    out->low = found[CHANGEPOINT_SIMULATIONS / 40];
    out->high = found[CHANGEPOINT_SIMULATIONS - 1 - CHANGEPOINT_SIMULATIONS / 40];
    out->low = out->low < at ? out->low : at;
    out->high = out->high > at ? out->high : at;
    out->size = kind == CHANGEPOINT_SLOPE ? slope / (model->x[model->points - 1] - model->x[0]) : slope;
}

/* Whether the residuals of the numbers after the change are correlated like a random walk's. */
static bool walks(const struct changepoint_model *model, struct view *numbers)
{
    double steps = 0, squares = 0, before = 0;
    for (int64_t i = 0; i < numbers->count; i++)
        numbers->draw[i] = candidate(model, numbers, numbers->kind, numbers->at, i);
    take_out(numbers, numbers->draw);
    for (int64_t i = 0; i < numbers->count; i++) {
        const double left = numbers->rest[i] - numbers->slope * numbers->draw[i];
        if (i > 0) steps += (left - before) * (left - before);
        squares += left * left;
        before = left;
    }
    return steps < 1.5 * squares;
}

/* -2 log likelihood of differences as independent normal numbers behind the best change, but for a constant. */
static double unlikely(const struct view *view)
{
    double weights = 0;
    for (int64_t i = 0; i < view->count; i++) weights += log(view->weight[i]);
    return (double)view->count * log(fmax(view->total - view->explained, 1e-300)) - 2 * weights;
}

/* The view whose noise the series has. */
static struct view *likeliest(struct changepoint_model *model)
{
    if (!walks(model, &model->view[NOISE_WHITE])) return &model->view[NOISE_WHITE];
    struct view *steps = &model->view[NOISE_STEPS], *gaps = &model->view[NOISE_GAPS];
    return model->views == NOISES && unlikely(gaps) < unlikely(steps) ? gaps : steps;
}

void changepoint_find(struct changepoint_model *model, const double *y, struct changepoint *out)
{
    double p = 0;
    for (int v = 0; v < model->views; v++) {
        const double one = test(model, y, &model->view[v]);
        p = isnan(one) ? NAN : fmax(p, one);
        if (isnan(p)) break;
    }
    *out = (struct changepoint){.p = p};
    if (!isnan(p)) locate(model, likeliest(model), out);
}
