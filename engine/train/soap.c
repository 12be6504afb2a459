/* soap.c: SOAP (Vyas et al., arXiv 2409.11321, algorithm 3): Adam in the eigenbasis of Shampoo's preconditioner. As in
 * the authors' code the first step moves nothing (docs/training.md). For a matrix W with the gradient G, t counting the
 * steps before this one:
 *
 *   t = 0:  L = (1 - beta2) G Gᵀ,  R = (1 - beta2) GᵀG
 *           Q_L, Q_R their eigenvectors, by falling eigenvalue; W stays
 *   t > 0:  G' = Q_Lᵀ G Q_R
 *           M = beta1 M + (1 - beta1) G',  V = beta2 V + (1 - beta2) G'²
 *           W = (1 - rate decay) (W - rate √(1 - beta2^t) / (1 - beta1^t) Q_L (M / (√V + epsilon)) Q_Rᵀ)
 *           L = beta2 L + (1 - beta2) G Gᵀ,  R = beta2 R + (1 - beta2) GᵀG
 *
 * Every precondition_frequency steps, for either side: the columns of Q, and with them V, are sorted by falling
 * diag(Qᵀ L Q); Q = the orthonormal factor of L Q; M is turned from the old bases into the new. The basis of a side
 * beyond max_precond_dim is the identity; what has no basis, and every vector, is Adam's. */
#include "base/eigen.h"
#include "base/integer.h"
#include "train/adamw.h"
#include "train/householder.h"

#include <math.h>
#include <stdlib.h>

enum { M, V };
enum { ROWS_AT_ONCE = 16, ALIGN = 16 };

/* One side of a matrix; n 0: its basis is the identity and it keeps nothing. */
struct side {
    int64_t n;
    struct matrix gram, basis; /* [n, n], part of optimizer->kept */
};

struct rotation {
    struct optimizer *optimizer;
    struct backend *backend;
    struct matrix gradient, m, v;
    struct side left, right;
    struct matrix spare[2]; /* like the gradient */
    char *squares;          /* two of the larger side and what householder_basis works in */
    double scale;           /* of the gradient: clipping */
};

static int64_t aligned(int64_t count)
{
    return (count + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t side_of(const struct optimizer_settings *settings, int64_t n)
{
    return n <= settings->max_precond_dim ? n : 0;
}

/* Matrices in the sense of weight decay; a model's tables of numbers for each channel count as vectors. */
static bool is_matrix(const struct parameters_tensor *tensor)
{
    return tensor->decays && !tensor->parameter.constant && tensor->parameter.rows > 1 && tensor->parameter.columns > 1;
}

static void soap_memory(const struct optimizer_settings *settings, const struct parameters_layout *layout,
                        struct optimizer_memory *memory)
{
    int64_t elements = 0, longest = 0, eigen = 0;
    *memory = (struct optimizer_memory){0};
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameter *parameter = &layout->tensors[i].parameter;
        const int64_t rows = side_of(settings, parameter->rows), columns = side_of(settings, parameter->columns);
        if (!is_matrix(&layout->tensors[i]) || rows + columns == 0) continue;
        memory->kept += 2 * (aligned(rows * rows) + aligned(columns * columns));
        elements = larger(elements, aligned(parameter->rows * parameter->columns));
        longest = larger(longest, larger(rows, columns));
        eigen = larger(eigen, smaller(parameter->rows, parameter->columns));
    }
    if (longest == 0) return;
    memory->scratch = 2 * elements + 2 * aligned(longest * longest) + householder_scratch(longest);
    memory->host = larger(larger(householder_host(longest), 3 * longest + 2 * ROWS_AT_ONCE * longest),
                          eigen * eigen + eigen + eigen_scratch(eigen));
}

/* Products and factors of all steps; the first step's eigenvectors as about ten multiplications and additions for each
 * number of a cube. */
static double soap_work(const struct optimizer_settings *settings, const struct parameters_layout *layout,
                        int64_t steps)
{
    const double refreshes = (double)((steps - 1) / settings->precondition_frequency);
    double flops = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameter *parameter = &layout->tensors[i].parameter;
        const double rows = (double)parameter->rows, columns = (double)parameter->columns;
        const double left = (double)side_of(settings, parameter->rows);
        const double right = (double)side_of(settings, parameter->columns), least = fmin(rows, columns);
        if (!is_matrix(&layout->tensors[i])) continue;
        const double turn = 2 * rows * columns * (left + right), cubes = pow(left, 3) + pow(right, 3);
        flops += (double)steps * 3 * turn + refreshes * (2 * turn + (2 + 8.0 / 3) * cubes);
        if (left + right > 0)
            flops += 10 * pow(least, 3) + 8.0 / 3 * pow(left > 0 && right > 0 ? fmax(left, right) : 0, 3);
    }
    return flops;
}

