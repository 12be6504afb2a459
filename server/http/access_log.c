#include "http/access_log.h"

#include "log/log.h"

#include <string.h>

enum { TARGET_SHOWN = 300 };

void access_log_shown(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; text[used] != '\0' && used < size - 1; used++)
        out[used] = text[used] > 0x20 && text[used] < 0x7f && text[used] != '"' ? text[used] : '?';
    out[used] = '\0';
}

void access_log_write(const char *request_id, const char *method, const char *target, int http_status, int64_t bytes,
                      int64_t milliseconds)
{
    char shown[TARGET_SHOWN];
    access_log_shown(target, shown, sizeof shown);
    const struct log_about about = {
        .level = LOG_LEVEL_INFO,
        .component = LOG_COMPONENT_HTTP,
        .request = request_id,
        .more = json_pack("{ss% ss si sI sI}", "method", method, strnlen(method, 10), "path", shown, "status",
                          http_status, "bytes", (json_int_t)bytes, "milliseconds", (json_int_t)milliseconds),
        .may_drop = true,
    };
    log_line(&about, "%s %.10s \"%s\" %d %lld bytes %lld ms", request_id, method, shown, http_status, (long long)bytes,
             (long long)milliseconds);
}
