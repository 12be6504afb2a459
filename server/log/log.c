#include "log/log.h"

#include "base/utf8.h"
#include "json/written.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 1024, LINE_SIZE = 1200, TIME_SIZE = 40 };

static const char *const formats[] = {"text", "json"};
static const char *const levels[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARNING] = "warning", [LOG_LEVEL_INFO] = "info"};
enum { FORMATS = sizeof formats / sizeof formats[0], LEVELS = sizeof levels / sizeof levels[0] };

/* The beginnings of lines in text form. */
static const struct {
    const char *name, *text;
    bool pid;          /* the process id follows the text */
    const char *colon; /* between the beginning and the message */
} components[] = {
    [LOG_COMPONENT_AUDIT] = {"audit", "audit", false, " "},
    [LOG_COMPONENT_BACKUP] = {"backup", "deltaq", false, ": "},
    [LOG_COMPONENT_CRASH] = {"crash", "deltaq", true, ": "},
    [LOG_COMPONENT_DATABASE] = {"database", "deltaq", false, ": "},
    [LOG_COMPONENT_GATES] = {"gates", "deltaq serve", false, ": "},
    [LOG_COMPONENT_HTTP] = {"http", "http", false, " "},
    [LOG_COMPONENT_LAUNCHER] = {"launcher", "deltaq launcher", false, ": "},
    [LOG_COMPONENT_SERVE] = {"serve", "deltaq serve", false, ": "},
    [LOG_COMPONENT_SUPERVISOR] = {"supervisor", "deltaq", false, ": "},
    [LOG_COMPONENT_TEST_GATE] = {"test_gate", "deltaq gate", false, ": "},
    [LOG_COMPONENT_WEBHOOKS] = {"webhooks", "deltaq serve", false, ": "},
    [LOG_COMPONENT_WORKER] = {"worker", "deltaq worker", true, ": "},
    [LOG_COMPONENT_WORKER_START] = {"worker", "deltaq worker", false, ": "},
};

/* The place of `text` among `count` words, or -1. */
static int place_of(const char *text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

/* The environment's setting; `otherwise` when it is missing or not understood. */
static int chosen(const char *variable, const char *const *words, int count, int otherwise)
{
    const char *text = getenv(variable);
    const int place = text != NULL ? place_of(text, words, count) : -1;
    return place >= 0 ? place : otherwise;
}

static enum status set(const char *variable, const char *text, struct error *error)
{
    return setenv(variable, text, 1) == 0 ? STATUS_OK : error_set_errno(error, "changing the environment");
}

enum status log_set(const char *format, const char *level, struct error *error)
{
    if (place_of(format, formats, FORMATS) < 0)
        return error_set(error, STATUS_INVALID, "--log-format: \"%.100s\" is neither text nor json", format);
    if (place_of(level, levels, LEVELS) < 0)
        return error_set(error, STATUS_INVALID, "--log-level: \"%.100s\" is none of error, warning and info", level);
    const enum status status = set(LOG_FORMAT_VARIABLE, format, error);
    return status == STATUS_OK ? set(LOG_LEVEL_VARIABLE, level, error) : status;
}

/* ---- the two forms ---- */

/* A message may quote bytes that are not UTF-8 (names of files), which JSON cannot hold. */
static void clean(char *text)
{
    utf8_repair(text);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

static void put_time(char out[TIME_SIZE])
{
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    const size_t length = strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out + length, TIME_SIZE - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* Owned by the caller; NULL: no memory. */
static char *as_json(const struct log_about *about, const char *message)
{
    char time[TIME_SIZE], *text = NULL, *line = NULL;
    put_time(time);
    json_t *object =
        json_pack("{ss ss ss si so}", "time", time, "level", levels[about->level], "component",
                  components[about->component].name, "pid", (int)getpid(), "message", json_string(message));
    if (object != NULL && about->run != NULL) (void)json_object_set_new(object, "run", json_string(about->run));
    if (object != NULL && about->request != NULL)
        (void)json_object_set_new(object, "request", json_string(about->request));
    if (object != NULL && about->more != NULL) (void)json_object_update(object, about->more);
    if (object != NULL) text = written_json(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL || asprintf(&line, "%s\n", text) < 0) line = NULL;
    free(text);
    return line;
}

static void as_text(const struct log_about *about, const char *message, char out[LINE_SIZE])
{
    char pid[24] = "";
    if (components[about->component].pid) (void)snprintf(pid, sizeof pid, " %d", (int)getpid());
    (void)snprintf(out, LINE_SIZE, "%s%s%s%s\n", components[about->component].text, pid,
                   components[about->component].colon, message);
}

/* One write, so that lines of several processes do not mix. */
static void put(const char *line, bool may_drop)
{
    /* a pipe that polls writable takes PIPE_BUF bytes (more than most lines) without blocking */
    struct pollfd stream = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (may_drop && (poll(&stream, 1, 0) != 1 || (stream.revents & POLLOUT) == 0)) return;
    for (size_t left = strlen(line); left > 0;) {
        const ssize_t written = write(STDERR_FILENO, line, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        line += written;
        left -= (size_t)written;
    }
}

void log_line(const struct log_about *about, const char *format, ...)
{
    char message[MESSAGE_SIZE], text[LINE_SIZE], *json = NULL;
    va_list arguments;
    if ((int)about->level <= chosen(LOG_LEVEL_VARIABLE, levels, LEVELS, LOG_LEVEL_INFO)) {
        va_start(arguments, format);
        (void)vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        clean(message);
        if (chosen(LOG_FORMAT_VARIABLE, formats, FORMATS, 0) == 1) json = as_json(about, message);
        if (json == NULL) as_text(about, message, text);
        put(json != NULL ? json : text, about->may_drop);
        free(json);
    }
    json_decref(about->more);
}
