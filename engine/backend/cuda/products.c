/* products.c: matrix products by cuBLAS, which is column-major: a row-major matrix is its own transpose there, so c = a
 * b becomes cᵀ = bᵀ aᵀ with the same memory. Also the inverse Cholesky factor, in blocks, from products and two small
 * kernels, in single precision. */
#include "backend/cuda/cuda.h"

#include <inttypes.h>
#include <stdio.h>

enum { PRODUCT_TEXT = 200 };

/* Names the product row-major, like the slots: "the product [2048, 4096] = [2048, 11008] [11008, 4096]". */
static void name_product(const struct device_gemm *g, int64_t batch, char *text, size_t size)
{
    char times[32] = "";
    if (batch > 0) (void)snprintf(times, sizeof times, "%" PRId64 " times ", batch);
    (void)snprintf(text, size,
                   "the product %s[%" PRId64 ", %" PRId64 "] = [%" PRId64 ", %" PRId64 "]%s [%" PRId64 ", %" PRId64
                   "]%s%s",
                   times, g->n, g->m, g->transpose_b ? g->k : g->n, g->transpose_b ? g->n : g->k,
                   g->transpose_b ? "ᵀ" : "", g->transpose_a ? g->m : g->k, g->transpose_a ? g->k : g->m,
                   g->transpose_a ? "ᵀ" : "", g->exact ? ", exact" : "");
}

void cuda_product_done(struct cuda *cuda, const struct device_gemm *g, int64_t batch, int code)
{
    char what[PRODUCT_TEXT];
    if ((code = cuda_careful(cuda, code)) == 0 && !cuda->profile.on) return;
    name_product(g, batch, what, sizeof what);
    if (code == 0 && batch > 0) (void)snprintf(what, sizeof what, "batches of products");
    profile_add(&cuda->profile, what);
    if (code == 0) return;
    (void)cuda_good(cuda, what, code);
}

/* As they are: floats, which the library multiplies as the device was opened, or bf16. */
static void multiply_as_they_are(struct cuda *cuda, const struct gemm_args *args)
{
    const struct device_gemm call = {
        .transpose_a = args->transpose_b,
        .transpose_b = args->transpose_a,
        .m = args->c.columns,
        .n = args->c.rows,
        .k = args->transpose_a ? args->a.rows : args->a.columns,
        .alpha = (float)args->alpha,
        .beta = (float)args->beta,
        .a = args->b.data,
        .b = args->a.data,
        .c = args->c.data,
        .lda = args->b.stride,
        .ldb = args->a.stride,
        .ldc = args->c.stride,
        .exact = args->exact,
        .bf16 = args->a.element == sizeof(uint16_t),
    };
    cuda_product_done(cuda, &call, 0, cuda->device->gemm(cuda->device, &call));
}

static bool rounds(const struct cuda *cuda, const struct gemm_args *args)
{
    return cuda->device->narrow && !args->exact && args->a.element == sizeof(float);
}

static bool empty(const struct cuda *cuda, const struct gemm_args *args)
{
    return args->c.rows == 0 || args->c.columns == 0 || cuda->status != STATUS_OK;
}

void cuda_multiply(struct cuda *cuda, const struct gemm_args *args)
{
    if (empty(cuda, args)) return;
    if (!rounds(cuda, args)) {
        multiply_as_they_are(cuda, args);
        return;
    }
    cuda->narrowed.data = NULL; /* the caller may have changed the factor in between */
    cuda_narrow_multiply(cuda, args);
}

void cuda_gemm(struct backend *backend, const struct gemm_args *args)
{
    struct cuda *cuda = cuda_enter_product(backend);
    if (!empty(cuda, args) && rounds(cuda, args)) {
        cuda_narrow_multiply(cuda, args);
    } else {
        cuda->narrowed.data = NULL; /* this product may write over the factor */
        cuda_multiply(cuda, args);
    }
    cuda_leave(cuda);
}

static struct matrix part(struct matrix m, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    return matrix_columns(matrix_rows(m, row, rows), column, columns);
}

/* Cuts the lower triangle in halves, down to squares on the diagonal that are computed whole. Everything is an ordinary
 * product, because cublasSsyrk is several times slower and never uses the tensor cores. */
void cuda_triangle(struct cuda *cuda, struct matrix c, struct matrix x, double alpha, double beta)
{
    const int64_t square = cuda->square, half = (c.rows / 2 + square - 1) / square * square, rest = c.rows - half;
    struct gemm_args product = {.a = x, .b = x, .c = c, .transpose_a = true, .alpha = alpha, .beta = beta};
    if (c.rows > square) {
        const struct matrix first = matrix_columns(x, 0, half), second = matrix_columns(x, half, rest);
        cuda_triangle(cuda, part(c, 0, half, 0, half), first, alpha, beta);
        cuda_triangle(cuda, part(c, half, rest, half, rest), second, alpha, beta);
        product.a = second, product.b = first, product.c = part(c, half, rest, 0, half);
    }
    cuda_multiply(cuda, &product);
}

void cuda_syrk(struct backend *backend, struct matrix c, struct matrix x, double alpha, double beta)
{
    struct cuda *cuda = cuda_enter(backend);
    if (cuda->device->narrow)
        cuda_narrow_triangle(cuda, c, x, alpha, beta);
    else
        cuda_triangle(cuda, c, x, alpha, beta);
    cuda_leave(cuda);
}

