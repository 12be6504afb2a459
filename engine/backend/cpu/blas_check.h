/* blas_check.h: compares every kind of product that the engine asks of a BLAS with plain loops in double precision, on
 * the shapes where libraries go wrong: 1, both sides of the edges of their tiles and blocks, tall, wide, transposed,
 * with gaps between rows, with NaN in memory that will be overwritten.
 *
 * The bound. A sum of k products, in any order, with or without fused multiply-adds, differs from the exact one by at
 * most k u / (1 - k u) sum |a_i b_i| with u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, sec. 3.1),
 * and the sum is at most |a| |b| (Cauchy-Schwarz). alpha, beta and adding c round three times more, and so do the
 * reciprocals of a triangle's diagonal, which OpenBLAS multiplies by, once. So each element may be off by
 *
 *   (k + 4) u (|alpha| |a_i| |b_j| + |beta c_ij|)
 *
 * and memory between the rows and around the matrix may not change at all. A triangular solve is checked by its
 * residual, whose bound is the same (Higham, theorem 8.5) and does not grow with the condition of the triangle. */
#ifndef BACKEND_CPU_BLAS_CHECK_H
#define BACKEND_CPU_BLAS_CHECK_H

#include "base/error.h"
#include "base/trial.h"

struct kernels;
struct openblas;

/* Checks the library's products (`blas`), or without a library those of our own kernel. On one thread, some 0.1 s. The
 * progress counts correct products.
 * STATUS_INTERNAL: a product is wrong; the detail names the element and its error. STATUS_NO_MEMORY. */
MUST_CHECK enum status blas_check(const struct openblas *blas, const struct kernels *kernels,
                                  struct trial_progress *progress, struct error *error);

/* Holds the products of the processor's units for bfloat16: those in single precision on tile units (tile_product.h),
 * to which leaving out three parts in nine adds 9 u, and, on factors that are rounded beforehand, those of each of
 * bf16_units. The progress counts products that were right; it counts none where there are no units.
 * STATUS_INTERNAL and STATUS_NO_MEMORY, as above. */
MUST_CHECK enum status blas_check_units(struct trial_progress *progress, struct error *error);

#endif
