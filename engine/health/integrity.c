#include "health/integrity.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { NEIGHBOURS = 8, NEIGHBOURS_LEAST = 4, SPACINGS = 4, LONGEST = 2 * NEIGHBOURS };
#define JUMP_SCORE  5.0
#define JUMP_FACTOR 2.0
#define GAP_FACTOR  1.75

/* The distance of weights grows with a power of the steps between these two: a random walk, and a straight line. */
static const double exponents[] = {0.5, 1};
enum { EXPONENTS = sizeof exponents / sizeof exponents[0] };

/* ---- equal weights, whole or in part ---- */

/* An occurrence of a key: in file `place` of a checkpoint, or as matrix `place`. */
struct entry {
    uint64_t key;
    int64_t point, place;
};

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->point != b->point) return a->point < b->point ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static void find_groups(const struct integrity_point *points, struct entry *entries, struct integrity *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < out->count; i++) {
        out->groups[i] = -1;
        if (points[i].measured) entries[count++] = (struct entry){points[i].content, i, 0};
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && entries[end].key == entries[i].key; end++) continue;
        for (int64_t k = i; k < end && end - i > 1; k++) {
            out->groups[entries[k].point] = entries[i].point;
            out->flags[entries[k].point] |= INTEGRITY_IDENTICAL;
        }
    }
}

static bool same_content(const struct integrity_point *points, int64_t a, int64_t b)
{
    return points[a].content == points[b].content;
}

/* Handles the entries of one key, ascending by point: sets each one's `partner` to the first point with other content
 * (-1: none). Returns whether the key occurs in all `measured` checkpoints. */
static bool partners(const struct integrity_point *points, const struct entry *entries, int64_t count, int64_t measured,
                     int64_t *partner)
{
    int64_t different = 1, other = -1;
    for (int64_t i = 1; i < count; i++) {
        different += entries[i].point != entries[i - 1].point;
        if (other < 0 && !same_content(points, entries[i].point, entries[0].point)) other = entries[i].point;
    }
    for (int64_t i = 0; i < count; i++)
        partner[i] = same_content(points, entries[i].point, entries[0].point) ? other : entries[0].point;
    return different == measured;
}

/* Lists the matrices whose key may occur more than once, so that the others, nearly all, need not be sorted. Keys are
 * hashes, so some of their bits choose a counter; `seen` [1 << bits] is zero. */
static int64_t list_repeated(const struct integrity_point *points, int64_t count, unsigned char *seen, int bits,
                             struct entry *entries)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t m = 0; points[i].measured && m < points[i].matrix_count; m++) {
            unsigned char *counter = &seen[points[i].matrices[m] & mask];
            if (*counter < 2) ++*counter;
        }
    for (int64_t i = 0; i < count; i++)
        for (int64_t m = 0; points[i].measured && m < points[i].matrix_count; m++)
            if (seen[points[i].matrices[m] & mask] > 1) entries[found++] = (struct entry){points[i].matrices[m], i, m};
    return found;
}

/* Sets `partner` of every matrix of every checkpoint to the other checkpoint that has it too, or to -1. `offsets`:
 * index of each checkpoint's first matrix in `partner`. */
static void find_partners(const struct integrity_point *points, const int64_t *offsets, struct entry *entries,
                          int64_t count, int64_t *scratch, int64_t *partner, struct integrity *out)
{
    int64_t measured = 0;
    for (int64_t i = 0; i < out->count; i++) {
        measured += points[i].measured;
        for (int64_t m = 0; points[i].measured && m < points[i].matrix_count; m++) partner[offsets[i] + m] = -1;
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && entries[end].key == entries[i].key; end++) continue;
        const bool all = partners(points, entries + i, end - i, measured, scratch);
        if (all && measured > 1 && scratch[0] >= 0) out->constant++;
        for (int64_t k = i; k < end; k++)
            partner[offsets[entries[k].point] + entries[k].place] = all ? -1 : scratch[k - i];
    }
}

