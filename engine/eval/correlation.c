#include "eval/correlation.h"

#include "base/memory.h"
#include "eval/student.h"

#include <math.h>

enum { LEAST = 3, GROUPS_MOST = 50, ROUNDS_MOST = 4 };

/* A share of the residuals' norm, as correlation.h promises. Rounding alone leaves some 1e-16 times their number. */
static const double residual_tolerance = 1e-9;

/* A share of the numbers that a difference or a residual is made of: more than rounding makes of equal ones. Without it
 * the changes of a rate that falls by 1e-4 each time would have an order, and a correlation, of their own. */
static const double rounding_share = 1e-13;

/* Two passes, so that large means lose no digits. NAN without variance. */
static double around(const double *x, const double *y, int64_t n, double mean_x, double mean_y)
{
    double xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = x[i] - mean_x, b = y[i] - mean_y;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    const double product =
        xx * yy; /* the square root is exact if both are equal, as for ranks in the same or opposite order */
    const double value = xy / (isnormal(product) ? sqrt(product) : sqrt(xx) * sqrt(yy));
    return isfinite(value) ? fmax(-1, fmin(1, value)) : NAN;
}

static double pearson(const double *x, const double *y, int64_t n)
{
    double mean_x = 0, mean_y = 0;
    for (int64_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    return around(x, y, n, mean_x, mean_y);
}

static double largest(const double *values, int64_t n)
{
    double size = 0;
    for (int64_t i = 0; i < n; i++) size = fmax(size, fabs(values[i]));
    return size;
}

/* Whether values[high], the larger one, is above values[low] by more than rounding. */
static bool above(const double *values, const double *near, int64_t high, int64_t low)
{
    return values[high] - values[low] > (near != NULL ? near[high] + near[low] : 0);
}

static bool varies(const double *values, const double *near, int64_t n)
{
    int64_t low = 0, high = 0;
    for (int64_t i = 1; i < n; i++) {
        if (values[i] < values[low]) low = i;
        if (values[i] > values[high]) high = i;
    }
    return above(values, near, high, low);
}

/* Sifts order[root] down the heap of `n` by value. */
static void sift(const double *values, int64_t *order, int64_t root, int64_t n)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && values[order[child + 1]] > values[order[child]]) child++;
        if (values[order[root]] >= values[order[child]]) return;
        const int64_t kept = order[root];
        order[root] = order[child];
        order[child] = kept;
    }
}

void correlation_ranks(const double *values, const double *near, int64_t n, int64_t *order, double *ranks)
{
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n / 2; i-- > 0;) sift(values, order, i, n);
    for (int64_t end = n; end-- > 1;) {
        const int64_t kept = order[0];
        order[0] = order[end];
        order[end] = kept;
        sift(values, order, 0, end);
    }
    for (int64_t first = 0, last; first < n; first = last) {
        for (last = first + 1; last < n && !above(values, near, order[last], order[first]); last++) continue;
        for (int64_t i = first; i < last; i++) ranks[order[i]] = (double)(first + last + 1) / 2;
    }
}

/* A sample without one group of units, and working memory. All arrays are [points->n]. */
struct sample {
    const struct correlation_points *points;
    enum correlation_kind kind;
    int64_t n, units;
    double *x, *y, *rank_x, *rank_y;
    double *near_x, *near_y; /* what rounding may have made of each; 0: nothing */
    double *sums, *means, *direction;
    int64_t *unit;                /* of all points: the number among the `units` that contribute; -1: not used */
    int64_t *cohort;              /* of all points: the budget; -1: none, or no other point that is used has it */
    int64_t *trajectory, *budget; /* of the sample's numbers */
    int64_t *counts, *order;
};

/* ---- What contributes ---- */

/* The point of a trajectory of one has no difference, and nothing is left of it about the trajectory's mean. */
static bool contributes(const struct sample *s, int64_t i)
{
    const int64_t *trajectory = s->points->trajectory;
    const bool follows = i > 0 && trajectory[i] == trajectory[i - 1];
    if (s->kind == CORRELATION_DIFFERENCES) return follows;
    return s->kind == CORRELATION_VALUES || follows || (i + 1 < s->points->n && trajectory[i] == trajectory[i + 1]);
}