/* The factor goes in blocks of many columns, which keep the products of everything to their left large, and each of
 * these in blocks of CHOLESKY_BLOCK, which one block of threads factors. */
struct factoring {
    struct cuda *cuda;
    struct matrix panel; /* scratch [C, columns] */
    float *inverses;     /* [C, columns]: inverses of the blocks on the diagonal */
    int64_t columns;     /* of a block */
    int32_t *failed;
};

static void copy_to(struct cuda *cuda, struct matrix to, struct matrix from)
{
    cuda_launch(cuda, KERNEL_add, cuda_blocks(to.rows * to.columns), &(struct add_args){to, from, 1, 0, to});
}

static struct matrix inverse_of(const struct factoring *f, int64_t first, int64_t count)
{
    return (struct matrix){f->inverses + first * f->columns, count, count, f->columns, sizeof(float)};
}

static int64_t last_block(const struct factoring *f, int64_t rows)
{
    return (rows - 1) / f->columns * f->columns;
}

/* U = R⁻¹ in place: U[:, J] = -U[:J, :J] R[:J, J] U[J, J]. */
static void invert(const struct factoring *f, struct matrix h)
{
    for (int64_t first = 0; first < h.rows; first += f->columns) {
        const int64_t count = h.rows - first < f->columns ? h.rows - first : f->columns;
        const struct matrix inverse = inverse_of(f, first, count), above = part(h, 0, first, first, count),
                            copy = part(f->panel, 0, first, 0, count);
        if (first > 0) {
            cuda_multiply(f->cuda,
                          &(struct gemm_args){part(h, 0, first, 0, first), above, copy, false, false, 1, 0, true});
            cuda_multiply(f->cuda, &(struct gemm_args){copy, inverse, above, false, false, -1, 0, true});
        }
        copy_to(f->cuda, part(h, first, count, first, count), inverse);
    }
}

static void factor(const struct factoring *f, struct matrix h);

/* Factors block `first` of h in place and computes its inverse, by smaller blocks where there are any. */
static void factor_block(const struct factoring *f, struct matrix h, int64_t first, int64_t count)
{
    const struct matrix inverse = inverse_of(f, first, count), block = part(h, first, count, first, count);
    const struct cholesky_args whole = {.h = inverse};
    if (f->columns == CHOLESKY_BLOCK) {
        const struct cholesky_args args = {h, first, count, inverse.data, f->failed};
        cuda_launch(f->cuda, KERNEL_cholesky_factor, 1, &args);
        return;
    }
    struct factoring small = *f;
    small.columns = CHOLESKY_BLOCK;
    small.inverses = f->inverses + f->panel.rows * f->columns;
    factor(&small, block);
    copy_to(f->cuda, inverse, block);
    cuda_launch(f->cuda, KERNEL_cholesky_clear, cuda_blocks(count * count), &whole);
    invert(&small, inverse);
}

/* R of h = R Rᵀ, by blocks of columns from the last one, in the upper triangle. */
static void factor(const struct factoring *f, struct matrix h)
{
    for (int64_t first = last_block(f, h.rows); first >= 0; first -= f->columns) {
        const int64_t count = h.rows - first < f->columns ? h.rows - first : f->columns;
        const struct matrix above = part(h, 0, first, first, count), copy = part(f->panel, 0, first, 0, count);
        factor_block(f, h, first, count);
        if (first == 0) break;
        cuda_multiply(f->cuda, &(struct gemm_args){above, inverse_of(f, first, count), copy, false, true, 1, 0, true});
        copy_to(f->cuda, above, copy);
        cuda_multiply(f->cuda,
                      &(struct gemm_args){above, above, part(h, 0, first, 0, first), false, true, -1, 1, true});
    }
}

bool cuda_inverse_cholesky(struct backend *backend, struct matrix h)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t columns = h.rows > cuda->factor_columns ? cuda->factor_columns : CHOLESKY_BLOCK;
    const int64_t panel_floats = h.rows * columns;
    float *scratch = cuda_scratch(cuda, (size_t)(2 * panel_floats + columns * CHOLESKY_BLOCK) * sizeof(float));
    int32_t *failed = NULL, code = 0;
    cuda_announce(cuda, sizeof code);
    if (scratch != NULL && (failed = cuda_result(cuda, sizeof code)) != NULL) {
        const struct factoring f = {cuda, matrix_of(scratch, h.rows, columns, sizeof(float)), scratch + panel_floats,
                                    columns, failed};
        const struct cholesky_args whole = {.h = h};
        (void)cuda_good(cuda, "clearing memory", cuda->device->clear(cuda->device, failed, sizeof *failed));
        cuda_launch(cuda, KERNEL_cholesky_mirror, cuda_blocks(h.rows * h.columns), &whole);
        factor(&f, h);
        cuda_launch(cuda, KERNEL_cholesky_clear, cuda_blocks(h.rows * h.columns), &whole);
        invert(&f, h);
        cuda_fetch(cuda, &code, failed, sizeof code);
    }
    const bool good = cuda->status == STATUS_OK && code == 0;
    cuda_leave(cuda);
    return good;
}
