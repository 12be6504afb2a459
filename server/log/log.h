/* log.h: what the server and its workers write to stderr, a line at a time and in one write. As text a line is
 * "deltaq worker 7: MESSAGE"; as JSON it is one object: time (UTC), level, component, pid, message, and where they are
 * known run, request and more.
 *
 * The form and the least level stand in the environment (LOG_FORMAT_VARIABLE, LOG_LEVEL_VARIABLE; text and info where
 * they are not set), so that worker processes inherit them. log_set sets them before the first thread. Any thread. */
#ifndef LOG_LOG_H
#define LOG_LOG_H

#include "base/error.h"

#include <jansson.h>

#define LOG_FORMAT_VARIABLE "DELTAQ_LOG_FORMAT"
#define LOG_LEVEL_VARIABLE  "DELTAQ_LOG_LEVEL"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO };

enum log_component {
    LOG_COMPONENT_AUDIT, /* who changed what, and who was refused */
    LOG_COMPONENT_BACKUP,
    LOG_COMPONENT_DATABASE,
    LOG_COMPONENT_GATES, /* verdicts on checkpoints */
    LOG_COMPONENT_HTTP,
    LOG_COMPONENT_LAUNCHER,
    LOG_COMPONENT_SERVE,
    LOG_COMPONENT_SUPERVISOR,
    LOG_COMPONENT_TEST_GATE,
    LOG_COMPONENT_WEBHOOKS,
    LOG_COMPONENT_WORKER,
    LOG_COMPONENT_WORKER_START, /* before it has its place */
};

struct log_about {
    enum log_level level;
    enum log_component component;
    const char *run, *request; /* ids; NULL: none */
    json_t *more;              /* an object, taken; further fields of the JSON form; NULL: none */
    bool may_drop;             /* rather than wait for whoever reads stderr */
};

/* Writes a line. The message has no end of line; control characters in it are shown as "?". */
void log_line(const struct log_about *about, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with level and component alone. */
#define LOG_OF(level_, component_)  (&(struct log_about){.level = (level_), .component = (component_)})
#define log_error(component, ...)   log_line(LOG_OF(LOG_LEVEL_ERROR, component), __VA_ARGS__)
#define log_warning(component, ...) log_line(LOG_OF(LOG_LEVEL_WARNING, component), __VA_ARGS__)
#define log_info(component, ...)    log_line(LOG_OF(LOG_LEVEL_INFO, component), __VA_ARGS__)

/* STATUS_INVALID names the flag: "text" or "json"; "error", "warning" or "info". */
MUST_CHECK enum status log_set(const char *format, const char *level, struct error *error);

#endif
