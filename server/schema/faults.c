#include "schema/faults.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

void faults_add(struct faults *faults, const char *pointer, const char *format, ...)
{
    if (faults->count < FAULTS_MAX) {
        struct fault *fault = &faults->items[faults->count];
        va_list list;
        va_start(list, format);
        (void)snprintf(fault->pointer, sizeof fault->pointer, "%s", pointer);
        (void)vsnprintf(fault->detail, sizeof fault->detail, format, list);
        va_end(list);
        utf8_repair(fault->pointer);
        utf8_repair(fault->detail);
    }
    faults->count++;
}

size_t faults_kept(const struct faults *faults)
{
    return faults->count < FAULTS_MAX ? faults->count : FAULTS_MAX;
}

enum status faults_status(const struct faults *faults, struct error *error)
{
    const struct fault *first = &faults->items[0];
    if (faults->count == 0) return STATUS_OK;
    if (faults->count == 1) return error_set_at(error, STATUS_INVALID, first->pointer, "%s", first->detail);
    return error_set_at(error, STATUS_INVALID, first->pointer, "%zu fields are wrong; the first is %s: %s",
                        faults->count, first->pointer, first->detail);
}

void faults_pointer(char *pointer, size_t size, const char *base, const char *name)
{
    size_t used = (size_t)snprintf(pointer, size, "%s/", base);
    for (; *name != '\0' && used + 2 < size; name++) {
        if (*name == '~' || *name == '/') {
            pointer[used++] = '~';
            pointer[used++] = *name == '~' ? '0' : '1';
        } else {
            pointer[used++] = *name;
        }
    }
    if (used < size) pointer[used] = '\0';
}
