/* gemm.c: matrix products cut into tiles of c. Each tile is one single-threaded call: of our own kernel if packing
 * would be expensive for OpenBLAS, otherwise of OpenBLAS. The cut and the choice depend on the shape alone. */
#include "backend/cpu/cpu.h"

/* Whether our own kernel is faster, measured at the shapes of attention and of models of 100 to 1000 channels (GFLOP/s,
 * ours against OpenBLAS: 256 x 64 x 512 182 to 141, 512 x 192 x 192 178 to 154, 192 x 192 x 2048 transposed 157 to 141,
 * 512 x 768 x 768 155 to 166). With few rows our packing of b does not pay. */
static bool narrow(int64_t rows, int64_t columns, int64_t depth)
{
    return rows >= 32 && ((columns <= 512 && depth <= 2048) || depth <= 320);
}

static struct gemm_args args_of(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                                const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta,
                                float *c, int64_t c_stride)
{
    union {
        const float *from;
        void *to;
    } a_data = {a}, b_data = {b}; /* struct matrix has no const; gemm only reads these two */
    return (struct gemm_args){
        .a = {a_data.to, transpose_a ? k : m, transpose_a ? m : k, a_stride, sizeof(float)},
        .b = {b_data.to, transpose_b ? n : k, transpose_b ? k : n, b_stride, sizeof(float)},
        .c = {c, m, n, c_stride, sizeof(float)},
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .alpha = (double)alpha,
        .beta = (double)beta,
    };
}