/* Index of a file of `point` that is complete in checkpoint `with` and has a matrix which is not constant; -1: none. */
static int32_t shared_file(const struct integrity_point *points, int64_t point, int64_t with, const int64_t *partner)
{
    for (int32_t f = 0; f < points[point].file_count; f++)
        for (int64_t other = 0; other < points[with].file_count; other++)
            if (points[point].files[f].key == points[with].files[other].key)
                for (int64_t m = 0; m < points[point].matrix_count; m++)
                    if (points[point].homes[m] == f && partner[m] >= 0) return f;
    return -1;
}

/* Records the checkpoint that shares most matrices with checkpoint `point`, if any. */
static void find_share(const struct integrity_point *points, int64_t point, const int64_t *partner, int64_t *counts,
                       struct integrity *out)
{
    int64_t best = -1, example = 0;
    for (int64_t i = 0; i < out->count; i++) counts[i] = 0;
    for (int64_t m = 0; m < points[point].matrix_count; m++)
        if (partner[m] >= 0 && (++counts[partner[m]] > (best < 0 ? 0 : counts[best]))) best = partner[m];
    if (best < 0) return;
    for (int64_t m = points[point].matrix_count; m-- > 0;)
        if (partner[m] == best) example = m;
    out->shares[out->share_count++] = (struct integrity_share){
        .point = point,
        .with = best,
        .file = shared_file(points, point, best, partner),
        .matrices = counts[best],
        .example = example,
    };
}

/* ---- jumps ---- */

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Distance of checkpoint `i` from the one before it, in all or in its file `file`; *between: steps, or 1 when
 * unknown. */
static double distance(const struct integrity_point *points, int64_t i, int32_t file, double *between)
{
    const struct integrity_point *point = &points[i];
    *between = 1;
    if (!point->measured || point->previous < 0 || file >= point->file_count) return NAN;
    const double relative = file < 0 ? point->relative : point->files[file].relative;
    const int64_t steps =
        point->step >= 0 && points[point->previous].step >= 0 ? point->step - points[point->previous].step : 0;
    if (!(relative > 0) || !isfinite(relative)) return NAN;
    if (steps > 0) *between = (double)steps;
    return relative;
}

static bool unmoved(const struct integrity_point *point, int32_t file)
{
    const double relative = file < 0 ? point->relative : file < point->file_count ? point->files[file].relative : NAN;
    return relative <= 0;
}

/* Median and scaled median absolute deviation of the levels around `at`; false: there are too few. */
static bool around(const double *levels, int64_t count, int64_t at, double *middle, double *spread)
{
    double near[LONGEST];
    int64_t found = 0;
    for (int64_t k = at - 1, taken = 0; k >= 0 && taken < NEIGHBOURS; k--)
        if (isfinite(levels[k])) near[found++] = levels[k], taken++;
    for (int64_t k = at + 1, taken = 0; k < count && taken < NEIGHBOURS; k++)
        if (isfinite(levels[k])) near[found++] = levels[k], taken++;
    if (found < NEIGHBOURS_LEAST) return false;
    *middle = median(near, found);
    for (int64_t k = 0; k < found; k++) near[k] = fabs(near[k] - *middle);
    *spread = fmax(1.4826 * median(near, found), log(JUMP_FACTOR) / JUMP_SCORE);
    return true;
}

static bool known(const struct integrity *out, int64_t point)
{
    for (int64_t i = 0; i < out->jump_count; i++)
        if (out->jumps[i].point == point) return true;
    return false;
}

/* Fills *out for checkpoint `i`; false: it does not jump. */
static bool judge(const struct integrity_point *points, const double *levels, int64_t count, int64_t i, int32_t file,
                  struct integrity_jump *out)
{
    double between;
    *out = (struct integrity_jump){
        .point = i, .file = file, .relative = distance(points, i, file, &between), .score = INFINITY};
    if (!isfinite(out->relative)) return false;
    for (int e = 0; e < EXPONENTS; e++) {
        double middle, spread;
        const double *own = levels + e * count;
        if (!around(own, count, i, &middle, &spread)) return false;
        out->score = fmin(out->score, (own[i] - middle) / spread);
        out->expected = fmax(out->expected, exp(middle + exponents[e] * log(between)));
    }
    return out->score > JUMP_SCORE;
}

