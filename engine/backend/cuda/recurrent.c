/* recurrent.c: launches kernels/convolution.h and kernels/scan.h. */
#include "backend/cuda/cuda.h"

/* Stages the starts of a batch's sequences and, if `numbers` is not NULL, the sequence of each row on the device. */
static const int64_t *stage_starts(struct cuda *cuda, const struct batch *batch, const int64_t **numbers)
{
    const size_t starts_bytes = (size_t)(batch->sequences + 1) * sizeof(int64_t), rows = (size_t)batch->tokens;
    int64_t *sequence_of = numbers != NULL ? cuda_host_scratch(cuda, rows * sizeof(int64_t)) : NULL;
    cuda_announce(cuda, starts_bytes + rows * sizeof(int64_t));
    if (numbers != NULL && sequence_of != NULL) {
        for (int64_t b = 0; b < batch->sequences; b++)
            for (int64_t t = batch->starts[b]; t < batch->starts[b + 1]; t++) sequence_of[t] = b;
        *numbers = cuda_staged(cuda, sequence_of, rows * sizeof(int64_t));
    }
    return cuda_staged(cuda, batch->starts, starts_bytes);
}

static struct convolution_kernel_args convolution_call(struct cuda *cuda, const struct convolution_args *args)
{
    struct convolution_kernel_args call = {.convolution = *args, .sequences = args->batch->sequences};
    call.starts = stage_starts(cuda, args->batch, &call.numbers);
    call.convolution.batch = NULL;
    return call;
}

void cuda_convolution_forward(struct backend *backend, const struct convolution_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct convolution_kernel_args call = convolution_call(cuda, args);
    cuda_launch(cuda, KERNEL_convolution_forward, cuda_blocks(args->x.rows * args->x.columns), &call);
    cuda_leave(cuda);
}

void cuda_convolution_backward(struct backend *backend, const struct convolution_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct convolution_kernel_args call = convolution_call(cuda, args);
    if (args->dx.data != NULL)
        cuda_launch(cuda, KERNEL_convolution_backward, cuda_blocks(args->dy.rows * args->dy.columns), &call);
    if (args->dweight.data != NULL || args->dbias.data != NULL)
        cuda_launch(cuda, KERNEL_convolution_parameters, args->dy.columns, &call);
    cuda_leave(cuda);
}

static struct scan_kernel_args scan_call(struct cuda *cuda, const struct scan_args *args, bool tangent)
{
    const struct matrix none = {0};
    struct scan_kernel_args call = {.scan = *args, .sequences = args->batch->sequences};
    call.starts = stage_starts(cuda, args->batch, NULL);
    call.scan.batch = NULL;
    if (tangent) {
        call.scan.initial = call.scan.final = none; /* only for forward passes */
        return call;
    }
    /* the kernels read tangents if they are present */
    call.scan.x_t = call.scan.step_t = call.scan.bc_t = call.scan.a_log_t = call.scan.skip_t = call.scan.step_bias_t =
        none;
    call.scan.kept_t = call.scan.dy_t = none;
    return call;
}

static void scan_walk(struct backend *backend, const struct scan_args *args, bool tangent)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct scan_kernel_args call = scan_call(cuda, args, tangent);
    const int64_t stripes = (args->x.columns + KERNEL_THREADS - 1) / KERNEL_THREADS;
    cuda_launch(cuda, tangent ? KERNEL_scan_tangent : KERNEL_scan_forward, args->batch->sequences * stripes, &call);
    cuda_leave(cuda);
}

void cuda_scan_forward(struct backend *backend, const struct scan_args *args)
{
    scan_walk(backend, args, false);
}

void cuda_scan_tangent(struct backend *backend, const struct scan_args *args)
{
    scan_walk(backend, args, true);
}

static void clear(struct cuda *cuda, struct matrix m)
{
    cuda_launch(cuda, KERNEL_fill, cuda_blocks(m.rows * m.columns), &(struct fill_args){m, 0});
}

static void scan_back(struct backend *backend, const struct scan_args *args, bool tangent)
{
    struct cuda *cuda = cuda_enter(backend);
    struct scan_kernel_args call = scan_call(cuda, args, tangent);
    const size_t sums = (size_t)(args->batch->sequences * args->x.columns * (args->states + 2));
    if ((call.sums = cuda_scratch(cuda, sums * sizeof(double))) != NULL) {
        clear(cuda, args->dstep);
        clear(cuda, args->dbc);
        if (tangent) clear(cuda, args->dstep_t);
        if (tangent) clear(cuda, args->dbc_t);
        cuda_launch(cuda, tangent ? KERNEL_scan_backward_tangent : KERNEL_scan_backward,
                    args->batch->sequences * args->groups, &call);
        if (tangent) {
            call.scan.da_log = args->da_log_t;
            call.scan.dskip = args->dskip_t;
            call.scan.dstep_bias = args->dstep_bias_t;
        }
        cuda_launch(cuda, KERNEL_scan_sums, cuda_blocks(args->heads * (args->states + 2)), &call);
    }
    cuda_leave(cuda);
}

void cuda_scan_backward(struct backend *backend, const struct scan_args *args)
{
    scan_back(backend, args, false);
}

void cuda_scan_backward_tangent(struct backend *backend, const struct scan_args *args)
{
    scan_back(backend, args, true);
}
