#include "backend/cpu/blas_check.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/tile_product.h"
#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Guard elements before and after each matrix, which starts one element off an aligned address; largest gap between
 * rows; elements of the largest matrix. */
enum { GUARD = 17, PAD = 3, LARGEST = 13000 * (17 + PAD) + 2 * GUARD };
static const float SENTINEL = 12345.5F;

/* Unrolled sizes of the kernels are 4 to 48, depths of a block 256 to 448, rows of one 192 to 768, columns of one up to
 * some 12,000. SkylakeX has kernels of their own below 1e6 multiply-adds. */
static const struct shape {
    int m, n, k;
} products[] =
    {
        {1, 1, 1},     {1, 1, 65},    {1, 33, 5},     {33, 1, 5},     {2, 3, 4},      {3, 2, 0},     {8, 8, 8},
        {15, 17, 16},  {16, 16, 16},  {17, 15, 33},   {24, 5, 48},    {31, 33, 32},   {47, 49, 24},  {63, 65, 64},
        {65, 1, 257},  {1, 65, 257},  {64, 48, 129},  {65, 97, 321},  {128, 96, 97},  {41, 53, 900}, {20, 41, 1601},
        {769, 24, 63}, {470, 37, 85}, {1300, 31, 29}, {17, 13000, 7}, {13000, 17, 7},
},
  triangles[] =
      {
          /* of n, and the other side of what is multiplied or solved, m */
          {1, 1, 0}, {3, 5, 0}, {1, 64, 0}, {33, 16, 0}, {17, 64, 0}, {64, 65, 0}, {128, 129, 0}, {5, 300, 0},
},
  squares[] = {
      /* of n from k rows */
      {0, 1, 1}, {0, 2, 7}, {0, 15, 16}, {0, 17, 64}, {0, 64, 33}, {0, 65, 1000}, {0, 129, 5}, {0, 321, 40},
};
static const struct scales {
    float alpha, beta;
} scales[] = {{1, 0}, {1, 1}, {-0.5F, 0.75F}};
enum { SCALES = sizeof scales / sizeof scales[0], SMALL = 20000 }; /* multiply-adds: with all scales */

struct check;

/* Who makes the products. */
struct maker {
    const char *name;
    void (*multiply)(const struct check *check, const struct gemm_args *args);
    void (*square)(const struct check *check, const struct gemm_args *args); /* the lower triangle of xᵀ x, or NULL */
    bool rounds;                                                             /* both factors, to bfloat16 */
    bool some_depth;                                                         /* is never asked for sums of nothing */
    int more;                                                                /* of u, beyond the header's k + 4 */
};

struct check {
    const struct maker *maker;
    const struct openblas *blas;
    const struct kernels *kernels;
    const struct bf16_unit *unit;
    struct tile_scratch *tiles; /* owns */
    struct trial_progress *progress;
    struct error *error;
    float *a, *b, *c, *before;   /* owned: LARGEST each, filled by lay() */
    double *left, *right, *sums; /* owned: op(a) and op(b) without gaps, a row of their product */
    double *right_norms;         /* owned */
};

/* A matrix in memory of the check: its elements come from `seed`, everything around them is `around`. */
struct laid {
    float *data;
    int64_t rows, columns, stride;
};

/* Uniform in (-1, 1); all 24 bits are used. */
static float number(uint32_t i)
{
    i = (i ^ (i >> 16)) * 0x7feb352dU;
    i = (i ^ (i >> 15)) * 0x846ca68bU;
    i ^= i >> 16;
    return ((float)(i >> 8) - 0x1p23F) * 0x1p-23F;
}

static struct laid lay(float *block, int64_t rows, int64_t columns, int64_t pad, uint32_t seed, float around)
{
    const struct laid laid = {block + GUARD, rows, columns, columns + pad};
    const int64_t all = rows * laid.stride + 2 * (int64_t)GUARD;
    for (int64_t i = 0; i < all; i++) block[i] = around;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++)
            laid.data[r * laid.stride + i] = number(seed + (uint32_t)(r * columns + i));
    return laid;
}

