#include "base/error.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct status_info infos[] = {
    [STATUS_OK] = {"ok", "OK", 200, false},
    [STATUS_INVALID] = {"invalid", "Invalid request", 422, false},
    [STATUS_MALFORMED] = {"malformed", "Malformed request", 400, false},
    [STATUS_NOT_FOUND] = {"not_found", "Not found", 404, false},
    [STATUS_GONE] = {"gone", "Gone", 410, false},
    [STATUS_FORBIDDEN] = {"forbidden", "Forbidden", 403, false},
    [STATUS_UNAUTHORIZED] = {"unauthorized", "Unauthorized", 401, false},
    [STATUS_CONFLICT] = {"conflict", "Conflict", 409, false},
    [STATUS_TOO_LARGE] = {"too_large", "Too large", 413, false},
    [STATUS_TOO_MANY] = {"too_many", "Too many requests", 429, true},
    [STATUS_UNSUPPORTED] = {"unsupported", "Unsupported", 422, false},
    [STATUS_NOT_ACCEPTABLE] = {"not_acceptable", "Not acceptable", 406, false},
    [STATUS_CORRUPT] = {"corrupt", "Corrupt file", 422, false},
    [STATUS_NOT_FINITE] = {"not_finite", "Not finite", 422, false},
    [STATUS_INPUT_CHANGED] = {"input_changed", "Input changed", 409, false},
    [STATUS_IO] = {"io", "Input/output error", 500, true},
    [STATUS_DISK_FULL] = {"disk_full", "Disk full", 507, true},
    [STATUS_NO_MEMORY] = {"no_memory", "Out of memory", 503, true},
    [STATUS_UNAVAILABLE] = {"unavailable", "Unavailable", 503, true},
    [STATUS_DEVICE] = {"device_fault", "Device fault", 503, true},
    [STATUS_LEASE_LOST] = {"lease_lost", "Lease lost", 409, true},
    [STATUS_CANCELLED] = {"cancelled", "Cancelled", 409, false},
    [STATUS_INTERNAL] = {"internal", "Internal error", 500, false},
};
static_assert(sizeof infos / sizeof infos[0] == STATUS_COUNT, "a row for every status");

const struct status_info *status_info(enum status status)
{
    assert(status >= 0 && status < STATUS_COUNT);
    return &infos[status];
}

static void error_fill(struct error *error, enum status status, const char *pointer, const char *format, va_list list)
    __attribute__((format(printf, 4, 0)));

static void error_fill(struct error *error, enum status status, const char *pointer, const char *format, va_list list)
{
    error->status = status;
    error->again_seconds = 0;
    error->of_device = false;
    (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    (void)vsnprintf(error->detail, sizeof error->detail, format, list);
    utf8_repair(error->pointer);
    utf8_repair(error->detail);
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    error_fill(error, status, "", format, list);
    va_end(list);
    return status;
}

enum status error_no_memory(struct error *error, const char *what)
{
    return error_set(error, STATUS_NO_MEMORY, "no memory for %s", what);
}

enum status error_set_at(struct error *error, enum status status, const char *pointer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    error_fill(error, status, pointer, format, list);
    va_end(list);
    return status;
}

enum status error_set_errno(struct error *error, const char *action)
{
    static const struct {
        int number;
        enum status status;
    } rows[] = {
        {ENOENT, STATUS_NOT_FOUND}, {ENOTDIR, STATUS_NOT_FOUND}, {EACCES, STATUS_FORBIDDEN}, {EPERM, STATUS_FORBIDDEN},
        {ENOSPC, STATUS_DISK_FULL}, {EDQUOT, STATUS_DISK_FULL},  {EFBIG, STATUS_DISK_FULL},  {ENOMEM, STATUS_NO_MEMORY},
    };
    const int number = errno;
    enum status status = STATUS_IO;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].number == number) status = rows[i].status;
    return error_set(error, status, "%s: %s", action, strerror(number));
}