/* Finds the jumps of one file over the trajectory, or of whole checkpoints. One jump per checkpoint is kept; a jump of
 * the whole takes precedence over that of a file. */
static void find_jumps(const struct integrity_point *points, int32_t file, double *levels, struct integrity *out)
{
    int64_t last = -2;
    for (int e = 0; e < EXPONENTS; e++)
        for (int64_t i = 0; i < out->count; i++) {
            double between;
            const double relative = distance(points, i, file, &between);
            levels[e * out->count + i] = log(relative) - exponents[e] * log(between); /* NaN stays NaN */
        }
    for (int64_t i = 0; i < out->count; i++) {
        struct integrity_jump jump;
        if (points[i].measured && points[i].previous == last && unmoved(&points[i], file))
            last = i; /* equal to a checkpoint that jumped: it jumped as well */
        if (!judge(points, levels, out->count, i, file, &jump)) continue;
        if (points[i].previous == last) { /* the way back from a jump: the checkpoint before jumped, this one did not */
            last = -2;
            continue;
        }
        last = i;
        if (known(out, i)) continue;
        out->jumps[out->jump_count++] = jump;
        out->flags[i] |= INTEGRITY_JUMP;
    }
}

static int compare_jumps(const void *left, const void *right)
{
    const struct integrity_jump *a = left, *b = right;
    return a->point < b->point ? -1 : a->point > b->point;
}

/* If exactly one of two checkpoints that share a part jumps, it is the wrong one. If neither or both jump, it is
 * unknown which one is wrong, and both shares stay. */
static void blame_shares(struct integrity *out)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < out->share_count; i++) {
        const struct integrity_share *share = &out->shares[i];
        const bool here = (out->flags[share->point] & INTEGRITY_JUMP) != 0,
                   there = (out->flags[share->with] & INTEGRITY_JUMP) != 0;
        if (there && !here) continue;
        out->flags[share->point] |= INTEGRITY_MIXED;
        out->shares[kept++] = *share;
    }
    out->share_count = kept;
}

/* ---- gaps ---- */

static double side(const double *spacings, int64_t count, int64_t from, int64_t by, double *least, double *most)
{
    double near[SPACINGS];
    int64_t found = 0;
    for (int64_t k = from; k >= 0 && k < count && found < SPACINGS; k += by) near[found++] = spacings[k];
    if (found == 0) return NAN;
    const double middle = median(near, found);
    *least = near[0];
    *most = near[found - 1];
    return middle;
}

/* `order`: indexes of the points that have a step; spacings[k] is the spacing of order[k] and order[k + 1]. */
static void find_gaps(const int64_t *order, const double *spacings, int64_t count, struct integrity *out)
{
    for (int64_t k = 0; k < count; k++) {
        double least = 1, most = 1;
        const double left = side(spacings, count, k - 1, -1, &least, &most),
                     right = side(spacings, count, k + 1, 1, &least, &most);
        const double expected = fmax(left, right); /* of a number and NaN, fmax gives the number */
        if (!isfinite(expected) || spacings[k] < GAP_FACTOR * expected) continue;
        if ((isnan(left) || isnan(right)) && most > GAP_FACTOR * least) continue; /* an end, where spacings grow */
        out->gaps[out->gap_count++] = (struct integrity_gap){
            .after = order[k], .before = order[k + 1], .missing = llround(spacings[k] / expected) - 1};
    }
}

static int64_t list_spacings(const struct integrity_point *points, int64_t count, int64_t *order, double *spacings)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].step < 0 || (found > 0 && points[i].step <= points[order[found - 1]].step)) continue;
        order[found] = i;
        if (found > 0) spacings[found - 1] = (double)(points[i].step - points[order[found - 1]].step);
        found++;
    }
    return found > 0 ? found - 1 : 0;
}

