/* table.c: the table of the plain loops in one element type, and the few functions that have no equations. */
#include "backend/reference/table.h"

#include "backend/reference/real.h"
#include "base/memory.h"

#include <stdio.h>

static void reference_close(struct backend *backend)
{
    (void)backend;
}

static void reference_describe(const struct backend *backend, char *text, size_t size)
{
    snprintf(text, size, "plain loops in %s, threads %d", sizeof(real) == 8 ? "double" : "float", team_size(backend->team));
}

static enum status reference_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error)
{
    (void)backend;
    return memory_new(elements, sizeof(real), what, out, error);
}

static void reference_release(struct backend *backend, void *block)
{
    (void)backend;
    memory_free(block);
}

static enum status reference_prepare(struct backend *backend, int64_t longest_sequence, int64_t widest_row, struct error *error)
{
    (void)backend, (void)longest_sequence, (void)widest_row, (void)error;
    return STATUS_OK; /* needs no scratch */
}

static enum status reference_sync(struct backend *backend, struct error *error)
{
    (void)backend, (void)error;
    return STATUS_OK;
}

const struct backend_ops REFERENCE(ops) = {
    .name = sizeof(real) == 8 ? "reference64" : "reference",
    .element = sizeof(real),
    .host = true,
    .close = reference_close,
    .describe = reference_describe,
    .memory = backend_host_memory,
    .scratch = backend_no_scratch,
    .allocate = reference_allocate,
    .release = reference_release,
    .prepare = reference_prepare,
    .sync = reference_sync,
    .upload = REFERENCE(upload),
    .download = REFERENCE(download),
    .fill = REFERENCE(fill),
    .add = REFERENCE(add),
    .scale_by_magnitude = REFERENCE(scale_by_magnitude),
    .clip = REFERENCE(clip),
    .clip_pass = REFERENCE(clip_pass),
    .dot = REFERENCE(dot),
    .finite = REFERENCE(finite),
    .gemm = REFERENCE(gemm),
    .syrk = REFERENCE(syrk),
    .inverse_cholesky = REFERENCE(inverse_cholesky),
    .add_row = REFERENCE(add_row),
    .sum_rows = REFERENCE(sum_rows),
    .norm_forward = REFERENCE(norm_forward),
    .norm_backward = REFERENCE(norm_backward),
    .norm_tangent = REFERENCE(norm_tangent),
    .norm_backward_tangent = REFERENCE(norm_backward_tangent),
    .rope = REFERENCE(rope),
    .attention_forward = REFERENCE(attention_forward),
    .attention_backward = REFERENCE(attention_backward),
    .attention_tangent = REFERENCE(attention_tangent),
    .attention_backward_tangent = REFERENCE(attention_backward_tangent),
    .activation_forward = REFERENCE(activation_forward),
    .activation_backward = REFERENCE(activation_backward),
    .activation_tangent = REFERENCE(activation_tangent),
    .activation_backward_tangent = REFERENCE(activation_backward_tangent),
    .convolution_forward = REFERENCE(convolution_forward),
    .convolution_backward = REFERENCE(convolution_backward),
    .scan_forward = REFERENCE(scan_forward),
    .scan_backward = REFERENCE(scan_backward),
    .scan_tangent = REFERENCE(scan_tangent),
    .scan_backward_tangent = REFERENCE(scan_backward_tangent),
    .xielu_forward = REFERENCE(xielu_forward),
    .xielu_backward = REFERENCE(xielu_backward),
    .xielu_tangent = REFERENCE(xielu_tangent),
    .xielu_backward_tangent = REFERENCE(xielu_backward_tangent),
    .route_forward = REFERENCE(route_forward),
    .route_backward = REFERENCE(route_backward),
    .route_tangent = REFERENCE(route_tangent),
    .route_backward_tangent = REFERENCE(route_backward_tangent),
    .experts_spread = REFERENCE(experts_spread),
    .experts_collect = REFERENCE(experts_collect),
    .experts_dot = REFERENCE(experts_dot),
    .gather = REFERENCE(gather),
    .scatter_add = REFERENCE(scatter_add),
    .cross_entropy_forward = REFERENCE(cross_entropy_forward),
    .cross_entropy_backward = REFERENCE(cross_entropy_backward),
    .cross_entropy_backward_tangent = REFERENCE(cross_entropy_backward_tangent),
    .compare = REFERENCE(compare),
    .adamw = REFERENCE(adamw),
    .write_bytes = REFERENCE(write_bytes),
    .read_bytes = REFERENCE(read_bytes),
    .mirror = REFERENCE(mirror),
    .select = REFERENCE(select),
    .scale_columns = REFERENCE(scale_columns),
    .grid_find = REFERENCE(grid_find),
    .grid_encode = REFERENCE(grid_encode),
    .book_encode = REFERENCE(book_encode),
    .decode = REFERENCE(decode),
    .add_magnitudes = REFERENCE(add_magnitudes),
    .clip_search = REFERENCE(clip_search),
    .gptq_block = REFERENCE(gptq_block),
    .round_rows = REFERENCE(round_rows),
    .hadamard = REFERENCE(hadamard),
    .add_products = REFERENCE(add_products),
};
