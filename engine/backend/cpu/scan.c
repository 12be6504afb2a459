/* scan.c: the state space ops. */
#include "backend/cpu/cpu.h"
#include "backend/reference/table.h"

void cpu_convolution_forward(struct backend *backend, const struct convolution_args *args)
{
    reference_ops_float.convolution_forward(backend, args);
}

void cpu_convolution_backward(struct backend *backend, const struct convolution_args *args)
{
    reference_ops_float.convolution_backward(backend, args);
}

void cpu_scan_forward(struct backend *backend, const struct scan_args *args)
{
    reference_ops_float.scan_forward(backend, args);
}

void cpu_scan_backward(struct backend *backend, const struct scan_args *args)
{
    reference_ops_float.scan_backward(backend, args);
}

void cpu_scan_tangent(struct backend *backend, const struct scan_args *args)
{
    reference_ops_float.scan_tangent(backend, args);
}

void cpu_scan_backward_tangent(struct backend *backend, const struct scan_args *args)
{
    reference_ops_float.scan_backward_tangent(backend, args);
}
