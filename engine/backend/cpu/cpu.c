/* cpu.c: makes the fast backend: picks its kernels, loads OpenBLAS, holds the scratch. */
#include "backend/cpu/cpu.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_v4(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_v2(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#define KERNELS_VARIABLE "DELTAQ_KERNELS"

/* The best level that the processor has, or the one that the variable names, if the processor has it (without tile units then). */
static const struct kernels *choose_kernels(void)
{
    static const struct {
        const struct kernels *kernels;
        bool (*supported)(void);
    } levels[] = {{&kernels_v4, has_v4}, {&kernels_v3, has_v3}, {&kernels_v2, has_v2}};
    const char *wanted = getenv(KERNELS_VARIABLE);
    const struct kernels *best = NULL;
    __builtin_cpu_init();
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (!levels[i].supported()) continue;
        if (wanted != NULL && strcmp(wanted, levels[i].kernels->name) == 0) return levels[i].kernels;
        if (best == NULL) best = levels[i].kernels;
    }
    return best;
}

static void cpu_close(struct backend *backend)
{
    struct cpu *cpu = backend->state;
    if (cpu == NULL) return;
    openblas_close(&cpu->blas);
    tile_scratch_free(cpu->tiles);
    memory_free(cpu->attention);
    memory_free(cpu->partials);
    memory_free(cpu);
}

static void cpu_describe(const struct backend *backend, char *text, size_t size)
{
    const struct cpu *cpu = cpu_of(backend);
    snprintf(text, size, "kernels %s%s, %s, threads %d", cpu->kernels->name, cpu->tiles ? " with AMX" : "",
             cpu->blas.library ? cpu->blas.config : "no OpenBLAS (own matrix products: slower when large)",
             team_size(backend->team));
}

static enum status cpu_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error)
{
    (void)backend;
    return memory_new(elements, sizeof(float), what, out, error);
}

static void cpu_release(struct backend *backend, void *block)
{
    (void)backend;
    memory_free(block);
}

int64_t cpu_scratch(int64_t longest_sequence, int64_t widest_row)
{
    (void)longest_sequence;
    return widest_row <= CPU_LEAST_PARTIAL ? 0 : widest_row * (int64_t)(2 * CPU_PARTIALS * sizeof(float));
}

static enum status cpu_prepare(struct backend *backend, int64_t longest_sequence, int64_t widest_row, struct error *error)
{
    (void)longest_sequence; /* attention's scratch is one tile a thread whatever the length */
    struct cpu *cpu = backend->state;
    float *partials = NULL;
    enum status status;
    if (widest_row <= cpu->partial_columns) return STATUS_OK;
    if ((status = memory_new(widest_row, 2 * CPU_PARTIALS * sizeof(float), "scratch for sums", &partials, error)) != STATUS_OK)
        return status;
    memory_free(cpu->partials);
    cpu->partials = partials;
    cpu->partial_columns = widest_row;
    return STATUS_OK;
}

static enum status cpu_sync(struct backend *backend, struct error *error)
{
    (void)backend, (void)error;
    return STATUS_OK;
}