/* A well-conditioned triangle: the diagonal in [1, 2), the rest small; NaN below it, where no product may read. */
static void make_upper(struct laid t)
{
    const float small = 0.5F / (float)t.columns;
    for (int64_t r = 0; r < t.rows; r++) {
        float *row = t.data + r * t.stride;
        for (int64_t i = 0; i < t.columns; i++) row[i] = i < r ? NAN : i == r ? 1.5F + 0.49F * row[i] : small * row[i];
    }
}

/* op(m) into `to`, without gaps; below the diagonal of a triangle it is 0. */
static void spread(struct laid m, bool transposed, bool upper, double *to)
{
    const int64_t columns = transposed ? m.rows : m.columns;
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t i = 0; i < m.columns; i++)
            to[transposed ? i * columns + r : r * columns + i] = upper && i < r ? 0 : (double)m.data[r * m.stride + i];
}

/* To bfloat16's 8 significant bits, to nearest, ties to even: adding and taking away 2^16 last places of x does that in
 * a double. None of number()'s values is as small as bfloat16's subnormal numbers. */
static void round_all(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int exponent;
        (void)frexp(values[i], &exponent);
        const double large = ldexp(1.5, exponent + 52 - 8);
        values[i] = (values[i] + large) - large;
    }
}

/* What is to be: alpha left right + beta before = after, of the lower triangle alone where `lower`. */
struct equation {
    int64_t k;
    float alpha, beta;
    const float *before, *after;
    int64_t stride;
    bool lower;
};

static enum status wrong(const struct check *check, int64_t row, int64_t column, double is, double expected,
                         double bound)
{
    return error_set(check->error, STATUS_INTERNAL,
                     "%s: element [%lld, %lld] is %.9g, plain loops give %.9g (may differ by %.2g)",
                     check->progress->current, (long long)row, (long long)column, is, expected, bound);
}

/* Four rows of `right` at a time: half of the time went to loading and storing the sums. */
static void add_row(double *restrict sums, const double *restrict left, const double *restrict right, int64_t k,
                    int64_t n)
{
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
        const double *from = right + l * n;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            sums[j] += left[l] * from[j] + left[l + 1] * from[n + j] + left[l + 2] * from[2 * n + j] +
                       left[l + 3] * from[3 * n + j];
    }
    for (; l < k; l++)
        for (int64_t j = 0; j < n; j++) sums[j] += left[l] * right[l * n + j];
}

static void add_norms(double *restrict norms, const double *restrict right, int64_t k, int64_t n)
{
    for (int64_t j = 0; j < n; j++) norms[j] = 0;
    for (int64_t l = 0; l < k; l++) {
        const double *from = right + l * n;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) norms[j] += from[j] * from[j];
    }
    for (int64_t j = 0; j < n; j++) norms[j] = sqrt(norms[j]);
}

static enum status hold(struct check *check, int64_t m, int64_t n, struct equation equation)
{
    const double unit = (double)(equation.k + 4 + check->maker->more) * (double)FLT_EPSILON / 2;
    const double alpha = (double)equation.alpha, beta = (double)equation.beta;
    double *norms = check->right_norms;
    add_norms(norms, check->right, equation.k, n);
    for (int64_t i = 0; i < m; i++) {
        const double *left = check->left + i * equation.k;
        double norm = 0;
        for (int64_t l = 0; l < equation.k; l++) norm += left[l] * left[l];
        norm = fabs(alpha) * sqrt(norm);
        add_row(check->sums, left, check->right, equation.k, n);
        for (int64_t j = 0; j < (equation.lower ? i + 1 : n); j++) {
            const double kept = equation.beta == 0 ? 0 : beta * (double)equation.before[i * equation.stride + j];
            const double expected = alpha * check->sums[j] + kept, bound = unit * (norm * norms[j] + fabs(kept));
            const double is = (double)equation.after[i * equation.stride + j];
            if (!(fabs(is - expected) <= bound)) return wrong(check, i, j, is, expected, bound);
        }
    }
    check->progress->steps++;
    return STATUS_OK;
}

static bool untouched(const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&from[i], &SENTINEL, sizeof SENTINEL) != 0) return false;
    return true;
}