/* Numbers the units with points that contribute. */
static void number_units(struct sample *s)
{
    int64_t *numbers = s->order;
    for (int64_t i = 0; i < s->points->n; i++) numbers[i] = -1;
    for (int64_t i = 0; i < s->points->n; i++) {
        int64_t *number = &numbers[s->points->unit[i]];
        s->unit[i] = -1;
        if (!contributes(s, i)) continue;
        if (*number < 0) *number = s->units++;
        s->unit[i] = *number;
    }
}

/* The mean of a budget with a single point would leave nothing of that point. */
static void keep_shared_budgets(struct sample *s)
{
    const int64_t *budget = s->points->budget;
    for (int64_t i = 0; i < s->points->n; i++) s->counts[i] = 0;
    for (int64_t i = 0; i < s->points->n; i++)
        if (s->unit[i] >= 0 && budget[i] >= 0) s->counts[budget[i]]++;
    for (int64_t i = 0; i < s->points->n; i++)
        s->cohort[i] = budget[i] >= 0 && s->counts[budget[i]] > 1 ? budget[i] : -1;
}

/* ---- Correlations of a sample ---- */

struct both {
    double pearson, spearman;
};

static double spread(const double *values, int64_t n)
{
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) mean += values[i] / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (values[i] - mean) * (values[i] - mean);
    return squares;
}

static double squares(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i] * values[i];
    return sum;
}

/* s->means: to every value the mean of its group (0 <= key < points->n), 0 without one (negative). */
static void group_means(struct sample *s, const int64_t *keys, const double *values)
{
    for (int64_t i = 0; i < s->points->n; i++) s->sums[i] = 0, s->counts[i] = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (keys[i] >= 0) s->sums[keys[i]] += values[i], s->counts[keys[i]]++;
    for (int64_t i = 0; i < s->n; i++) s->means[i] = keys[i] >= 0 ? s->sums[keys[i]] / (double)s->counts[keys[i]] : 0;
}

static void center(struct sample *s, const int64_t *keys, double *values)
{
    group_means(s, keys, values);
    for (int64_t i = 0; i < s->n; i++) values[i] -= s->means[i];
}

/* Conjugate gradients for the least squares in the budgets' effects, of values about the means of trajectories, which
 * all steps keep at 0. What is left, the budgets' means m of the residuals, bounds their error by n |m|: an effect b
 * on budgets is joined by at most n points to one of the other sign, or to a point without a budget, so that at least
 * max(b)^2 / n of it is left about the means of trajectories, of at most n max(b)^2. Means in turns would need as many
 * rounds as trajectories that share budgets only with their neighbours, squared. *error: that bound. */
static bool take_off_budgets(struct sample *s, double *values, double least, double *error)
{
    double before = 1;
    for (int64_t step = 0; step <= s->n; step++) {
        group_means(s, s->budget, values);
        const double left = squares(s->means, s->n), size = squares(values, s->n);
        *error = (double)s->n * sqrt(left);
        if (*error <= residual_tolerance * sqrt(size) || size <= least) return true;
        for (int64_t i = 0; i < s->n; i++)
            s->direction[i] = s->means[i] + (step > 0 ? left / before * s->direction[i] : 0);
        before = left;
        group_means(s, s->trajectory, s->direction);
        for (int64_t i = 0; i < s->n; i++) s->means[i] = s->direction[i] - s->means[i];
        const double length = squares(s->means, s->n);
        if (!(length > 0)) return false;
        for (int64_t i = 0; i < s->n; i++) values[i] -= left / length * s->means[i];
    }
    return false;
}

/* near: the rounding of residuals of these values. A mean rounds as its largest value does, and budgets carry that from
 * one trajectory to the others. */
static void set_rounding(const struct sample *s, const double *values, double *near)
{
    bool joined = false;
    for (int64_t i = 0; i < s->n; i++) joined = joined || s->budget[i] >= 0;
    for (int64_t first = 0, last; first < s->n; first = last) {
        for (last = first + 1; last < s->n && (joined || s->trajectory[last] == s->trajectory[first]); last++) continue;
        const double size = largest(values + first, last - first);
        for (int64_t i = first; i < last; i++) near[i] = rounding_share * size;
    }
}

/* Residuals with trajectory and budget as fixed effects; false if they are not found. Residuals that are only rounding
 * errors become 0. Every round starts from residuals, so that it has less rounding to undo. near: how far each may
 * be off. */
