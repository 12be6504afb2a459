/* cpu.h: shared by the files of the cpu backend: its state, its slots, and how an op is cut into tasks. Tasks are cut
 * by shape alone, never by the number of threads, so that the same request gives bit-for-bit identical results. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/bf16.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/openblas.h"
#include "backend/cpu/tile_product.h"
#include "base/integer.h"

/* Most queries and keys of an attention tile. */
enum { CPU_TILE_QUERIES = 256, CPU_TILE_KEYS = 512 };
/* Most partial sums of a reduction over rows, and the number of elements that is worth a task. */
enum { CPU_PARTIALS = 32, CPU_TASK_ELEMENTS = 32768 };
enum { CPU_LEAST_PARTIAL = 4096 }; /* columns of scratch for sums before a call of prepare */

struct cpu {
    const struct kernels *kernels;
    struct openblas blas;
    struct tile_scratch *tiles;   /* owned; NULL without tile units */
    bool rounds;                  /* rounds the factors of a model's own products to bfloat16 */
    const struct bf16_unit *bf16; /* computes such products; NULL: a kernel does */
    float *attention;             /* owned: CPU_ATTENTION_SCRATCH floats for each thread */
    float *partials;              /* owned: CPU_PARTIALS rows of 2 * partial_columns floats */
    int64_t partial_columns;
};

/* Scores, slopes, and four numbers per query: largest score, sum, log_sum, d. */
enum { CPU_ATTENTION_SCRATCH = 2 * CPU_TILE_QUERIES * CPU_TILE_KEYS + 4 * CPU_TILE_QUERIES };

static inline const struct cpu *cpu_of(const struct backend *backend)
{
    return backend->state;
}

#define CPU_KERNELS_VARIABLE "DELTAQ_KERNELS"
/* The best level of kernels that the processor has, or the one that DELTAQ_KERNELS names, if the processor has it
 * (without tile units then). NULL: a processor below KERNEL_LEAST. */
const struct kernels *cpu_kernels(void);

/* The slot `scratch`. */
int64_t cpu_scratch(int64_t longest_sequence, int64_t widest_row);

/* One single-threaded product: by OpenBLAS, or by our own kernel if the product is narrow or there is no OpenBLAS. */
void cpu_multiply(const struct cpu *cpu, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  float alpha, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c,
                  int64_t c_stride);
/* cpu_multiply for a model's own product: its factors are rounded if the backend does so. */
void cpu_product(const struct cpu *cpu, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c,
                 int64_t c_stride);
/* Makes the backend round the factors of a model's own products to bfloat16. Call before the backend is used. */
void cpu_round_products(struct backend *backend);

/* Calls body(context, first, end) on parts of the rows [0, rows), each of about CPU_TASK_ELEMENTS elements. */
void cpu_for_rows(struct team *team, int64_t rows, int64_t columns,
                  void (*body)(void *context, int64_t first, int64_t end), void *context);
/* Calls body(context, t, column, count) on runs that cover a [rows, columns] matrix; `dense`: no operand has gaps
 * between rows, so that the whole matrix may be passed as row 0. */
void cpu_for_runs(struct team *team, int64_t rows, int64_t columns, bool dense,
                  void (*body)(void *context, int64_t t, int64_t column, int64_t count), void *context);

static inline bool cpu_dense(struct matrix m)
{
    return m.data == NULL || m.stride == m.columns || m.rows == 1;
}

/* The slots. Slots without a kernel call the plain loops (reference/table.h). */
#define X(type, slot, ...) type cpu_##slot(struct backend *, __VA_ARGS__);
BACKEND_SLOTS(X)
#undef X

#endif
