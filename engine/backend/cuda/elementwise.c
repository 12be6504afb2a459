/* elementwise.c: launches kernels/elementwise.h and kernels/activation.h. */
#include "backend/cuda/cuda.h"

#include <math.h>

static void launch_alone(struct backend *backend, enum kernel kernel, int64_t elements, const void *args)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, kernel, cuda_blocks(elements), args);
    cuda_leave(cuda);
}

static bool dense(struct matrix m)
{
    return m.data == NULL || m.stride == m.columns || m.rows == 1;
}

/* Matrices of one shape as single rows, if none has gaps: then no thread of a block is left without work at the end of
 * each row. */
static void flatten(struct matrix *const *matrices, int count)
{
    for (int i = 0; i < count; i++)
        if (!dense(*matrices[i])) return;
    for (int i = 0; i < count; i++)
        *matrices[i] = matrix_of(matrices[i]->data, 1, matrices[i]->rows * matrices[i]->columns, sizeof(float));
}

void cuda_fill(struct backend *backend, struct matrix to, double value)
{
    struct cuda *cuda = cuda_enter(backend);
    struct fill_args args = {to, value};
    flatten((struct matrix *const[]){&args.to}, 1);
    if (value == 0 && args.to.rows == 1 && cuda->status == STATUS_OK)
        (void)cuda_good(cuda, "clearing memory",
                        cuda->device->clear(cuda->device, to.data, (size_t)args.to.columns * sizeof(float)));
    else
        cuda_launch(cuda, KERNEL_fill, cuda_blocks(to.rows * to.columns), &args);
    cuda_leave(cuda);
}

void cuda_add(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta)
{
    struct add_args args = {to, from, alpha, beta, to};
    flatten((struct matrix *const[]){&args.to, &args.from, &args.old}, 3);
    launch_alone(backend, KERNEL_add, to.rows * to.columns, &args);
}

void cuda_sum(struct backend *backend, struct matrix to, struct matrix a, struct matrix b)
{
    struct add_args args = {to, b, 1, 1, a};
    flatten((struct matrix *const[]){&args.to, &args.from, &args.old}, 3);
    launch_alone(backend, KERNEL_add, to.rows * to.columns, &args);
}

void cuda_scale_by_magnitude(struct backend *backend, struct matrix to, struct matrix by, double offset)
{
    launch_alone(backend, KERNEL_scale_by_magnitude, to.rows * to.columns, &(struct add_args){to, by, 0, offset, {0}});
}

void cuda_add_row(struct backend *backend, struct matrix to, struct matrix row)
{
    launch_alone(backend, KERNEL_add_row, to.rows * to.columns, &(struct add_args){to, row, 0, 0, {0}});
}

void cuda_widen(struct cuda *cuda, struct matrix to, const void *from, enum dtype dtype)
{
    struct widen_args args = {.to = to, .from = from, .half = dtype == DTYPE_F16};
    if (to.stride == to.columns) args.to = matrix_of(to.data, 1, to.rows * to.columns, to.element); /* no divisions */
    cuda_launch(cuda, KERNEL_widen, cuda_blocks(args.to.rows * ((args.to.columns + 3) / 4)), &args);
}

static double dot(struct cuda *cuda, struct matrix a, struct matrix b)
{
    double sum = NAN;
    struct dot_args args = {.a = a, .b = b, .partials = NULL};
    flatten((struct matrix *const[]){&args.a, &args.b}, 2);
    cuda_announce(cuda, DOT_PARTS * sizeof(double));
    if ((args.partials = cuda_result(cuda, DOT_PARTS * sizeof(double))) == NULL) return sum;
    cuda_launch(cuda, KERNEL_dot, DOT_PARTS, &args);
    cuda_launch(cuda, KERNEL_dot_end, 1, &args);
    cuda_fetch(cuda, &sum, args.partials, sizeof sum);
    return sum;
}

double cuda_dot(struct backend *backend, struct matrix a, struct matrix b)
{
    struct cuda *cuda = cuda_enter(backend);
    const double sum = dot(cuda, a, b);
    cuda_leave(cuda);
    return sum;
}

bool cuda_finite(struct backend *backend, struct matrix a)
{
    struct cuda *cuda = cuda_enter(backend);
    const double bad = dot(cuda, a, (struct matrix){0});
    cuda_leave(cuda);
    return bad == 0;
}

