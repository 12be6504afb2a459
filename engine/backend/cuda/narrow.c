/* narrow.c: products whose factors are rounded to bf16 before the library sees them (kernels/elementwise.h). Given
 * floats to multiply as bf16, cuBLAS 13 multiplies them as tf32, and on a H200 at 400 TFLOP/s, beside 700 of bf16
 * factors; the rounding reads and writes each factor once.
 *
 * Factors that are larger than the scratch are cut into tiles by rows and columns of the output, never along the sums.
 * The cut depends on shapes alone, so that the bits do not depend on memory. */
#include "backend/cuda/cuda.h"
#include "base/integer.h"

/* Rows are padded to ROUND numbers, 16 bytes; rows or columns of a cut are multiples of TILE. */
enum { ROUND = 8, TILE = 256, SHARE = 8, ALIGNED_BYTES = 16 };

int64_t cuda_narrow_share(int64_t budget)
{
    return smaller(budget / SHARE, 2 * (int64_t)NARROW_TILE);
}

int64_t cuda_narrow_pitch(int64_t columns)
{
    return (columns + ROUND - 1) / ROUND * ROUND;
}

static int64_t narrow_elements(int64_t rows, int64_t columns)
{
    return rows * cuda_narrow_pitch(columns);
}

/* Threads for a head: four numbers for each, or more. */
static int lanes_of(int64_t columns)
{
    int lanes = 1;
    while (lanes < KERNEL_THREADS && 4 * lanes < columns) lanes *= 2;
    return lanes;
}

void cuda_narrow(struct cuda *cuda, struct head_view from, int64_t heads, int64_t columns, uint16_t *to)
{
    const struct narrow_args args = {.from = from,
                                     .rows = from.matrix.rows,
                                     .heads = heads,
                                     .columns = columns,
                                     .to = (uint32_t *)(void *)to,
                                     .pitch = cuda_narrow_pitch(columns),
                                     .lanes = lanes_of(columns)};
    if (columns > 0) cuda_launch(cuda, KERNEL_narrow, cuda_blocks(args.rows * heads * args.lanes), &args);
}

/* `count` numbers without gaps, from and to multiples of 16 bytes. */
static void narrow_all(struct cuda *cuda, const float *from, int64_t count, uint16_t *to)
{
    const struct narrow_all_args args = {from, (uint32_t *)(void *)to, count};
    cuda_launch(cuda, KERNEL_narrow_all, cuda_blocks((count / 4 + NARROW_FOURS - 1) / NARROW_FOURS), &args);
}

/* `m` in bf16 at `to`. */
static struct matrix narrow(struct cuda *cuda, struct matrix m, uint16_t *to)
{
    const int64_t pitch = cuda_narrow_pitch(m.columns);
    if (m.stride == m.columns && pitch == m.columns && (uintptr_t)m.data % ALIGNED_BYTES == 0)
        narrow_all(cuda, m.data, m.rows * m.columns, to);
    else
        cuda_narrow(cuda, (struct head_view){.matrix = m}, 1, m.columns, to);
    return (struct matrix){to, m.rows, m.columns, pitch, sizeof *to};
}

/* The place of `m` in the copy of the parameters, where it has the pitch that it would have if it were rounded here, so
 * that the library is asked for the very same product. */
static bool find_copy(const struct cuda *cuda, struct matrix m, struct matrix *copy)
{
    const struct cuda_rounded *rounded = &cuda->rounded;
    const uintptr_t begin = (uintptr_t)rounded->numbers, at = (uintptr_t)m.data,
                    end = begin + (uintptr_t)rounded->elements * sizeof(float);
    if (rounded->copy == NULL || at < begin || at >= end || m.stride != cuda_narrow_pitch(m.columns)) return false;
    const int64_t first = (int64_t)((at - begin) / sizeof(float));
    if (first % ROUND != 0 || first + m.rows * m.stride > rounded->elements) return false;
    *copy = (struct matrix){rounded->copy + first, m.rows, m.columns, m.stride, sizeof(uint16_t)};
    return true;
}

static int64_t rounding_bytes(const struct backend *backend, int64_t elements)
{
    const struct cuda *cuda = backend->state;
    return cuda->rounds ? elements * (int64_t)sizeof(uint16_t) : 0;
}

static void rounding_begin(struct backend *backend, const void *numbers, int64_t elements, void *copy)
{
    struct cuda *cuda = cuda_enter(backend);
    (void)narrow(cuda, matrix_of((void *)(uintptr_t)numbers, 1, elements, sizeof(float)), copy);
    cuda->rounded = (struct cuda_rounded){numbers, elements, copy};
    cuda_leave(cuda);
}

static void rounding_end(struct backend *backend)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda->rounded.copy = NULL;
    cuda_leave(cuda);
}

const struct rounding_ops cuda_rounding = {.bytes = rounding_bytes, .begin = rounding_begin, .end = rounding_end};

/* A factor of a product: rows (or columns) of the output belong to its rows, or to its columns if it is read
 * transposed. */
struct factor {
    struct matrix matrix;
    bool by_columns;
};

