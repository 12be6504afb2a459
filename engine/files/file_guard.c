#include "files/file_guard.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(const struct file_guard *) guarding;

void file_guard_set(const struct file_guard *guard)
{
    atomic_store(&guarding, guard);
}

enum status file_guard_check(int directory, const char *path, int descriptor, const char *shown, struct error *error)
{
    struct error cause;
    const struct file_guard *guard = atomic_load(&guarding);
    if (guard == NULL) return STATUS_OK;
    const enum status status = guard->check(guard->context, directory, path, descriptor, &cause);
    return status == STATUS_OK ? status : error_set(error, status, "%s %s", shown, cause.detail);
}