/* ---- the whole search ---- */

struct scratch {
    struct entry *entries;
    int64_t *partner, *offsets, *order, *some;
    double *numbers;
    unsigned char *seen; /* [1 << bits] */
    int bits;
};

static enum status scratch_new(const struct integrity_point *points, int64_t count, struct scratch *out, int32_t *files,
                               struct error *error)
{
    int64_t matrices = 0;
    enum status status;
    if ((status = memory_new(count, sizeof(int64_t), "integrity", &out->offsets, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < count; i++) {
        out->offsets[i] = matrices;
        if (!points[i].measured) continue;
        matrices += points[i].matrix_count;
        if (points[i].file_count > *files) *files = (int32_t)points[i].file_count;
    }
    const int64_t most = matrices > count ? matrices : count;
    for (out->bits = 10; out->bits < 30 && (INT64_C(1) << out->bits) < 8 * matrices; out->bits++) continue;
    if ((status = memory_new(INT64_C(1) << out->bits, 1, "integrity", &out->seen, error)) != STATUS_OK) return status;
    if ((status = memory_new(most, sizeof *out->entries, "integrity", &out->entries, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof(int64_t), "integrity", &out->some, error)) != STATUS_OK ||
        (status = memory_new(matrices, sizeof(int64_t), "integrity", &out->partner, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof(int64_t), "integrity", &out->order, error)) != STATUS_OK)
        return status;
    return memory_new(EXPONENTS * count, sizeof(double), "integrity", &out->numbers, error);
}

static void scratch_free(struct scratch *scratch)
{
    memory_free(scratch->entries);
    memory_free(scratch->partner);
    memory_free(scratch->offsets);
    memory_free(scratch->order);
    memory_free(scratch->some);
    memory_free(scratch->numbers);
    memory_free(scratch->seen);
}

static enum status out_new(int64_t count, struct integrity *out, struct error *error)
{
    enum status status;
    *out = (struct integrity){.count = count};
    if ((status = memory_new(count, sizeof *out->flags, "integrity", &out->flags, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof *out->groups, "integrity", &out->groups, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof *out->shares, "integrity", &out->shares, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof *out->jumps, "integrity", &out->jumps, error)) != STATUS_OK)
        return status;
    return memory_new(count, sizeof *out->gaps, "integrity", &out->gaps, error);
}

enum status integrity_find(const struct integrity_point *points, int64_t count, struct integrity *out,
                           struct error *error)
{
    struct scratch scratch = {0};
    int32_t files = 0;
    enum status status;
    if ((status = out_new(count, out, error)) != STATUS_OK) goto done;
    if ((status = scratch_new(points, count, &scratch, &files, error)) != STATUS_OK) goto done;
    find_groups(points, scratch.entries, out);
    find_partners(points, scratch.offsets, scratch.entries,
                  list_repeated(points, count, scratch.seen, scratch.bits, scratch.entries), scratch.some,
                  scratch.partner, out);
    for (int64_t i = 0; i < count; i++) {
        if (!points[i].measured) continue;
        if (points[i].not_finite > 0) out->flags[i] |= INTEGRITY_NOT_FINITE;
        find_share(points, i, scratch.partner + scratch.offsets[i], scratch.some, out);
    }
    for (int32_t file = -1; file < (files > 1 ? files : 0); file++) find_jumps(points, file, scratch.numbers, out);
    qsort(out->jumps, (size_t)out->jump_count, sizeof *out->jumps, compare_jumps);
    blame_shares(out);
    find_gaps(scratch.order, scratch.numbers, list_spacings(points, count, scratch.order, scratch.numbers), out);
done:
    scratch_free(&scratch);
    if (status != STATUS_OK) integrity_reset(out);
    return status;
}

void integrity_reset(struct integrity *integrity)
{
    memory_free(integrity->flags);
    memory_free(integrity->groups);
    memory_free(integrity->shares);
    memory_free(integrity->jumps);
    memory_free(integrity->gaps);
    *integrity = (struct integrity){0};
}
