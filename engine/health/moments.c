#include "health/moments.h"

#include <math.h>
#include <string.h>

void moments_of(const float *values, int64_t count, struct moments *out)
{
    double sum = 0;
    *out = (struct moments){0};
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)values[i];
        if (!isfinite(x)) {
            out->nan += isnan(x) ? 1 : 0;
            out->infinite += isnan(x) ? 0 : 1;
            continue;
        }
        out->count++;
        sum += x;
        out->l1 += fabs(x);
        out->squares += x * x;
        out->linf = fmax(out->linf, fabs(x));
    }
    if (out->count == 0) return;
    out->mean = sum / (double)out->count;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite((double)values[i])) continue;
        const double d = (double)values[i] - out->mean, square = d * d;
        out->m2 += square;
        out->m3 += square * d;
        out->m4 += square * square;
    }
}

void moments_merge(struct moments *into, const struct moments *other)
{
    const double a = (double)into->count, b = (double)other->count, n = a + b, d = other->mean - into->mean;
    into->nan += other->nan;
    into->infinite += other->infinite;
    if (other->count == 0) return;
    into->l1 += other->l1;
    into->squares += other->squares;
    into->linf = fmax(into->linf, other->linf);
    const double m2 = into->m2, m3 = into->m3;
    into->m4 += other->m4 + d * d * d * d * a * b * (a * a - a * b + b * b) / (n * n * n) +
                6 * d * d * (a * a * other->m2 + b * b * m2) / (n * n) + 4 * d * (a * other->m3 - b * m3) / n;
    into->m3 += other->m3 + d * d * d * a * b * (a - b) / (n * n) + 3 * d * (a * other->m2 - b * m2) / n;
    into->m2 += other->m2 + d * d * a * b / n;
    into->mean += d * b / n;
    into->count += other->count;
}

double moments_l2(const struct moments *moments)
{
    return sqrt(moments->squares);
}

double moments_kurtosis(const struct moments *moments)
{
    return moments->m2 > 0 ? (double)moments->count * moments->m4 / (moments->m2 * moments->m2) : NAN;
}

static uint32_t bin_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 16 & (MAGNITUDE_BINS - 1);
}

void magnitude_add(int64_t *bins, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) bins[bin_of(values[i])]++;
}

int64_t magnitude_beyond(const int64_t *bins, double threshold)
{
    int64_t count = 0;
    const uint32_t end = bin_of(INFINITY); /* this bin and those above hold NaN and infinities */
    for (uint32_t bin = bin_of((float)threshold) + 1; bin < end; bin++) count += bins[bin];
    return count;
}

void distance_of(const float *a, const float *b, int64_t count, struct distance *out)
{
    *out = (struct distance){0};
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)a[i], y = (double)b[i];
        if (!isfinite(x) || !isfinite(y)) continue;
        out->squares += (x - y) * (x - y);
        out->dot += x * y;
        out->left += x * x;
        out->right += y * y;
    }
}

void distance_merge(struct distance *into, const struct distance *other)
{
    into->squares += other->squares;
    into->dot += other->dot;
    into->left += other->left;
    into->right += other->right;
}

double distance_relative(const struct distance *distance)
{
    return distance->right > 0 ? sqrt(distance->squares / distance->right) : NAN;
}

double distance_cosine(const struct distance *distance)
{
    const double length = sqrt(distance->left) * sqrt(distance->right);
    return length > 0 ? fmax(-1, fmin(1, distance->dot / length)) : NAN;
}