/* The next of the sides, which are consecutive in optimizer->kept. */
static struct side side_take(const struct optimizer *optimizer, int64_t n, int64_t *offset)
{
    const size_t element = optimizer->kept.element;
    char *const at = (char *)optimizer->kept.data + (size_t)*offset * element;
    n = side_of(&optimizer->settings, n);
    *offset += 2 * aligned(n * n);
    return (struct side){n, matrix_of(at, n, n, element),
                         matrix_of(at + (size_t)aligned(n * n) * element, n, n, element)};
}

static void multiply(struct backend *backend, struct matrix a, bool transpose_a, struct matrix b, bool transpose_b,
                     struct matrix c, double alpha, double beta)
{
    const struct gemm_args args = {.a = a,
                                   .b = b,
                                   .c = c,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .alpha = alpha,
                                   .beta = beta,
                                   .exact = true};
    backend->ops->gemm(backend, &args);
}

/* scale Q_Lᵀ from Q_R, or back: Q_L from Q_Rᵀ. The result lies in one of the two spare matrices, `from` may lie
 * in the other or in the same. */
static struct matrix turn(const struct rotation *r, struct matrix from, bool back, double scale)
{
    int free = from.data == r->spare[0].data ? 1 : 0;
    if (r->left.n > 0) {
        multiply(r->backend, r->left.basis, !back, from, false, r->spare[free], scale, 0);
        from = r->spare[free];
        free = 1 - free;
        scale = 1;
    }
    if (r->right.n == 0) return from;
    multiply(r->backend, from, false, r->right.basis, back, r->spare[free], scale, 0);
    return r->spare[free];
}

static void grams_update(const struct rotation *r)
{
    const double kept = r->optimizer->settings.beta2, share = (1 - kept) * r->scale * r->scale;
    if (r->left.n > 0) multiply(r->backend, r->gradient, false, r->gradient, true, r->left.gram, share, kept);
    if (r->right.n > 0) multiply(r->backend, r->gradient, true, r->gradient, false, r->right.gram, share, kept);
}

/* The two squares of a side, and behind them what householder_basis works in. */
static struct matrix square(const struct rotation *r, int64_t n, int which)
{
    return matrix_of(r->squares + (size_t)(which * aligned(n * n)) * r->gradient.element, n, n, r->gradient.element);
}

static void orthonormalise(const struct rotation *r, const struct side *side)
{
    householder_basis(r->backend, square(r, side->n, 1), side->basis, square(r, side->n, 2).data, r->optimizer->host);
}

/* Eigenvectors of the gram as columns, by descending eigenvalue. If they cannot be computed, the gram is not finite:
 * then the basis is not finite either, nor is the loss of the next step. */
