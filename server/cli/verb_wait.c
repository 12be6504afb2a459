#include "cli/verb.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long one request waits, on a terminal and elsewhere; how long a server that does not answer is retried; how long
 * after --timeout the last answer may come. */
enum { LOOK_SECONDS = 2, HOLD_SECONDS = 30, AWAY_SECONDS = 60, LATE_SECONDS = 10 };

/* ---- progress ---- */

static int64_t integer(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void put_seconds(double seconds, char *out, size_t size)
{
    const long whole = lround(seconds);
    if (whole < 120)
        (void)snprintf(out, size, "%ld s", whole);
    else if (whole < 7200)
        (void)snprintf(out, size, "%ld min", (whole + 30) / 60);
    else
        (void)snprintf(out, size, "%.1f h", seconds / 3600);
}

static void describe_run(const json_t *run, char *out, size_t size)
{
    char left[40] = "";
    const json_t *progress = json_object_get(run, "progress"), *eta = json_object_get(progress, "eta_seconds");
    const char *state = json_string_value(json_object_get(run, "state"));
    const int64_t done = integer(progress, "done"), total = integer(progress, "total");
    const char *unit = json_string_value(json_object_get(progress, "unit"));
    if (json_is_number(eta)) put_seconds(json_number_value(eta), left, sizeof left);
    if (total > 0)
        (void)snprintf(out, size, "%s: %.0f %% of %lld %s%s%s%s", state, 100 * (double)done / (double)total,
                       (long long)total, unit != NULL ? unit : "", total == 1 ? "" : "s",
                       left[0] != '\0' ? ", to go: " : "", left);
    else
        (void)snprintf(out, size, "%s", state != NULL ? state : "");
}

static void describe_sweep(const json_t *counts, char *out, size_t size)
{
    const int64_t total = integer(counts, "total"), open = integer(counts, "queued") + integer(counts, "running");
    (void)snprintf(out, size, "%lld of %lld runs, %lld failed", (long long)(total - open), (long long)total,
                   (long long)integer(counts, "failed"));
}

static const char *verdict_of(const json_t *document)
{
    return json_string_value(json_object_get(document, "verdict"));
}

/* Prints a single line that overwrites itself. */
static void show(const json_t *document, bool terminal)
{
    char line[160];
    const json_t *counts = json_object_get(document, "runs");
    if (!terminal) return;
    if (json_is_object(counts))
        describe_sweep(counts, line, sizeof line);
    else if (verdict_of(document) != NULL)
        (void)snprintf(line, sizeof line, "%s", verdict_of(document));
    else
        describe_run(document, line, sizeof line);
    (void)fprintf(stderr, "\r\033[K%s", line);
}

/* ---- the wait ---- */

static bool is_final(const json_t *document)
{
    const json_t *counts = json_object_get(document, "runs");
    const char *state = json_string_value(json_object_get(document, "state"));
    if (verdict_of(document) != NULL) return strcmp(verdict_of(document), "pending") != 0;
    if (json_is_object(counts)) return integer(counts, "queued") + integer(counts, "running") == 0;
    return state != NULL && strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
}

static void rest(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    if (seconds > 0) (void)nanosleep(&time, NULL);
}

/* Whether to ask again: there was no answer, or it says that the server is unavailable, as a proxy does (502, 504)
 * while the server restarts. */
static bool is_away(enum status status, const struct client_reply *reply)
{
    return status == STATUS_UNAVAILABLE || (status == STATUS_OK && (reply->http == 429 || reply->http > 500));
}

/* How long the wait may go on: with a server that does not answer, and at all. */
struct limits {
    double until, end;
};

/* Asks once. False: the error was printed. *out may stay NULL: ask again. A server that is still away at the end has
 * its error told: "not finished" would be said of work that nobody saw. */
static bool look(struct verb *verb, const char *path, double seconds, struct limits *limits, json_t **out)
{
    struct error error;
    struct client_reply reply;
    struct buffer query = {0};
    buffer_puts(&query, path);
    if (seconds > 0) buffer_printf(&query, "%cwait=%d", strchr(path, '?') != NULL ? '&' : '?', (int)seconds);
    const double left = fmax(limits->end - clock_seconds(), 0) + LATE_SECONDS;
    const struct client_request request = {
        .method = "GET", .path = query.bytes, .seconds = lround(fmin(left, CLIENT_SECONDS))};
    const enum status status = client_send(verb->client, &request, &reply, &error);
    bool good = true;
    const double now = clock_seconds();
    if (is_away(status, &reply) && now < limits->until && now < limits->end) {
        rest(fmin(reply.retry_seconds > 0 ? reply.retry_seconds : 1, limits->end - now));
    } else if ((good = verb_told(verb, &request, status, &reply, &error))) {
        *out = json_incref(reply.document);
        limits->until = now + AWAY_SECONDS;
    }
    client_reply_reset(&reply);
    buffer_reset(&query);
    return good;
}

bool verb_wait(struct verb *verb, const char *path, json_t **out)
{
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const int64_t timeout = verb->timeout;
    *out = NULL;
    const double start = clock_seconds(), end = timeout > 0 ? start + (double)timeout : INFINITY;
    struct limits limits = {.until = start + AWAY_SECONDS, .end = end};
    for (;;) {
        json_t *document = NULL;
        const double began = clock_seconds(), most = fmin(terminal ? LOOK_SECONDS : HOLD_SECONDS, fmax(end - began, 0));
        const bool good = look(verb, path, ceil(most), &limits, &document);
        if (document != NULL) {
            json_decref(*out);
            *out = document;
            show(document, terminal && good);
        }
        if (!good || is_final(*out)) break;
        if (document == NULL) continue; /* away, and has rested: the last look is one that begins at the end */
        if (clock_seconds() >= end) {
            if (terminal) (void)fputc('\n', stderr);
            (void)fprintf(stderr, "deltaq %s: not finished after %lld seconds\n", verb->name, (long long)timeout);
            verb->exit_status = VERB_PENDING;
            return false;
        }
        /* When the server did not delay its answer, the next request waits. */
        rest(fmin(began + 1, end) - clock_seconds());
    }
    if (terminal) (void)fputs("\r\033[K", stderr);
    return is_final(*out);
}

void verb_follow(struct verb *verb, const char *route, const json_t *document,
                 void (*conclude)(struct verb *verb, const json_t *document))
{
    const bool wait = options_given(verb->options, "--wait"), json = options_given(verb->options, "--json");
    const char *id = json_string_value(json_object_get(document, "id"));
    json_t *ended = NULL;
    char path[200];
    if (id == NULL) id = "";
    if (json && !wait)
        verb_print(verb, document);
    else if (!wait)
        (void)puts(id);
    if (!wait) return;
    /* Whoever stops waiting, or loses the server, must know what to look for. */
    if (!is_final(document))
        (void)fprintf(stderr, "deltaq %s: waiting for %s, which does not stop when this command does\n", verb->name,
                      id);
    (void)snprintf(path, sizeof path, "%s/%.100s", route, id);
    if (verb_wait(verb, path, &ended)) conclude(verb, ended);
    json_decref(ended);
}

void verb_post(struct verb *verb, const char *route, const json_t *body,
               void (*conclude)(struct verb *verb, const json_t *document))
{
    struct client_reply reply;
    const bool good = verb_call(verb, &(struct client_request){.method = "POST", .path = route, .body = body}, &reply);
    if (good && json_is_true(json_object_get(body, "dry_run")))
        verb_print(verb, reply.document);
    else if (good)
        verb_follow(verb, route, reply.document, conclude);
    client_reply_reset(&reply);
}