static int64_t along(struct factor f)
{
    return f.by_columns ? f.matrix.columns : f.matrix.rows;
}

/* How many rows or columns of the output a tile has. */
static int64_t tile_of(const struct cuda *cuda, struct factor f)
{
    const int64_t sums = f.by_columns ? f.matrix.rows : f.matrix.columns;
    const int64_t most =
        cuda->narrow_tile / (int64_t)sizeof(uint16_t) / larger(cuda_narrow_pitch(sums), 1) / TILE * TILE;
    return smaller(along(f), larger(most, TILE));
}

static struct matrix part_of(struct factor f, int64_t first, int64_t count)
{
    return f.by_columns ? matrix_columns(f.matrix, first, count) : matrix_rows(f.matrix, first, count);
}

static int64_t part_elements(struct factor f, int64_t count)
{
    const struct matrix m = part_of(f, 0, count);
    return narrow_elements(m.rows, m.columns);
}

static bool whole(const struct cuda *cuda, struct factor f)
{
    return tile_of(cuda, f) == along(f);
}

uint16_t *cuda_narrow_beside(struct cuda *cuda, struct matrix m)
{
    const bool fits = whole(cuda, (struct factor){m, false}) && whole(cuda, (struct factor){m, true});
    if (cuda->status != STATUS_OK || !cuda->device->narrow || !fits) return NULL;
    uint16_t *memory = cuda_narrow_scratch(cuda, (size_t)narrow_elements(m.rows, m.columns) * sizeof *memory);
    cuda->narrowed = memory != NULL ? m : (struct matrix){0};
    cuda->narrowed_at = memory;
    return memory;
}

static bool same(struct matrix a, struct matrix b)
{
    return a.data == b.data && a.rows == b.rows && a.columns == b.columns && a.stride == b.stride;
}

/* The tile of `a` at the beginning of the scratch. Products that follow each other directly often have the same one:
 * queries, keys and values of the same rows. It is kept as long as nothing else is asked of the backend
 * (cuda_enter). The product that kept it did not change it: an output aliases no factor (struct gemm_args). A product
 * that finds its `a` in the copy of the parameters writes the tile of its `b` over the one that was kept. */
static struct matrix tile_a(struct cuda *cuda, struct matrix a, uint16_t *memory)
{
    struct matrix copy;
    if (find_copy(cuda, a, &copy)) {
        cuda->narrowed.data = NULL;
        return copy;
    }
    const bool there = same(cuda->narrowed, a) && cuda->narrowed_at == memory;
    cuda->narrowed = a;
    cuda->narrowed_at = memory;
    if (there) return (struct matrix){memory, a.rows, a.columns, cuda_narrow_pitch(a.columns), sizeof *memory};
    return narrow(cuda, a, memory);
}

/* The tile of `b` behind it. */
static struct matrix tile_b(struct cuda *cuda, struct matrix b, uint16_t *memory)
{
    struct matrix copy;
    return find_copy(cuda, b, &copy) ? copy : narrow(cuda, b, memory);
}

void cuda_narrow_multiply(struct cuda *cuda, const struct gemm_args *args)
{
    const struct factor a = {args->a, args->transpose_a}, b = {args->b, !args->transpose_b};
    const int64_t rows = tile_of(cuda, a), columns = tile_of(cuda, b), a_elements = part_elements(a, rows);
    uint16_t *memory =
        cuda_narrow_scratch(cuda, (size_t)(a_elements + part_elements(b, columns) + ROUND) * sizeof *memory);
    struct gemm_args call = *args;
    if (memory == NULL) return;
    for (int64_t row = 0; row < along(a); row += rows) {
        const int64_t row_count = smaller(rows, along(a) - row);
        call.a = tile_a(cuda, part_of(a, row, row_count), memory);
        for (int64_t column = 0; column < along(b); column += columns) {
            const int64_t column_count = smaller(columns, along(b) - column);
            if (row == 0 || columns < along(b))
                call.b = tile_b(cuda, part_of(b, column, column_count), memory + a_elements);
            call.c = matrix_columns(matrix_rows(args->c, row, row_count), column, column_count);
            cuda_multiply(cuda, &call);
        }
    }
}

void cuda_narrow_triangle(struct cuda *cuda, struct matrix c, struct matrix x, double alpha, double beta)
{
    const int64_t most = cuda->narrow_tile / (int64_t)sizeof(uint16_t) / larger(cuda_narrow_pitch(x.columns), 1);
    const int64_t tokens = smaller(x.rows, larger(most, 1));
    uint16_t *memory = cuda_narrow_scratch(cuda, (size_t)(narrow_elements(tokens, x.columns) + ROUND) * sizeof *memory);
    cuda->narrowed.data = NULL;
    for (int64_t first = 0; first < x.rows && memory != NULL; first += tokens)
        cuda_triangle(cuda, c, narrow(cuda, matrix_rows(x, first, smaller(tokens, x.rows - first)), memory), alpha,
                      first == 0 ? beta : 1);
    if (x.rows == 0) cuda_triangle(cuda, c, x, alpha, beta);
}
