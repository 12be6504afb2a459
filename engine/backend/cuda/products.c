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
    if ((code = cuda_careful(cuda, code)) == 0) return;
    name_product(g, batch, what, sizeof what);
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

void cuda_multiply(struct cuda *cuda, const struct gemm_args *args)
{
    if (args->c.rows == 0 || args->c.columns == 0 || cuda->status != STATUS_OK) return;
    if (cuda->device->narrow && !args->exact && args->a.element == sizeof(float))
        cuda_narrow_multiply(cuda, args);
    else
        multiply_as_they_are(cuda, args);
}

void cuda_gemm(struct backend *backend, const struct gemm_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_multiply(cuda, args);
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

/* R of h = R Rᵀ, by blocks of columns from the last one, in the upper triangle; `inverses` gets the inverses of its
 * diagonal blocks. panel: scratch [C, CHOLESKY_BLOCK]. */
static void factor(struct cuda *cuda, struct matrix h, struct matrix panel, float *inverses, int32_t *failed)
{
    for (int64_t first = (h.rows - 1) / CHOLESKY_BLOCK * CHOLESKY_BLOCK; first >= 0; first -= CHOLESKY_BLOCK) {
        const int64_t count = h.rows - first < CHOLESKY_BLOCK ? h.rows - first : CHOLESKY_BLOCK;
        const struct cholesky_args args = {h, first, count, inverses + first * CHOLESKY_BLOCK, failed};
        const struct matrix inverse = {inverses + first * CHOLESKY_BLOCK, count, count, CHOLESKY_BLOCK, sizeof(float)};
        const struct matrix above = part(h, 0, first, first, count), copy = part(panel, 0, first, 0, count);
        cuda_launch(cuda, KERNEL_cholesky_factor, 1, &args);
        if (first == 0) break;
        cuda_multiply(cuda, &(struct gemm_args){above, inverse, copy, false, true, 1, 0, true});
        cuda_launch(cuda, KERNEL_add, cuda_blocks(first * count), &(struct add_args){above, copy, 1, 0});
        cuda_multiply(cuda, &(struct gemm_args){above, above, part(h, 0, first, 0, first), false, true, -1, 1, true});
    }
}

/* U = R⁻¹ in place: U[:, J] = -U[:J, :J] R[:J, J] U[J, J]. */
static void invert(struct cuda *cuda, struct matrix h, struct matrix panel, float *inverses)
{
    for (int64_t first = 0; first < h.rows; first += CHOLESKY_BLOCK) {
        const int64_t count = h.rows - first < CHOLESKY_BLOCK ? h.rows - first : CHOLESKY_BLOCK;
        const struct matrix inverse = {inverses + first * CHOLESKY_BLOCK, count, count, CHOLESKY_BLOCK, sizeof(float)};
        const struct matrix above = part(h, 0, first, first, count), copy = part(panel, 0, first, 0, count);
        if (first > 0) {
            cuda_multiply(cuda,
                          &(struct gemm_args){part(h, 0, first, 0, first), above, copy, false, false, 1, 0, true});
            cuda_multiply(cuda, &(struct gemm_args){copy, inverse, above, false, false, -1, 0, true});
        }
        cuda_launch(cuda, KERNEL_add, cuda_blocks(count * count),
                    &(struct add_args){part(h, first, count, first, count), inverse, 1, 0});
    }
}

bool cuda_inverse_cholesky(struct backend *backend, struct matrix h)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t panel_floats = (size_t)(h.rows * CHOLESKY_BLOCK);
    float *scratch = cuda_scratch(cuda, 2 * panel_floats * sizeof(float));
    int32_t *failed = NULL, code = 0;
    cuda_announce(cuda, sizeof code);
    if (scratch != NULL && (failed = cuda_result(cuda, sizeof code)) != NULL) {
        const struct matrix panel = matrix_of(scratch, h.rows, CHOLESKY_BLOCK, sizeof(float));
        const struct cholesky_args whole = {.h = h};
        (void)cuda_good(cuda, "clearing memory", cuda->device->clear(cuda->device, failed, sizeof *failed));
        cuda_launch(cuda, KERNEL_cholesky_mirror, cuda_blocks(h.rows * h.columns), &whole);
        factor(cuda, h, panel, scratch + panel_floats, failed);
        cuda_launch(cuda, KERNEL_cholesky_clear, cuda_blocks(h.rows * h.columns), &whole);
        invert(cuda, h, panel, scratch + panel_floats);
        cuda_fetch(cuda, &code, failed, sizeof code);
    }
    const bool good = cuda->status == STATUS_OK && code == 0;
    cuda_leave(cuda);
    return good;
}