/* Checks that nothing but the matrix (if `lower`, its lower triangle) was written. */
static enum status hold_around(const struct check *check, struct laid m, bool lower)
{
    bool good = untouched(m.data - GUARD, GUARD) && untouched(m.data + m.rows * m.stride, GUARD);
    for (int64_t r = 0; good && r < m.rows; r++) {
        const int64_t end = lower ? r + 1 : m.columns;
        good = untouched(m.data + r * m.stride + end, m.stride - end);
    }
    if (good) return STATUS_OK;
    return error_set(check->error, STATUS_INTERNAL, "%s: wrote outside of its result", check->progress->current);
}

static void begin(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void begin(struct check *check, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(check->progress->current, sizeof check->progress->current, format, list);
    va_end(list);
}

static struct matrix laid_matrix(struct laid m)
{
    return (struct matrix){m.data, m.rows, m.columns, m.stride, sizeof(float)};
}

static enum status check_product(struct check *check, struct shape shape, bool transpose_a, bool transpose_b,
                                 struct scales scale, int64_t pad)
{
    const int64_t m = shape.m, n = shape.n, k = shape.k;
    const struct laid a = lay(check->a, transpose_a ? k : m, transpose_a ? m : k, pad, 1, NAN);
    const struct laid b = lay(check->b, transpose_b ? n : k, transpose_b ? k : n, pad, 1000003, NAN);
    const struct laid c = lay(check->c, m, n, pad, 2000003, SENTINEL);
    for (int64_t i = 0; i < m * c.stride && scale.beta == 0; i++)
        if (i % c.stride < n) c.data[i] = NAN;
    memcpy(check->before, check->c, (size_t)(m * c.stride + 2 * (int64_t)GUARD) * sizeof(float));
    begin(check, "%s of %d x %d x %d%s%s, alpha %g, beta %g", check->maker->name, shape.m, shape.n, shape.k,
          transpose_a ? ", a transposed" : "", transpose_b ? ", b transposed" : "", (double)scale.alpha,
          (double)scale.beta);
    const struct gemm_args args = {.a = laid_matrix(a),
                                   .b = laid_matrix(b),
                                   .c = laid_matrix(c),
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .alpha = (double)scale.alpha,
                                   .beta = (double)scale.beta};
    check->maker->multiply(check, &args);
    spread(a, transpose_a, false, check->left);
    spread(b, transpose_b, false, check->right);
    if (check->maker->rounds) {
        round_all(check->left, m * k);
        round_all(check->right, k * n);
    }
    const struct equation equation = {k, scale.alpha, scale.beta, check->before + GUARD, c.data, c.stride, false};
    const enum status status = hold(check, m, n, equation);
    return status != STATUS_OK ? status : hold_around(check, c, false);
}

/* All four combinations of transposes. For large products the scales and the gaps between rows alternate. */
static enum status check_products(struct check *check)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const struct shape shape = products[i];
        const bool all = shape.m * shape.n * shape.k <= SMALL;
        if (shape.k == 0 && check->maker->some_depth) continue;
        for (size_t ops = 0; ops < 4; ops++)
            for (size_t s = 0; s < (all ? SCALES : 1); s++) {
                const size_t turn = i + ops + s;
                status = check_product(check, shape, ops & 1, ops & 2, scales[turn % SCALES], turn % 2 == 0 ? 0 : PAD);
                if (status != STATUS_OK) return status;
            }
    }
    return STATUS_OK;
}

