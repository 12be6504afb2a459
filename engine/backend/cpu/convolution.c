/* convolution.c: the causal convolution by strips of columns: forward each strip in chunks of rows, backward all rows
 * of a strip at once, because the strip's task alone writes the gradients of its parameters. */
#include "backend/cpu/cpu.h"

struct convolution {
    const struct kernels *kernels;
    const struct convolution_args *args;
    int64_t strips, rows; /* rows per task */
};

static void forward_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct convolution *convolution = context;
    const struct convolution_args *args = convolution->args;
    const int64_t column = task % convolution->strips * CONVOLUTION_STRIP,
                  first = task / convolution->strips * convolution->rows;
    convolution->kernels->convolution_forward(args, column, smaller(CONVOLUTION_STRIP, args->x.columns - column), first,
                                              smaller(first + convolution->rows, args->x.rows));
}

void cpu_convolution_forward(struct backend *backend, const struct convolution_args *args)
{
    struct convolution convolution = {
        .kernels = cpu_of(backend)->kernels,
        .args = args,
        .strips = ceil_divide(args->x.columns, CONVOLUTION_STRIP),
        .rows = CPU_TASK_ELEMENTS / CONVOLUTION_STRIP,
    };
    team_run(backend->team, convolution.strips * ceil_divide(args->x.rows, convolution.rows), forward_task,
             &convolution);
}

static void backward_task(void *context, int64_t strip, int thread)
{
    (void)thread;
    const struct convolution *convolution = context;
    const struct convolution_args *args = convolution->args;
    const int64_t column = strip * CONVOLUTION_STRIP;
    convolution->kernels->convolution_backward(args, column, smaller(CONVOLUTION_STRIP, args->dy.columns - column));
}

void cpu_convolution_backward(struct backend *backend, const struct convolution_args *args)
{
    struct convolution convolution = {.kernels = cpu_of(backend)->kernels, .args = args};
    team_run(backend->team, ceil_divide(args->dy.columns, CONVOLUTION_STRIP), backward_task, &convolution);
}
