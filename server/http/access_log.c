#include "http/access_log.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { TARGET_SHOWN = 300, LINE_SIZE = 512 };

void access_log_write(const char *request_id, const char *method, const char *target, int http_status, int64_t bytes,
                      int64_t milliseconds)
{
    char shown[TARGET_SHOWN], line[LINE_SIZE];
    size_t used = 0;
    struct pollfd stream = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (const char *c = target; *c && used < sizeof shown - 1; c++)
        shown[used++] = *c > 0x20 && *c < 0x7f && *c != '"' ? *c : '?';
    shown[used] = '\0';
    const int length = snprintf(line, sizeof line, "http %s %.10s \"%s\" %d %lld bytes %lld ms\n", request_id, method,
                                shown, http_status, (long long)bytes, (long long)milliseconds);
    /* a pipe that polls writable takes PIPE_BUF bytes (more than a line) without blocking */
    if (length > 0 && poll(&stream, 1, 0) == 1 && (stream.revents & POLLOUT)) {
        const ssize_t written =
            write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
        (void)written;
    }
}