static void eigenvectors_find(const struct rotation *r, const struct side *side)
{
    const int64_t n = side->n;
    double *a = r->optimizer->host, *values = a + n * n;
    struct error error;
    r->backend->ops->download(r->backend, side->gram, a, DTYPE_F64);
    if (eigen_symmetric_within(n, a, values, values + n, &error) != STATUS_OK) {
        r->backend->ops->fill(r->backend, side->basis, NAN);
        return;
    }
    double *columns = values + n; /* row i of a is the vector of the i-th smallest */
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) columns[i * n + j] = a[(n - 1 - j) * n + i];
    r->backend->ops->upload(r->backend, side->basis, columns, DTYPE_F64);
}

static void bases_find(const struct rotation *r)
{
    const bool wide = r->gradient.rows < r->gradient.columns;
    const struct side *least = wide ? &r->left : &r->right, *most = wide ? &r->right : &r->left;
    eigenvectors_find(r, least);
    if (most->n == 0) return;
    const struct matrix whole = square(r, most->n, 1);
    r->backend->ops->fill(r->backend, whole, 0);
    multiply(r->backend, r->gradient, wide, least->basis, false, matrix_columns(whole, 0, least->n), 1, 0);
    orthonormalise(r, most);
}

struct estimate {
    double value;
    int64_t column;
};

static int by_falling_value(const void *a, const void *b)
{
    const struct estimate *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->column < y->column ? -1 : 1;
}

/* Sorts the columns by descending diag(Qᵀ gram Q), with gram Q in `product`. */
static const int32_t *columns_order(const struct rotation *r, const struct side *side, struct matrix product)
{
    const int64_t n = side->n;
    struct estimate *estimates = (void *)r->optimizer->host;
    double *q = r->optimizer->host + 2 * n, *p = q + ROWS_AT_ONCE * n;
    int32_t *order = (void *)(p + ROWS_AT_ONCE * n);
    bool finite = true;
    for (int64_t i = 0; i < n; i++) estimates[i] = (struct estimate){0, i};
    for (int64_t first = 0; first < n; first += ROWS_AT_ONCE) {
        const int64_t rows = smaller(n - first, ROWS_AT_ONCE);
        r->backend->ops->download(r->backend, matrix_rows(side->basis, first, rows), q, DTYPE_F64);
        r->backend->ops->download(r->backend, matrix_rows(product, first, rows), p, DTYPE_F64);
        for (int64_t k = 0; k < rows * n; k++) estimates[k % n].value += q[k] * p[k];
    }
    for (int64_t i = 0; i < n; i++) finite = finite && isfinite(estimates[i].value);
    if (finite) qsort(estimates, (size_t)n, sizeof *estimates, by_falling_value);
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)estimates[i].column;
    return order;
}

static void basis_improve(const struct rotation *r, const struct side *side, bool of_rows)
{
    if (side->n == 0) return;
    const struct backend_ops *ops = r->backend->ops;
    const struct matrix product = square(r, side->n, 0);
    multiply(r->backend, side->gram, false, side->basis, false, product, 1, 0);
    const int32_t *order = columns_order(r, side, product);
    ops->select(r->backend, square(r, side->n, 1), product, NULL, order);
    ops->select(r->backend, r->spare[0], r->v, of_rows ? order : NULL, of_rows ? NULL : order);
    ops->add(r->backend, r->v, r->spare[0], 1, 0);
    orthonormalise(r, side);
}

static void bases_improve(const struct rotation *r)
{
    const struct backend_ops *ops = r->backend->ops;
    ops->add(r->backend, r->m, turn(r, r->m, true, 1), 1, 0);
    basis_improve(r, &r->left, true);
    basis_improve(r, &r->right, false);
    ops->add(r->backend, r->m, turn(r, r->m, false, 1), 1, 0);
}

/* Adam's step on the numbers at these addresses, without the decay. The authors' code adds epsilon to √V before its
 * correction, so the backend's step gets a larger epsilon. */
static void adam(const struct optimizer *optimizer, struct backend *backend, const struct optimizer_update *update,
                 struct adamw_args args)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    args.correction1 = 1 - pow(settings->beta1, (double)update->step);
    args.correction2 = 1 - pow(settings->beta2, (double)update->step);
    args.rate = update->rate;
    args.beta1 = settings->beta1;
    args.beta2 = settings->beta2;
    args.epsilon = settings->epsilon / sqrt(args.correction2);
    backend->ops->adamw(backend, &args);
}