/* The lower triangle of xᵀ x, called as syrk_diagonal does: with beta 0 the output holds zeros before. */
static enum status check_square(struct check *check, struct shape shape, struct scales scale, int64_t pad)
{
    const int64_t n = shape.n, k = shape.k;
    const struct laid x = lay(check->a, k, n, pad, 1, NAN), c = lay(check->c, n, n, pad, 2000003, SENTINEL);
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < n; i++)
            if (i > r || scale.beta == 0) c.data[r * c.stride + i] = i > r ? SENTINEL : 0;
    memcpy(check->before, check->c, (size_t)(n * c.stride + 2 * (int64_t)GUARD) * sizeof(float));
    begin(check, "%s of %d from %d rows, alpha %g, beta %g",
          check->blas != NULL ? "cblas_ssyrk" : "the square by tile units", shape.n, shape.k, (double)scale.alpha,
          (double)scale.beta);
    const struct gemm_args args = {.a = laid_matrix(x),
                                   .b = laid_matrix(x),
                                   .c = laid_matrix(c),
                                   .transpose_a = true,
                                   .alpha = (double)scale.alpha,
                                   .beta = (double)scale.beta};
    check->maker->square(check, &args);
    spread(x, true, false, check->left);
    spread(x, false, false, check->right);
    const struct equation equation = {k, scale.alpha, scale.beta, check->before + GUARD, c.data, c.stride, true};
    const enum status status = hold(check, n, n, equation);
    return status != STATUS_OK ? status : hold_around(check, c, true);
}

/* The triangular products of run_slices: b t⁻ᵀ, t b and b t, for an upper triangle t. */
enum triangular { SOLVE_RIGHT, MULTIPLY_LEFT, MULTIPLY_RIGHT, TRIANGULAR_COUNT };

static enum status check_triangular(struct check *check, struct shape shape, enum triangular which, int64_t pad)
{
    static const char *const names[] = {"cblas_strsm from the right", "cblas_strmm from the left",
                                        "cblas_strmm from the right"};
    const bool left = which == MULTIPLY_LEFT, solve = which == SOLVE_RIGHT;
    const int64_t n = shape.n, rows = left ? n : shape.m, columns = left ? shape.m : n;
    const float alpha = left ? -1 : 1;
    const struct laid t = lay(check->a, n, n, pad, 1, NAN), x = lay(check->c, rows, columns, pad, 1000003, SENTINEL);
    const int64_t all = rows * x.stride + 2 * (int64_t)GUARD;
    struct laid given = x;
    make_upper(t);
    memcpy(check->b, check->c, (size_t)all * sizeof(float));
    given.data = check->b + GUARD;
    begin(check, "%s, a triangle of %d with %d x %d", names[which], shape.n, (int)rows, (int)columns);
    (solve ? check->blas->strsm : check->blas->strmm)(
        BLAS_ROW_MAJOR, left ? BLAS_LEFT : BLAS_RIGHT, BLAS_UPPER, solve ? BLAS_TRANSPOSED : BLAS_PLAIN, BLAS_NON_UNIT,
        (int)rows, (int)columns, alpha, t.data, (int)t.stride, x.data, (int)x.stride);
    spread(left ? t : solve ? x : given, false, left, check->left);
    spread(left ? given : t, solve, !left, check->right);
    const struct equation equation = {n, alpha, 0, NULL, solve ? given.data : x.data, x.stride, false};
    const enum status status = hold(check, rows, columns, equation);
    return status != STATUS_OK ? status : hold_around(check, x, false);
}

static enum status check_squares(struct check *check)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < SCALES * sizeof squares / sizeof squares[0]; i++)
        status = check_square(check, squares[i / SCALES], scales[i % SCALES], i % 2 == 0 ? PAD : 0);
    return status;
}

static enum status check_triangles(struct check *check)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < TRIANGULAR_COUNT * sizeof triangles / sizeof triangles[0]; i++)
        status = check_triangular(check, triangles[i / TRIANGULAR_COUNT], (enum triangular)(i % TRIANGULAR_COUNT),
                                  i % 2 == 0 ? PAD : 0);
    return status;
}

/* ---- Who makes them ---- */

static void library_multiply(const struct check *check, const struct gemm_args *args)
{
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    check->blas->sgemm(BLAS_ROW_MAJOR, args->transpose_a ? BLAS_TRANSPOSED : BLAS_PLAIN,
                       args->transpose_b ? BLAS_TRANSPOSED : BLAS_PLAIN, (int)args->c.rows, (int)args->c.columns,
                       (int)depth, (float)args->alpha, args->a.data, (int)larger(args->a.stride, 1), args->b.data,
                       (int)larger(args->b.stride, 1), (float)args->beta, args->c.data, (int)args->c.stride);
}

