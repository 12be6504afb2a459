/* blas_check.h: every product that the engine asks of a BLAS, held to plain loops in double precision on the shapes
 * where libraries go wrong: 1, both sides of the edges of their tiles and blocks, tall, wide, transposed, with rows
 * that do not follow one another, with NaN in what is to be overwritten.
 *
 * The bound. A sum of k products, in whatever order, with fused multiply-adds or without, differs from the exact one by
 * at most k u / (1 - k u) sum |a_i b_i| with u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, sec.
 * 3.1), and the sum is at most |a| |b| (Cauchy-Schwarz). alpha, beta and adding c round three times more, and the
 * reciprocals of a triangle's diagonal, which OpenBLAS multiplies by, once. So each element may be off by
 *
 *   (k + 4) u (|alpha| |a_i| |b_j| + |beta c_ij|)
 *
 * and what lies between the rows and around the matrix by nothing. A triangular solve is held by its residual, whose
 * bound is the same (Higham, theorem 8.5) and does not grow with the condition of the triangle. */
#ifndef BACKEND_CPU_BLAS_CHECK_H
#define BACKEND_CPU_BLAS_CHECK_H

#include "base/error.h"
#include "base/trial.h"

struct kernels;
struct openblas;

/* Holds the library's products (`blas`), or, without one, those of our own kernel. On one thread, some 0.1 s. The
 * progress counts products that were right.
 * STATUS_INTERNAL: one is wrong, and the detail says which element and by how much; STATUS_NO_MEMORY. */
MUST_CHECK enum status blas_check(const struct openblas *blas, const struct kernels *kernels,
                                  struct trial_progress *progress, struct error *error);

/* Holds the products of the processor's units for bfloat16: those in single precision on tile units (tile_product.h),
 * to which leaving out three parts in nine adds 9 u, and, on factors that are rounded beforehand, those of each of
 * bf16_units. The progress counts products that were right; it counts none where there are no units.
 * STATUS_INTERNAL and STATUS_NO_MEMORY, as above. */
MUST_CHECK enum status blas_check_units(struct trial_progress *progress, struct error *error);

#endif
