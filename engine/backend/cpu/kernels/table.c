/* table.c: the kernels of one level, in a table. */
#include "backend/cpu/kernels/all.h"

#define KERNEL_STRING_(level) #level
#define KERNEL_STRING(level)  KERNEL_STRING_(level)
#define KERNEL_TABLE_(level)  kernels_##level
#define KERNEL_TABLE(level)   KERNEL_TABLE_(level)

const struct kernels KERNEL_TABLE(KERNEL_LEVEL) = {
    .name = "x86-64-" KERNEL_STRING(KERNEL_LEVEL),
    .lanes = LANES,
    .fill = KERNEL(fill),
    .add = KERNEL(add),
    .scale_by_magnitude = KERNEL(scale_by_magnitude),
    .dot = KERNEL(dot),
    .finite = KERNEL(finite),
    .adamw = KERNEL(adamw),
    .multiply = KERNEL(multiply),
    .norm_forward = KERNEL(norm_forward),
    .norm_backward = KERNEL(norm_backward),
    .norm_tangent = KERNEL(norm_tangent),
    .norm_backward_tangent = KERNEL(norm_backward_tangent),
    .rope = KERNEL(rope),
    .cross_entropy_forward = KERNEL(cross_entropy_forward),
    .cross_entropy_backward = KERNEL(cross_entropy_backward),
    .cross_entropy_backward_tangent = KERNEL(cross_entropy_backward_tangent),
    .compare = KERNEL(compare),
    .xielu_forward = KERNEL(xielu_forward),
    .xielu_backward = KERNEL(xielu_backward),
    .xielu_tangent = KERNEL(xielu_tangent),
    .xielu_backward_tangent = KERNEL(xielu_backward_tangent),
    .activation_forward = KERNEL(activation_forward),
    .activation_backward = KERNEL(activation_backward),
    .activation_tangent = KERNEL(activation_tangent),
    .activation_backward_tangent = KERNEL(activation_backward_tangent),
    .softmax_block = KERNEL(softmax_block),
    .softmax_gradient = KERNEL(softmax_gradient),
    .softmax_tangent = KERNEL(softmax_tangent),
    .softmax_gradient_tangent = KERNEL(softmax_gradient_tangent),
    .convolution_forward = KERNEL(convolution_forward),
    .convolution_backward = KERNEL(convolution_backward),
    .gptq_tile = KERNEL(gptq_tile),
    .scan_forward = KERNEL(scan_forward),
    .scan_tangent = KERNEL(scan_tangent),
    .scan_backward = KERNEL(scan_backward),
    .scan_backward_tangent = KERNEL(scan_backward_tangent),
};