static void library_square(const struct check *check, const struct gemm_args *args)
{
    check->blas->ssyrk(BLAS_ROW_MAJOR, BLAS_LOWER, BLAS_TRANSPOSED, (int)args->c.rows, (int)args->a.rows,
                       (float)args->alpha, args->a.data, (int)args->a.stride, (float)args->beta, args->c.data,
                       (int)args->c.stride);
}

static void own_multiply(const struct check *check, const struct gemm_args *args)
{
    check->kernels->multiply(args);
}

static void tiles_product(const struct check *check, const struct gemm_args *args)
{
    tile_product(check->tiles, NULL, args, false);
}

static void tiles_square(const struct check *check, const struct gemm_args *args)
{
    tile_product(check->tiles, NULL, args, true);
}

static void unit_multiply(const struct check *check, const struct gemm_args *args)
{
    bf16_multiply(check->unit, args);
}

static enum status check_new(struct check *check, float **floats, double **doubles)
{
    enum status status;
    *floats = NULL;
    *doubles = NULL;
    if ((status = memory_new(4 * (int64_t)LARGEST, sizeof **floats, "a check of products", floats, check->error)) !=
            STATUS_OK ||
        (status = memory_new(4 * (int64_t)LARGEST, sizeof **doubles, "a check of products", doubles, check->error)) !=
            STATUS_OK)
        return status;
    float **const blocks[] = {&check->a, &check->b, &check->c, &check->before};
    double **const sums[] = {&check->left, &check->right, &check->sums, &check->right_norms};
    for (int i = 0; i < 4; i++) {
        *blocks[i] = *floats + (int64_t)i * LARGEST;
        *sums[i] = *doubles + (int64_t)i * LARGEST;
    }
    return STATUS_OK;
}

enum status blas_check(const struct openblas *blas, const struct kernels *kernels, struct trial_progress *progress,
                       struct error *error)
{
    static const struct maker library = {.name = "cblas_sgemm", .multiply = library_multiply, .square = library_square},
                              own = {.name = "the product kernel", .multiply = own_multiply};
    struct check check = {.maker = blas != NULL ? &library : &own,
                          .blas = blas,
                          .kernels = kernels,
                          .progress = progress,
                          .error = error};
    float *floats;
    double *doubles;
    enum status status = check_new(&check, &floats, &doubles);
    if (status == STATUS_OK) status = check_products(&check);
    if (status == STATUS_OK && blas != NULL) status = check_squares(&check);
    if (status == STATUS_OK && blas != NULL) status = check_triangles(&check);
    memory_free(doubles);
    memory_free(floats);
    return status;
}

/* Tile units leave out middle times low twice and low times low, of factors whose middle part is under 2^-7 and low
 * part under 2^-15 of the whole: 2^-21 of each product, 8 u (tiles.h). */
static enum status check_tiles(struct check *check)
{
    static const struct maker tiles = {.name = "the product by tile units",
                                       .multiply = tiles_product,
                                       .square = tiles_square,
                                       .some_depth = true,
                                       .more = 9};
    enum status status = tile_scratch_new(1, &check->tiles, check->error);
    if (status != STATUS_OK || check->tiles == NULL) return status;
    check->maker = &tiles;
    if ((status = check_products(check)) == STATUS_OK) status = check_squares(check);
    tile_scratch_free(check->tiles);
    return status;
}

enum status blas_check_units(struct trial_progress *progress, struct error *error)
{
    struct check check = {.progress = progress, .error = error};
    float *floats;
    double *doubles;
    enum status status = check_new(&check, &floats, &doubles);
    if (status == STATUS_OK) status = check_tiles(&check);
    for (int i = 0; status == STATUS_OK && bf16_units[i] != NULL; i++) {
        char name[80];
        const struct maker unit = {.name = name, .multiply = unit_multiply, .rounds = true};
        if (!bf16_units[i]->available()) continue;
        (void)snprintf(name, sizeof name, "the product in bf16 by %s", bf16_units[i]->name);
        check.maker = &unit;
        check.unit = bf16_units[i];
        status = check_products(&check);
    }
    memory_free(doubles);
    memory_free(floats);
    return status;
}