static void rotated_step(const struct rotation *r, struct matrix w, const struct optimizer_update *update)
{
    const struct backend_ops *ops = r->backend->ops;
    const struct optimizer_settings *settings = &r->optimizer->settings;
    const double kept = 1 - update->rate * settings->weight_decay;
    const struct matrix turned = turn(r, r->gradient, false, r->scale);
    const struct matrix moved = r->spare[turned.data == r->spare[0].data ? 1 : 0];
    ops->fill(r->backend, moved, 0);
    adam(r->optimizer, r->backend, update,
         (struct adamw_args){.parameter = moved.data,
                             .moment1 = r->m.data,
                             .moment2 = r->v.data,
                             .gradient = turned.data,
                             .count = w.rows * w.columns,
                             .gradient_scale = 1});
    ops->add(r->backend, w, turn(r, moved, true, 1), kept, kept);
    grams_update(r);
    if (update->step % settings->precondition_frequency == 0) bases_improve(r);
}

static void matrix_update(struct optimizer *optimizer, struct parameters *parameters,
                          const struct parameters *gradients, int64_t tensor, int64_t *offset,
                          const struct optimizer_update *update)
{
    const struct matrix w = parameters_view(parameters, tensor);
    char *const scratch = optimizer->scratch;
    const size_t size = (size_t)aligned(w.rows * w.columns) * w.element;
    struct rotation r = {.optimizer = optimizer,
                         .backend = parameters->backend,
                         .gradient = parameters_view(gradients, tensor),
                         .m = parameters_view(&optimizer->state[M], tensor),
                         .v = parameters_view(&optimizer->state[V], tensor),
                         .spare = {w, w},
                         .squares = scratch + 2 * size,
                         .scale = update->gradient_scale};
    r.left = side_take(optimizer, w.rows, offset);
    r.right = side_take(optimizer, w.columns, offset);
    r.spare[0].data = scratch;
    r.spare[1].data = scratch + size;
    if (update->step > 0) {
        rotated_step(&r, w, update);
    } else {
        grams_update(&r);
        bases_find(&r);
    }
}

static void plain_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                         int64_t tensor, const struct optimizer_update *update)
{
    struct backend *backend = parameters->backend;
    const struct matrix w = parameters_view(parameters, tensor), gradient = parameters_view(gradients, tensor);
    const double kept = 1 - update->rate * optimizer->settings.weight_decay;
    if (update->step == 0) return;
    adam(optimizer, backend, update,
         (struct adamw_args){.parameter = w.data,
                             .moment1 = parameters_view(&optimizer->state[M], tensor).data,
                             .moment2 = parameters_view(&optimizer->state[V], tensor).data,
                             .gradient = gradient.data,
                             .count = w.rows * w.columns,
                             .gradient_scale = update->gradient_scale});
    if (!parameters->layout->tensors[tensor].decays) return;
    backend->ops->add(backend, gradient, w, kept, 0);
    backend->ops->add(backend, w, gradient, 1, 0);
}

static void soap_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                        const struct optimizer_update *update)
{
    const struct parameters_layout *layout = parameters->layout;
    int64_t offset = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        const int64_t least = smaller(tensor->parameter.rows, tensor->parameter.columns);
        if (is_matrix(tensor) && least <= optimizer->settings.max_precond_dim)
            matrix_update(optimizer, parameters, gradients, i, &offset, update);
        else
            plain_update(optimizer, parameters, gradients, i, update);
    }
}

const struct optimizer_kind optimizer_soap = {.name = "soap",
                                              .state = "soap",
                                              .buffers = 2,
                                              .gradients = 1,
                                              .memory = soap_memory,
                                              .work = soap_work,
                                              .update = soap_update};
