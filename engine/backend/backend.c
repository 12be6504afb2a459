#include "backend/backend.h"

#include "backend/reference/table.h"
#include "base/memory.h"

enum status backend_reference_new(bool use_double, struct team *team, struct backend **out, struct error *error)
{
    enum status status;
    if ((status = memory_new(1, sizeof **out, "backend", out, error)) != STATUS_OK) return status;
    **out = (struct backend){use_double ? &reference_ops_double : &reference_ops_float, team, NULL};
    return STATUS_OK;
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