static const struct backend_ops ops = {
    .name = "cpu",
    .element = sizeof(float),
    .host = true,
    .close = cpu_close,
    .describe = cpu_describe,
    .memory = backend_host_memory,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .prepare = cpu_prepare,
    .scratch = cpu_scratch,
    .sync = cpu_sync,
    .upload = cpu_upload,
    .download = cpu_download,
    .fill = cpu_fill,
    .add = cpu_add,
    .scale_by_magnitude = cpu_scale_by_magnitude,
    .clip = cpu_clip,
    .clip_pass = cpu_clip_pass,
    .dot = cpu_dot,
    .finite = cpu_finite,
    .gemm = cpu_gemm,
    .syrk = cpu_syrk,
    .inverse_cholesky = cpu_inverse_cholesky,
    .add_row = cpu_add_row,
    .sum_rows = cpu_sum_rows,
    .norm_forward = cpu_norm_forward,
    .norm_backward = cpu_norm_backward,
    .rope = cpu_rope,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .activation_forward = cpu_activation_forward,
    .activation_backward = cpu_activation_backward,
    .convolution_forward = cpu_convolution_forward,
    .convolution_backward = cpu_convolution_backward,
    .scan_forward = cpu_scan_forward,
    .scan_backward = cpu_scan_backward,
    .scan_tangent = cpu_scan_tangent,
    .scan_backward_tangent = cpu_scan_backward_tangent,
    .xielu_forward = cpu_xielu_forward,
    .xielu_backward = cpu_xielu_backward,
    .xielu_tangent = cpu_xielu_tangent,
    .xielu_backward_tangent = cpu_xielu_backward_tangent,
    .route_forward = cpu_route_forward,
    .route_backward = cpu_route_backward,
    .route_tangent = cpu_route_tangent,
    .route_backward_tangent = cpu_route_backward_tangent,
    .experts_spread = cpu_experts_spread,
    .experts_collect = cpu_experts_collect,
    .experts_dot = cpu_experts_dot,
    .gather = cpu_gather,
    .scatter_add = cpu_scatter_add,
    .cross_entropy_forward = cpu_cross_entropy_forward,
    .cross_entropy_backward = cpu_cross_entropy_backward,
    .norm_tangent = cpu_norm_tangent,
    .norm_backward_tangent = cpu_norm_backward_tangent,
    .attention_tangent = cpu_attention_tangent,
    .attention_backward_tangent = cpu_attention_backward_tangent,
    .activation_tangent = cpu_activation_tangent,
    .activation_backward_tangent = cpu_activation_backward_tangent,
    .cross_entropy_backward_tangent = cpu_cross_entropy_backward_tangent,
    .compare = cpu_compare,
    .adamw = cpu_adamw,
    .write_bytes = cpu_write_bytes,
    .read_bytes = cpu_read_bytes,
    .mirror = cpu_mirror,
    .select = cpu_select,
    .scale_columns = cpu_scale_columns,
    .grid_find = cpu_grid_find,
    .grid_encode = cpu_grid_encode,
    .book_encode = cpu_book_encode,
    .decode = cpu_decode,
    .add_magnitudes = cpu_add_magnitudes,
    .clip_search = cpu_clip_search,
    .gptq_block = cpu_gptq_block,
    .round_rows = cpu_round_rows,
    .hadamard = cpu_hadamard,
    .add_products = cpu_add_products,
};

enum status backend_cpu_new(struct team *team, struct backend **out, struct error *error)
{
    struct backend *backend = NULL;
    struct cpu *cpu = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *backend, "backend", &backend, error)) != STATUS_OK) return status;
    *backend = (struct backend){&ops, team, NULL, 0, NULL};
    if ((status = memory_new(1, sizeof *cpu, "backend", &cpu, error)) != STATUS_OK) goto failed;
    backend->state = cpu;
    if ((cpu->kernels = choose_kernels()) == NULL) {
        status = error_set(error, STATUS_UNSUPPORTED, "this processor has no SSE4.2, which deltaq's kernels need (x86-64-v2)");
        goto failed;
    }
    openblas_open(&cpu->blas);
    if (getenv(KERNELS_VARIABLE) == NULL && (status = tile_scratch_new(team_size(team), &cpu->tiles, error)) != STATUS_OK)
        goto failed;
    status = memory_new(team_size(team), CPU_ATTENTION_SCRATCH * sizeof(float), "scratch for attention", &cpu->attention, error);
    if (status != STATUS_OK) goto failed;
    if ((status = cpu_prepare(backend, 1, CPU_LEAST_PARTIAL, error)) != STATUS_OK) goto failed;
    *out = backend;
    return STATUS_OK;
failed:
    backend_free(backend);
    return status;
}
