#include "http/problem.h"

#include "base/utf8.h"
#include "json/written.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DETAIL_SIZE = sizeof((struct error *)0)->pointer + sizeof((struct error *)0)->detail + 2 };

static const struct problem rows[] = {
    [PROBLEM_NONE] = {"ok", "OK", 200, false, false},
    [PROBLEM_BAD_REQUEST] = {"bad_request", "Bad request", 400, true, false},
    [PROBLEM_BODY_TOO_LARGE] = {"too_large", "Too large", 413, true, false},
    [PROBLEM_TARGET_TOO_LONG] = {"target_too_long", "Address too long", 414, true, false},
    [PROBLEM_TOO_MANY_HEADERS] = {"too_many_headers", "Too many headers", 431, true, false},
    [PROBLEM_MISDIRECTED] = {"misdirected", "Misdirected request", 421, true, false},
    [PROBLEM_CROSS_SITE] = {"cross_site", "Cross-site request refused", 403, true, false},
    [PROBLEM_METHOD_UNKNOWN] = {"method_not_allowed", "Method not allowed", 405, true, false},
    [PROBLEM_METHOD_NOT_ALLOWED] = {"method_not_allowed", "Method not allowed", 405, false, false},
    [PROBLEM_ROUTE_UNKNOWN] = {"not_found", "Not found", 404, false, false},
    [PROBLEM_MEDIA_TYPE] = {"unsupported_media_type", "Unsupported media type", 415, false, false},
    [PROBLEM_EXPECTATION] = {"expectation_failed", "Expectation failed", 417, true, false},
    [PROBLEM_PRECONDITION] = {"precondition_failed", "Precondition failed", 412, false, false},
    [PROBLEM_RANGE] = {"range_not_satisfiable", "Range not satisfiable", 416, false, false},
    [PROBLEM_KEY_REUSED] = {"idempotency_key_reused", "Idempotency key reused", 422, false, false},
    [PROBLEM_KEY_BUSY] = {"idempotency_key_busy", "Idempotency key in use", 409, false, true},
    [PROBLEM_BUSY] = {"busy", "Too busy", 503, false, true},
};
static_assert(sizeof rows / sizeof rows[0] == PROBLEM_COUNT, "a row for every problem");

struct problem problem_row(enum problem_id id)
{
    assert(id >= 0 && id < PROBLEM_COUNT);
    return rows[id];
}

struct problem problem_of_status(enum status status)
{
    const struct status_info *info = status_info(status);
    return (struct problem){info->name, info->title, info->http, info->http == 400 || info->http == 413, info->retry};
}

/* The detail of a single fault includes its pointer, because clients show only the detail. Several faults are listed in
 * `errors`. */
static void say_where(const struct error *error, const json_t *errors, char *out, size_t size)
{
    const bool one = error->pointer[0] && json_array_size(errors) <= 1;
    (void)snprintf(out, size, "%s%s%s", one ? error->pointer : "", one ? ": " : "", error->detail);
}

char *problem_render(const struct problem *problem, const struct error *error, json_t *errors, const char *instance,
                     const char *request_id)
{
    char type[96], said[DETAIL_SIZE];
    char *written = NULL;
    (void)snprintf(type, sizeof type, "/problems/%s", problem->code);
    say_where(error, errors, said, sizeof said);
    /* a refused address may contain any bytes */
    const bool text = utf8_check(instance, strlen(instance)) == strlen(instance);
    json_t *document = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "type", type, "title", problem->title, "status",
                                 problem->http, "detail", said, "code", problem->code, "request_id", request_id);
    bool good = document != NULL;
    if (good && text) good = json_object_set_new(document, "instance", json_string(instance)) == 0;
    if (good && errors != NULL && json_array_size(errors) > 0)
        good = json_object_set(document, "errors", errors) == 0;
    else if (good && error->pointer[0])
        good = json_object_set_new(document, "errors",
                                   json_pack("[{s:s, s:s}]", "pointer", error->pointer, "detail", error->detail)) == 0;
    if (good) written = written_json(document, JSON_COMPACT);
    json_decref(document);
    return written;
}