void cpu_multiply(const struct cpu *cpu, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  float alpha, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c,
                  int64_t c_stride)
{
    if (cpu->blas.library != NULL && !narrow(m, n, k)) {
        cpu->blas.sgemm(BLAS_ROW_MAJOR, transpose_a ? BLAS_TRANSPOSED : BLAS_PLAIN,
                        transpose_b ? BLAS_TRANSPOSED : BLAS_PLAIN, (int)m, (int)n, (int)k, alpha, a, (int)a_stride, b,
                        (int)b_stride, beta, c, (int)c_stride);
        return;
    }
    const struct gemm_args args =
        args_of(transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
    cpu->kernels->multiply(&args);
}

void cpu_product(const struct cpu *cpu, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c,
                 int64_t c_stride)
{
    if (!cpu->rounds) {
        cpu_multiply(cpu, transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
        return;
    }
    const struct gemm_args args =
        args_of(transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
    if (cpu->bf16 != NULL)
        bf16_multiply(cpu->bf16, &args);
    else
        cpu->kernels->multiply_rounded(&args);
}

/* Tiles of 1024 x 1536 if that makes enough of them, otherwise about 512 x 768: packing the operands costs about one
 * part in a tile's rows and one in its columns (single-threaded, GFLOP/s: 163 with the large tiles, 153 with the small,
 * 172 uncut). A product of a single tile is halved if two threads are faster, and cut in up to four if the tiles stay
 * large. */
enum { TILE_ROWS = 1024, TILE_COLUMNS = 1536, TILE_ALIGN = 16, TILES_ENOUGH = 8, TILE_SMALL = 512 * 768 };
enum { NARROW_ROWS = 512 }; /* our own kernel keeps so many rows of a in the second-level cache */

struct tiling {
    int64_t tile_rows, tile_columns, down, across;
};

static bool too_few(struct tiling tiling, int64_t depth)
{
    const double worth_two = 4e6, worth_four = 1e8; /* multiply-adds: some 50 microseconds, and some milliseconds */
    const int64_t tiles = tiling.down * tiling.across, area = tiling.tile_rows * tiling.tile_columns;
    const double work = (double)area * (double)depth;
    return (tiles < TILES_ENOUGH && area > TILE_SMALL && work > worth_four) || (tiles < 4 && work > worth_four) ||
           (tiles < 2 && work > worth_two);
}

static struct tiling tiling_of(int64_t rows, int64_t columns, int64_t depth, bool is_narrow)
{
    struct tiling tiling = {.down = ceil_divide(rows, is_narrow ? NARROW_ROWS : TILE_ROWS),
                            .across = ceil_divide(columns, TILE_COLUMNS)};
    for (;;) {
        tiling.tile_rows = ceil_divide(ceil_divide(rows, tiling.down), TILE_ALIGN) * TILE_ALIGN;
        tiling.tile_columns = ceil_divide(ceil_divide(columns, tiling.across), TILE_ALIGN) * TILE_ALIGN;
        if (!too_few(tiling, depth)) break;
        if (tiling.tile_rows >= tiling.tile_columns)
            tiling.down *= 2;
        else
            tiling.across *= 2;
    }
    tiling.down = ceil_divide(rows, tiling.tile_rows);
    tiling.across = ceil_divide(columns, tiling.tile_columns);
    return tiling;
}

struct product {
    const struct cpu *cpu;
    const struct gemm_args *args;
    struct tiling tiling;
    int64_t depth;
};

static void gemm_tile(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct product *product = context;
    const struct gemm_args *args = product->args;
    const int64_t row = i / product->tiling.across * product->tiling.tile_rows;
    const int64_t column = i % product->tiling.across * product->tiling.tile_columns;
    const float *a = (const float *)args->a.data + (args->transpose_a ? row : row * args->a.stride);
    const float *b = (const float *)args->b.data + (args->transpose_b ? column * args->b.stride : column);
    (args->exact ? cpu_multiply : cpu_product)(
        product->cpu, args->transpose_a, args->transpose_b, smaller(product->tiling.tile_rows, args->c.rows - row),
        smaller(product->tiling.tile_columns, args->c.columns - column), product->depth, (float)args->alpha, a,
        args->a.stride, b, args->b.stride, (float)args->beta, float_row(args->c, row) + column, args->c.stride);
}

void cpu_gemm(struct backend *backend, const struct gemm_args *args)
{
    struct product product = {.cpu = cpu_of(backend), .args = args};
    if (args->c.rows == 0 || args->c.columns == 0) return;
    product.depth = args->transpose_a ? args->a.rows : args->a.columns;
    const bool rounds = product.cpu->rounds && !args->exact;
    if (!rounds && product.cpu->tiles != NULL && tile_product_pays(args->c.rows, args->c.columns, product.depth)) {
        tile_product(product.cpu->tiles, backend->team, args, false);
        return;
    }
    product.tiling = tiling_of(args->c.rows, args->c.columns, product.depth,
                               rounds || narrow(args->c.rows, args->c.columns, product.depth));
    team_run(backend->team, product.tiling.down * product.tiling.across, gemm_tile, &product);
}

/* The lower triangle of c in square tiles: syrk on the diagonal, gemm below it. */
enum { SYRK_TILE = 640 };

struct triangle {
    const struct cpu *cpu;
    struct matrix c, x;
    float alpha, beta;
    int64_t tile;
};

/* Without OpenBLAS: blocks of 64 columns; those on the diagonal are computed as a whole square in scratch first. */
static void syrk_plain(const struct triangle *triangle, int64_t first, int64_t count)
{
    enum { BLOCK = 64 };
    float square[BLOCK * BLOCK];
    const int64_t rows = triangle->x.rows, stride = triangle->x.stride;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t height = smaller(BLOCK, count - i);
        const float *x = (const float *)triangle->x.data + first;
        float *c = float_row(triangle->c, first + i) + first;
        cpu_multiply(triangle->cpu, true, false, height, i, rows, triangle->alpha, x + i, stride, x, stride,
                     triangle->beta, c, triangle->c.stride);
        cpu_multiply(triangle->cpu, true, false, height, height, rows, triangle->alpha, x + i, stride, x + i, stride, 0,
                     square, BLOCK);
        for (int64_t r = 0; r < height; r++)
            triangle->cpu->kernels->add(c + r * triangle->c.stride + i, square + r * BLOCK, r + 1, 1, triangle->beta);
    }
}

static void syrk_diagonal(const struct triangle *triangle, int64_t first, int64_t count)
{
    float *c = float_row(triangle->c, first) + first;
    const float *x = (const float *)triangle->x.data + first;
    if (triangle->cpu->blas.library == NULL) {
        syrk_plain(triangle, first, count);
        return;
    }
    /* some versions multiply by a zero beta, which keeps a NaN */
    for (int64_t i = 0; triangle->beta == 0 && i < count; i++)
        triangle->cpu->kernels->fill(c + i * triangle->c.stride, i + 1, 0);
    triangle->cpu->blas.ssyrk(BLAS_ROW_MAJOR, BLAS_LOWER, BLAS_TRANSPOSED, (int)count, (int)triangle->x.rows,
                              triangle->alpha, x, (int)triangle->x.stride, triangle->beta, c, (int)triangle->c.stride);
}

/* Task i is tile (row, column), column <= row, counted row by row. */
static void syrk_tile(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct triangle *triangle = context;
    int64_t row = 0, before = 0;
    while (before + row + 1 <= i) before += ++row;
    const int64_t top = row * triangle->tile, left = (i - before) * triangle->tile;
    const int64_t height = smaller(triangle->tile, triangle->c.rows - top),
                  width = smaller(triangle->tile, triangle->c.rows - left);
    const float *x = triangle->x.data;
    if (top == left)
        syrk_diagonal(triangle, top, height);
    else
        cpu_multiply(triangle->cpu, true, false, height, width, triangle->x.rows, triangle->alpha, x + top,
                     triangle->x.stride, x + left, triangle->x.stride, triangle->beta,
                     float_row(triangle->c, top) + left, triangle->c.stride);
}

void cpu_syrk(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta)
{
    struct triangle triangle = {cpu_of(backend), c, x, (float)alpha, (float)beta, SYRK_TILE};
    if (triangle.cpu->tiles != NULL && tile_product_pays(c.rows, c.rows, x.rows)) {
        const struct gemm_args args = {.a = x, .b = x, .c = c, .transpose_a = true, .alpha = alpha, .beta = beta};
        tile_product(triangle.cpu->tiles, backend->team, &args, true);
        return;
    }
    const int64_t parts = larger(c.rows >= 128 ? 2 : 1, ceil_divide(c.rows, SYRK_TILE));
    triangle.tile = ceil_divide(ceil_divide(c.rows, parts), TILE_ALIGN) * TILE_ALIGN;
    const int64_t tiles = triangle.tile > 0 ? ceil_divide(c.rows, triangle.tile) : 0;
    team_run(backend->team, tiles * (tiles + 1) / 2, syrk_tile, &triangle);
}
