/* muon.c: Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al., arXiv 2502.16982): momentum whose
 * singular values are all made about one, on the matrices of linear layers; everything else (embedding, output, norms,
 * biases, convolutions, routers) is AdamW's.
 *
 *   M = momentum M + (1 - momentum) G;  U = (1 - momentum) G + momentum M  (Nesterov's point)
 *   X = U / |U|, then five times  X = a X + b (X Xᵀ) X + c (X Xᵀ)² X
 *   W = (1 - rate decay) W - rate s X
 *
 * The polynomial (3.4445, -4.7750, 2.0315) sends singular values of (0, 1] near 1 in five rounds, to between 0.68 and
 * 1.13 where they were not tiny. s is 0.2 √max(rows, columns) (`match_rms_adamw`, arXiv 2502.16982, 2.2: updates as
 * large as AdamW's, so that its rates fit) or √max(1, rows / columns) (`original`). The smaller of X Xᵀ and Xᵀ X is
 * taken. As torch.optim.Muon does it, except that the products are in single precision here and in bfloat16 there. A
 * matrix is one as the file stores it: queries, keys and values together where the file has them so, each expert
 * apart. */
#include "train/adamw.h"

#include <math.h>

enum { ROUNDS = 5 };
static const double LINEAR = 3.4445, CUBIC = -4.7750, QUINTIC = 2.0315;
static const double LEAST_NORM = 1e-7;

static bool is_orthogonalised(const struct parameters_tensor *tensor)
{
    const struct parameter *parameter = &tensor->parameter;
    return parameter->linear && !parameter->depthwise && !parameter->constant && tensor->decays;
}

static int64_t side_of(struct matrix m)
{
    return m.rows < m.columns ? m.rows : m.columns;
}

static void muon_memory(const struct optimizer_settings *settings, const struct parameters_layout *layout,
                        struct optimizer_memory *memory)
{
    (void)settings;
    int64_t largest = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameter *parameter = &layout->tensors[i].parameter;
        if (!is_orthogonalised(&layout->tensors[i])) continue;
        const int64_t side = side_of(matrix_of(NULL, parameter->rows, parameter->columns, 0));
        if (side > largest) largest = side;
    }
    *memory = (struct optimizer_memory){.scratch = 2 * largest * largest};
}

static double muon_work(const struct optimizer_settings *settings, const struct parameters_layout *layout,
                        int64_t steps)
{
    (void)settings;
    double flops = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct matrix m =
            matrix_of(NULL, layout->tensors[i].parameter.rows, layout->tensors[i].parameter.columns, 0);
        const double side = (double)side_of(m);
        if (is_orthogonalised(&layout->tensors[i]))
            flops += 2 * side * (2 * (double)m.rows * (double)m.columns + side * side);
    }
    return (double)(steps * ROUNDS) * flops;
}

/* to = a x + b (x xᵀ) x + c (x xᵀ)² x, with xᵀ x on the right if that is the smaller one. `squares` has space for two
 * squares of its side. */
static void improve(struct backend *backend, struct matrix x, struct matrix to, void *squares)
{
    const struct backend_ops *ops = backend->ops;
    const int64_t side = side_of(x);
    const bool wide = x.rows == side;
    const struct matrix gram = matrix_of(squares, side, side, x.element);
    const struct matrix factor = matrix_of((char *)squares + (size_t)(side * side) * x.element, side, side, x.element);
    const struct gemm_args of_gram = {
        .a = x, .b = x, .c = gram, .transpose_a = !wide, .transpose_b = wide, .alpha = 1, .exact = true};
    const struct gemm_args of_factor = {.a = gram, .b = gram, .c = factor, .alpha = QUINTIC, .exact = true};
    const struct gemm_args of_result = {
        .a = wide ? factor : x, .b = wide ? x : factor, .c = to, .alpha = 1, .beta = 1, .exact = true};
    ops->gemm(backend, &of_gram);
    ops->gemm(backend, &of_factor);
    ops->add(backend, factor, gram, CUBIC, 1);
    ops->add(backend, to, x, LINEAR, 0);
    ops->gemm(backend, &of_result);
}

static double size_of_step(const struct optimizer_settings *settings, struct matrix m)
{
    const double rows = (double)m.rows, columns = (double)m.columns;
    return settings->adjust == MUON_ORIGINAL ? sqrt(fmax(1, rows / columns)) : 0.2 * sqrt(fmax(rows, columns));
}

/* Works in the matrix's gradient and its part of the second buffer, which AdamW would use. */
static void orthogonal_step(struct optimizer *optimizer, const struct parameters *parameters,
                            const struct parameters *gradients, int64_t tensor, const struct optimizer_update *update)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    struct backend *backend = parameters->backend;
    const struct backend_ops *ops = backend->ops;
    const struct matrix w = parameters_view(parameters, tensor);
    const struct matrix momentum = parameters_view(&optimizer->state[0], tensor);
    struct matrix x = parameters_view(gradients, tensor), other = parameters_view(&optimizer->state[1], tensor);
    const double kept = settings->momentum, scale = update->gradient_scale;
    ops->add(backend, momentum, x, (1 - kept) * scale, kept);
    ops->add(backend, x, momentum, kept, (1 - kept) * scale);
    const double norm = sqrt(ops->dot(backend, x, x));
    ops->add(backend, other, x, 1 / fmax(norm, LEAST_NORM), 0);
    for (int round = 0; round < ROUNDS; round++) {
        const struct matrix from = other;
        improve(backend, from, x, optimizer->scratch);
        other = x;
        x = from;
    }
    ops->add(backend, w, other, -update->rate * size_of_step(settings, w), 1 - update->rate * settings->weight_decay);
    /* whatever the number of rounds, the part of this memory that a checkpoint saves is zero */
    ops->fill(backend, parameters_view(&optimizer->state[1], tensor), 0);
}

static void muon_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                        const struct optimizer_update *update)
{
    const struct parameters_layout *layout = parameters->layout;
    struct optimizer_update of_adamw = *update;
    of_adamw.rate *= optimizer->settings.adamw_rate;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        if (is_orthogonalised(tensor))
            orthogonal_step(optimizer, parameters, gradients, i, update);
        else
            adamw_update_span(optimizer, parameters, gradients, &of_adamw,
                              &(struct parameters_span){
                                  tensor->offset, tensor->parameter.rows * tensor->parameter.columns, tensor->decays});
    }
}

const struct optimizer_kind optimizer_muon = {.name = "muon",
                                              .state = "muon",
                                              .buffers = 2,
                                              .gradients = 1,
                                              .memory = muon_memory,
                                              .work = muon_work,
                                              .update = muon_update};
