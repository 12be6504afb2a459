/* problem.h: problem documents (RFC 9457). A failed status of the engine or the store has its row in base/error.c; the
 * problems that only HTTP has are rows here. */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include "base/error.h"

#include <jansson.h>

enum problem_id {
    PROBLEM_NONE,
    PROBLEM_BAD_REQUEST, /* the request breaks the grammar; the connection is closed afterwards */
    PROBLEM_BODY_TOO_LARGE,
    PROBLEM_TARGET_TOO_LONG,
    PROBLEM_TOO_MANY_HEADERS,
    PROBLEM_MISDIRECTED,
    PROBLEM_CROSS_SITE,
    PROBLEM_METHOD_UNKNOWN,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_ROUTE_UNKNOWN,
    PROBLEM_MEDIA_TYPE,
    PROBLEM_EXPECTATION,
    PROBLEM_PRECONDITION,
    PROBLEM_RANGE,
    PROBLEM_KEY_REUSED,
    PROBLEM_KEY_BUSY,
    PROBLEM_BUSY,
    PROBLEM_COUNT
};

struct problem {
    const char *code;  /* the last part of `type` */
    const char *title; /* the title of every problem with this code */
    int http;
    bool close; /* the connection is closed, because its other bytes cannot be trusted or are not wanted */
    bool retry; /* has a Retry-After */
};

struct problem problem_row(enum problem_id id);
struct problem problem_of_status(enum status status);

/* The document as text; the caller frees it. `errors`: array of {"pointer", "detail"} (lent), or NULL: then
 * `error->pointer`, if any, makes the one entry. NULL only when memory has run out. */
char *problem_render(const struct problem *problem, const struct error *error, json_t *errors, const char *instance,
                     const char *request_id);

#endif