static bool residuals(struct sample *s, double *values, double *near)
{
    const double least = 1e-20 * spread(values, s->n);
    double error = 0;
    bool found = false;
    set_rounding(s, values, near);
    center(s, s->trajectory, values);
    for (int round = 0; round < ROUNDS_MOST && !found; round++) {
        center(s, s->trajectory, values);
        found = take_off_budgets(s, values, least, &error);
    }
    for (int64_t i = 0; i < s->n; i++) near[i] += error;
    const bool rounding = squares(values, s->n) <= least;
    for (int64_t i = 0; rounding && i < s->n; i++) values[i] = 0;
    return found;
}

/* Fills the sample without group `left_out` of `groups`; -1: with all. False without residuals. */
static bool fill(struct sample *s, int64_t left_out, int64_t groups)
{
    const struct correlation_points *points = s->points;
    const bool differences = s->kind == CORRELATION_DIFFERENCES;
    s->n = 0;
    for (int64_t i = 0; i < points->n; i++) {
        if (s->unit[i] < 0 || s->unit[i] % groups == left_out) continue;
        s->x[s->n] = differences ? points->x[i] - points->x[i - 1] : points->x[i];
        s->y[s->n] = differences ? points->y[i] - points->y[i - 1] : points->y[i];
        s->near_x[s->n] = differences ? rounding_share * fmax(fabs(points->x[i]), fabs(points->x[i - 1])) : 0;
        s->near_y[s->n] = differences ? rounding_share * fmax(fabs(points->y[i]), fabs(points->y[i - 1])) : 0;
        s->trajectory[s->n] = points->trajectory[i];
        s->budget[s->n] = s->cohort[i];
        s->n++;
    }
    return s->kind != CORRELATION_WITHIN || (residuals(s, s->x, s->near_x) && residuals(s, s->y, s->near_y));
}

static struct both measure(struct sample *s, int64_t left_out, int64_t groups)
{
    const bool filled = fill(s, left_out, groups);
    if (!filled || s->n < LEAST || !varies(s->x, s->near_x, s->n) || !varies(s->y, s->near_y, s->n))
        return (struct both){NAN, NAN};
    correlation_ranks(s->x, s->near_x, s->n, s->order, s->rank_x);
    correlation_ranks(s->y, s->near_y, s->n, s->order, s->rank_y);
    const double mean = (double)(s->n + 1) / 2; /* exact mean of the ranks, with or without ties */
    return (struct both){pearson(s->x, s->y, s->n), around(s->rank_x, s->rank_y, s->n, mean, mean)};
}

/* Fisher's z; a large number for a perfect correlation. */
static double fisher(double r)
{
    return atanh(fmax(-1 + 1e-12, fmin(1 - 1e-12, r)));
}

static void around_z(double r, double half, double *low, double *high)
{
    if (!isfinite(half)) return;
    *low = fmin(tanh(fisher(r) - half), r);
    *high = fmax(tanh(fisher(r) + half), r);
}

/* Spearman's, no narrower than Bonett and Wright's of `size` independent points. None for ranks in the same or opposite
 * order: ever so many correlations give those, and nothing tells which. */
static void around_rank(double r, double half, double size, double *low, double *high)
{
    if (fabs(r) >= 1 || !(size > LEAST)) return;
    around_z(r, fmax(half, student_quantile(INFINITY) * sqrt((1 + r * r / 2) / (size - 3))), low, high);
}

static double deviation(const double *values, int64_t n)
{
    return sqrt(spread(values, n) / (double)(n - 1));
}

/* Pseudo-values of Fisher's z (Tukey); their mean's error is Student's. */
static void jackknife(struct sample *s, struct correlation *out)
{
    double z[GROUPS_MOST], rank_z[GROUPS_MOST];
    const int64_t groups = s->units < GROUPS_MOST ? s->units : GROUPS_MOST;
    for (int64_t g = 0; g < groups; g++) {
        const struct both without = measure(s, g, groups);
        z[g] = (double)(groups - 1) * fisher(without.pearson);
        rank_z[g] = (double)(groups - 1) * fisher(without.spearman);
        if (!isfinite(without.pearson) || !isfinite(without.spearman)) return;
    }
    const double t = student_quantile((double)(groups - 1)) / sqrt((double)groups);
    around_z(out->pearson, t * deviation(z, groups), &out->low, &out->high);
    around_rank(out->spearman, t * deviation(rank_z, groups), (double)out->n, &out->spearman_low, &out->spearman_high);
}

