#include "base/monitor.h"

#include <stdarg.h>
#include <stdio.h>

void monitor_progress(const struct monitor *monitor, int64_t done, int64_t total, const char *unit)
{
    if (monitor != NULL && monitor->progress != NULL) monitor->progress(monitor->owner, done, total, unit);
}

void monitor_log(const struct monitor *monitor, const char *format, ...)
{
    char line[512];
    va_list list;
    if (monitor == NULL || monitor->log == NULL) return;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    monitor->log(monitor->owner, line);
}

enum status monitor_check(const struct monitor *monitor, struct error *error)
{
    if (monitor == NULL || monitor->check == NULL) return STATUS_OK;
    return monitor->check(monitor->owner, error);
}
