#include "backend/backend.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/share.h"
#include "backend/reference/table.h"
#include "base/machine.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* activation: a slot of 19 MB, in which products still have many rows. logits: 64 MiB, because large slices repay the
 * packing of the output matrix in every product. micro: enough rows for the products, few enough for the caches. */
const struct backend_sizes backend_host_sizes = {
    .activation = 8192 * 576, .chunk = 8192, .logits = 16 << 20, .micro = 2048};

enum status backend_reference_new(bool use_double, struct team *team, struct backend **out, struct error *error)
{
    enum status status;
    if ((status = memory_new(1, sizeof **out, "backend", out, error)) != STATUS_OK) return status;
    **out = (struct backend){.ops = use_double ? &reference_ops_double : &reference_ops_float, .team = team};
    return STATUS_OK;
}

static enum status cpu_new(const char *products, struct team *team, struct backend **out, struct error *error)
{
    const bool rounds = strcmp(products, "bf16") == 0;
    if (!rounds && strcmp(products, "f32") != 0)
        return error_set(error, STATUS_UNSUPPORTED, "the CPU makes no products in %s: use f32, bf16 or a CUDA device",
                         products);
    const enum status status = backend_cpu_new(team, out, error);
    if (status == STATUS_OK && rounds) cpu_round_products(*out);
    return status;
}

enum status backend_new(const char *device, const char *products, struct team *team, struct backend **out,
                        struct error *error)
{
    int ordinal = 0, length = 0;
    *out = NULL;
    if (strcmp(device, "cpu") == 0) return cpu_new(products == NULL ? "f32" : products, team, out, error);
    if (sscanf(device, "cuda:%4d%n", &ordinal, &length) == 1 && device[length] == '\0' && ordinal >= 0)
        return backend_cuda_new(ordinal, products, team, out, error);
    return error_set(error, STATUS_INVALID, "device \"%.40s\": expected cpu or cuda:N", device);
}

int64_t backend_host_memory(struct backend *backend)
{
    if (backend->host_budget > 0) return backend->host_budget;
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

int64_t backend_no_scratch(int64_t longest_sequence, int64_t widest_row)
{
    (void)longest_sequence, (void)widest_row;
    return 0;
}

struct plan_budget backend_budget(struct backend *backend, const char *directory)
{
    struct plan_budget budget = {.bytes = {0}};
    const int64_t disk = machine_free_disk(directory);
    budget.bytes[PLAN_HOST] = backend->host_budget > 0 ? backend->host_budget : machine_free_memory();
    if (!backend->ops->host) budget.bytes[PLAN_DEVICE] = share_available(backend);
    backend_device_words(backend, budget.device, sizeof budget.device);
    budget.bytes[PLAN_DISK] = directory == NULL ? 0 : disk < 0 ? INT64_MAX : disk;
    return budget;
}

enum plan_space backend_space(const struct backend *backend)
{
    return backend->ops->host ? PLAN_HOST : PLAN_DEVICE;
}

enum status backend_refuse(struct backend *backend, const char *what, int64_t needed, int64_t limit, const char *advice,
                           struct error *error)
{
    char words[240];
    backend_device_words(backend, words, sizeof words);
    (void)error_set(error, STATUS_TOO_LARGE,
                    "%s %" PRId64 " bytes, %" PRId64 " are available%s%s%s: %s, or more memory (--memory, "
                    "--device-memory)",
                    what, needed, limit, words[0] != '\0' ? " (" : "", words, words[0] != '\0' ? ")" : "", advice);
    error->of_device = backend_space(backend) == PLAN_DEVICE;
    return error->status;
}

static void paper_close(struct backend *backend)
{
    (void)backend;
}

static const struct backend_ops paper_ops = {.name = "paper",
                                             .element = sizeof(float),
                                             .host = true,
                                             .sizes = &backend_host_sizes,
                                             .close = paper_close,
                                             .memory = backend_host_memory,
                                             .scratch = cpu_scratch};

enum status backend_paper_new(struct backend **out, struct error *error)
{
    const enum status status = memory_new(1, sizeof **out, "backend", out, error);
    if (status == STATUS_OK) **out = (struct backend){.ops = &paper_ops};
    return status;
}

void backend_free(struct backend *backend)
{
    if (backend == NULL) return;
    backend->ops->close(backend);
    memory_free(backend);
}

void backend_describe(const struct backend *backend, char *text, size_t size)
{
    backend->ops->describe(backend, text, size);
}