void cuda_sum_rows(struct backend *backend, struct matrix to_row, struct matrix from)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t splits = (from.rows + SPLIT_ROWS - 1) / SPLIT_ROWS,
                  across = (from.columns + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS;
    const struct sum_rows_args args = {.from = from,
                                       .to = to_row,
                                       .partials = cuda_scratch(cuda, (size_t)(splits * from.columns) * sizeof(double)),
                                       .rows = from.rows,
                                       .columns = from.columns,
                                       .rounded = (uint32_t *)(void *)cuda_narrow_beside(cuda, from),
                                       .pitch = cuda_narrow_pitch(from.columns)};
    cuda_launch(cuda, KERNEL_sum_rows, splits * across, &args);
    cuda_launch(cuda, KERNEL_sum_rows_end, cuda_blocks(from.columns), &args);
    cuda_leave(cuda);
}

void cuda_activation_forward(struct backend *backend, const struct activation_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    struct activation_kernel_args call = {.activation = *args, .pitch = cuda_narrow_pitch(args->y.columns)};
    if (args->to_product) call.rounded = (uint32_t *)(void *)cuda_narrow_beside(cuda, args->y);
    if (call.rounded == NULL || call.pitch == args->y.columns) /* else rows of the rounded ones have gaps */
        flatten((struct matrix *const[]){&call.activation.gate, &call.activation.up, &call.activation.y}, 3);
    cuda_launch(cuda, KERNEL_activation_forward, cuda_blocks(args->gate.rows * args->gate.columns), &call);
    cuda_leave(cuda);
}

void cuda_activation_backward(struct backend *backend, const struct activation_args *args)
{
    struct activation_args call = *args;
    flatten((struct matrix *const[]){&call.gate, &call.up, &call.dy, &call.dgate, &call.dup}, 5);
    launch_alone(backend, KERNEL_activation_backward, args->gate.rows * args->gate.columns, &call);
}

void cuda_activation_tangent(struct backend *backend, const struct activation_args *args)
{
    launch_alone(backend, KERNEL_activation_tangent, args->gate.rows * args->gate.columns, args);
}

void cuda_activation_backward_tangent(struct backend *backend, const struct activation_args *args)
{
    launch_alone(backend, KERNEL_activation_backward_tangent, args->gate.rows * args->gate.columns, args);
}

void cuda_adamw(struct backend *backend, const struct adamw_args *args)
{
    launch_alone(backend, KERNEL_adamw, args->count, args);
}

void cuda_clip(struct backend *backend, struct matrix to, struct matrix from, double bound)
{
    launch_alone(backend, KERNEL_clip, to.rows * to.columns,
                 &(struct clip_args){.to = to, .from = from, .bound = bound});
}

void cuda_clip_pass(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound,
                    bool accumulate)
{
    launch_alone(backend, KERNEL_clip_pass, to.rows * to.columns, &(struct clip_args){to, from, by, bound, accumulate});
}

void cuda_xielu_forward(struct backend *backend, const struct xielu_args *args)
{
    launch_alone(backend, KERNEL_xielu_forward, args->x.rows * args->x.columns,
                 &(struct xielu_kernel_args){.xielu = *args});
}

void cuda_xielu_tangent(struct backend *backend, const struct xielu_args *args)
{
    launch_alone(backend, KERNEL_xielu_tangent, args->x.rows * args->x.columns,
                 &(struct xielu_kernel_args){.xielu = *args});
}

static void xielu_back(struct backend *backend, const struct xielu_args *args, bool tangent)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct xielu_kernel_args call = {*args, cuda_scratch(cuda, 4 * DOT_PARTS * sizeof(double)), tangent};
    cuda_launch(cuda, tangent ? KERNEL_xielu_backward_tangent : KERNEL_xielu_backward, DOT_PARTS, &call);
    cuda_launch(cuda, KERNEL_xielu_end, 1, &call);
    cuda_leave(cuda);
}

void cuda_xielu_backward(struct backend *backend, const struct xielu_args *args)
{
    xielu_back(backend, args, false);
}

void cuda_xielu_backward_tangent(struct backend *backend, const struct xielu_args *args)
{
    xielu_back(backend, args, true);
}
