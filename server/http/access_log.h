/* access_log.h: a line of the log for each request, escaped and bounded. A line that would block is dropped. */
#ifndef HTTP_ACCESS_LOG_H
#define HTTP_ACCESS_LOG_H

#include <stddef.h>
#include <stdint.h>

/* Copies bytes of a client for a log line: visible ASCII as it is, "?" for other bytes, cut at `size`. */
void access_log_shown(const char *text, char *out, size_t size);

void access_log_write(const char *request_id, const char *method, const char *target, int http_status, int64_t bytes,
                      int64_t milliseconds);

#endif