/* Lag-1 autocorrelation along trajectories, about the mean of all. */
static double autocorrelation(const double *values, const int64_t *trajectory, int64_t n)
{
    double mean = 0, products = 0;
    for (int64_t i = 0; i < n; i++) mean += values[i] / (double)n;
    for (int64_t i = 1; i < n; i++)
        if (trajectory[i] == trajectory[i - 1]) products += (values[i] - mean) * (values[i - 1] - mean);
    return products / spread(values, n);
}

/* How many differences of one size would be worth the same: those between checkpoints far apart are larger than the
 * others in both quantities, and the correlation is mostly theirs. */
static double alike(const double *x, const double *y, int64_t n)
{
    double mean_x = 0, mean_y = 0, both = 0;
    for (int64_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) both += pow((x[i] - mean_x) * (y[i] - mean_y), 2);
    return fmin(spread(x, n) * spread(y, n) / both, (double)n);
}

/* The sample holds all differences. */
static void effective(const struct sample *s, struct correlation *out)
{
    const double product = autocorrelation(s->x, s->trajectory, s->n) * autocorrelation(s->y, s->trajectory, s->n);
    const double p = fmax(product, 0), size = alike(s->x, s->y, s->n) * (1 - p) / (1 + p);
    if (!(size > LEAST + 1)) return;
    const double half = student_quantile(INFINITY) / sqrt(size - 3);
    around_z(out->pearson, half, &out->low, &out->high);
    around_rank(out->spearman, 0, size, &out->spearman_low, &out->spearman_high);
}

/* Whether every trajectory with differences is a unit of its own. */
static bool apart(const struct sample *s)
{
    int64_t trajectories = 0;
    for (int64_t i = 0; i < s->points->n; i++) {
        const bool first = i == 0 || s->unit[i - 1] < 0 || s->points->trajectory[i] != s->points->trajectory[i - 1];
        trajectories += first && s->unit[i] >= 0;
    }
    return trajectories == s->units;
}

static enum status sample_new(struct sample *s, struct error *error)
{
    double **numbers[] = {&s->x,      &s->y,    &s->near_x, &s->near_y,   &s->rank_x,
                          &s->rank_y, &s->sums, &s->means,  &s->direction};
    int64_t **integers[] = {&s->unit, &s->cohort, &s->trajectory, &s->budget, &s->counts, &s->order};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == STATUS_OK; i++)
        status = memory_new(s->points->n, sizeof(double), "correlation", numbers[i], error);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0] && status == STATUS_OK; i++)
        status = memory_new(s->points->n, sizeof(int64_t), "correlation", integers[i], error);
    return status;
}

static void sample_reset(struct sample *s)
{
    memory_free(s->x);
    memory_free(s->y);
    memory_free(s->near_x);
    memory_free(s->near_y);
    memory_free(s->rank_x);
    memory_free(s->rank_y);
    memory_free(s->sums);
    memory_free(s->means);
    memory_free(s->direction);
    memory_free(s->unit);
    memory_free(s->cohort);
    memory_free(s->trajectory);
    memory_free(s->budget);
    memory_free(s->counts);
    memory_free(s->order);
}

struct correlation correlation_without_numbers(int64_t n, int64_t units)
{
    return (struct correlation){n, units, 0, NAN, NAN, NAN, NAN, NAN, NAN};
}

enum status correlation_measure(const struct correlation_points *points, enum correlation_kind kind,
                                struct correlation *out, struct error *error)
{
    struct sample s = {.points = points, .kind = kind};
    *out = correlation_without_numbers(0, 0);
    const enum status status = sample_new(&s, error);
    if (status == STATUS_OK) {
        number_units(&s);
        keep_shared_budgets(&s);
        const struct both found = measure(&s, -1, 1);
        out->n = s.n;
        out->units = s.units;
        for (int64_t i = 0; i < s.n; i++) out->shared += s.budget[i] >= 0;
        out->pearson = found.pearson;
        out->spearman = found.spearman;
        if (isfinite(found.pearson) && s.units >= CORRELATION_UNITS_LEAST)
            jackknife(&s, out);
        else if (isfinite(found.pearson) && kind == CORRELATION_DIFFERENCES && apart(&s))
            effective(&s, out);
    }
    sample_reset(&s);
    return status;
}
