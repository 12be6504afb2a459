/* cpu.c: makes the cpu backend: picks its kernels, loads OpenBLAS, owns the scratch. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/levels.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kernels *cpu_kernels(void)
{
    static const struct {
        const struct kernels *kernels;
        bool (*supported)(void);
    } levels[] = {
#define X(level) {&kernels_##level, level_##level},
        KERNEL_LEVELS(X)
#undef X
    };
    const char *wanted = getenv(CPU_KERNELS_VARIABLE);
    const struct kernels *best = NULL;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (!levels[i].supported()) continue;
        if (wanted != NULL && strcmp(wanted, levels[i].kernels->name) == 0) return levels[i].kernels;
        if (best == NULL) best = levels[i].kernels;
    }
    return best;
}

void cpu_round_products(struct backend *backend)
{
    struct cpu *cpu = backend->state;
    cpu->rounds = true;
    for (int i = 0; getenv(CPU_KERNELS_VARIABLE) == NULL && cpu->bf16 == NULL && bf16_units[i] != NULL; i++)
        if (bf16_units[i]->available()) cpu->bf16 = bf16_units[i];
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
    char width[32] = "";
    if (cpu->kernels->scalable) snprintf(width, sizeof width, " of %d bits", level_bits());
    const char *rounded = cpu->bf16 != NULL ? cpu->bf16->name : "rounded floats";
    snprintf(text, size, "kernels %s%s%s%s%s%s, %s, threads %d", cpu->kernels->name, width,
             cpu->tiles != NULL ? " with AMX" : "", cpu->rounds ? ", products in bf16 (" : "",
             cpu->rounds ? rounded : "", cpu->rounds ? ")" : "",
             cpu->blas.library != NULL ? cpu->blas.config : "no OpenBLAS (own matrix products: slower when large)",
             team_size(backend->team));
}

static enum status cpu_allocate(struct backend *backend, int64_t elements, const char *what, void **out,
                                struct error *error)
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

static enum status cpu_prepare(struct backend *backend, int64_t longest_sequence, int64_t widest_row,
                               struct error *error)
{
    (void)longest_sequence; /* attention's scratch is one tile per thread, whatever the length */
    struct cpu *cpu = backend->state;
    float *partials = NULL;
    enum status status;
    if (widest_row <= cpu->partial_columns) return STATUS_OK;
    if ((status = memory_new(widest_row, 2 * CPU_PARTIALS * sizeof(float), "scratch for sums", &partials, error)) !=
        STATUS_OK)
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
    .close = cpu_close,
    .describe = cpu_describe,
    .memory = backend_host_memory,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .prepare = cpu_prepare,
    .scratch = cpu_scratch,
    .sync = cpu_sync,
#define X(type, slot, ...) .slot = cpu_##slot,
    BACKEND_SLOTS(X)
#undef X
        .host = true,
    .sizes = &backend_host_sizes,
};

enum status backend_cpu_new(struct team *team, struct backend **out, struct error *error)
{
    struct backend *backend = NULL;
    struct cpu *cpu = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *backend, "backend", &backend, error)) != STATUS_OK) return status;
    *backend = (struct backend){.ops = &ops, .team = team};
    if ((status = memory_new(1, sizeof *cpu, "backend", &cpu, error)) != STATUS_OK) goto failed;
    backend->state = cpu;
    if ((cpu->kernels = cpu_kernels()) == NULL) {
        status = error_set(error, STATUS_UNSUPPORTED,
                           "this processor is below " KERNEL_LEAST ", which deltaq's kernels need");
        goto failed;
    }
    openblas_open(&cpu->blas);
    if (getenv(CPU_KERNELS_VARIABLE) == NULL &&
        (status = tile_scratch_new(team_size(team), &cpu->tiles, error)) != STATUS_OK)
        goto failed;
    status = memory_new(team_size(team), CPU_ATTENTION_SCRATCH * sizeof(float), "scratch for attention",
                        &cpu->attention, error);
    if (status != STATUS_OK) goto failed;
    if ((status = cpu_prepare(backend, 1, CPU_LEAST_PARTIAL, error)) != STATUS_OK) goto failed;
    *out = backend;
    return STATUS_OK;
failed:
    backend_free(backend);
    return status;
}
