/* log.h: the lines that the server and its workers write to stderr, each in one write. As text a line is "deltaq worker
 * 7: MESSAGE". As JSON it is one object: time (UTC), level, component, pid, message, and run, request and more where
 * they are known. The environment sets form and minimum level (LOG_FORMAT_VARIABLE, LOG_LEVEL_VARIABLE; text and info
 * by default), so that worker processes inherit them. Call log_set before the first thread. Any thread. */
#ifndef LOG_LOG_H
#define LOG_LOG_H

#include "base/error.h"

#include <jansson.h>

#define LOG_FORMAT_VARIABLE "DELTAQ_LOG_FORMAT"
#define LOG_LEVEL_VARIABLE  "DELTAQ_LOG_LEVEL"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO };

enum log_component {
    LOG_COMPONENT_AUDIT, /* who changed what, and which requests were refused */
    LOG_COMPONENT_BACKUP,
    LOG_COMPONENT_CRASH, /* of whatever process */
    LOG_COMPONENT_DATABASE,
    LOG_COMPONENT_GATES, /* verdicts on checkpoints */
    LOG_COMPONENT_HTTP,
    LOG_COMPONENT_LAUNCHER,
    LOG_COMPONENT_SERVE,
    LOG_COMPONENT_SUPERVISOR,
    LOG_COMPONENT_TEST_GATE,
    LOG_COMPONENT_WEBHOOKS,
    LOG_COMPONENT_WORKER,
    LOG_COMPONENT_WORKER_START, /* before the worker has its data directory and database */
};

struct log_about {
    enum log_level level;
    enum log_component component;
    const char *run, *request; /* ids; NULL: none */
    json_t *more;              /* an object with further fields of the JSON form, taken; NULL: none */
    bool may_drop;             /* drop the line instead of waiting for the reader of stderr */
};

/* Writes a line. The message has no end of line; control characters in it are shown as "?". */
void log_line(const struct log_about *about, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line with only level and component. */
#define LOG_OF(level_, component_)  (&(struct log_about){.level = (level_), .component = (component_)})
#define log_error(component, ...)   log_line(LOG_OF(LOG_LEVEL_ERROR, component), __VA_ARGS__)
#define log_warning(component, ...) log_line(LOG_OF(LOG_LEVEL_WARNING, component), __VA_ARGS__)
#define log_info(component, ...)    log_line(LOG_OF(LOG_LEVEL_INFO, component), __VA_ARGS__)

/* STATUS_INVALID names the flag: "text" or "json"; "error", "warning" or "info". */
MUST_CHECK enum status log_set(const char *format, const char *level, struct error *error);

#endif
