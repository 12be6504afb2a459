#include "backend/backend.h"

#include "backend/reference/table.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status backend_reference_new(bool use_double, struct team *team, struct backend **out, struct error *error)
{
    enum status status;
    if ((status = memory_new(1, sizeof **out, "backend", out, error)) != STATUS_OK) return status;
    **out = (struct backend){use_double ? &reference_ops_double : &reference_ops_float, team, NULL, NULL};
    return STATUS_OK;
}

enum status backend_new(const char *device, struct team *team, struct backend **out, struct error *error)
{
    int ordinal = 0, length = 0;
    *out = NULL;
    if (strcmp(device, "cpu") == 0) return backend_cpu_new(team, out, error);
    if (sscanf(device, "cuda:%4d%n", &ordinal, &length) == 1 && device[length] == '\0' && ordinal >= 0)
        return backend_cuda_new(ordinal, team, out, error);
    return error_set(error, STATUS_INVALID, "device \"%.40s\": expected cpu or cuda:N", device);
}

int64_t backend_host_memory(struct backend *backend)
{
    (void)backend;
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
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
