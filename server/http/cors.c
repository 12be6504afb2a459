#include "http/cors.h"

#include "http/lint.h"

#include <string.h>

enum { ORIGIN_MAX = 200 };

/* Headers of answers that are not readable by every page already. */
static const char exposed_headers[] = "Accept-Ranges, Allow, Content-Disposition, Content-Range, Deltaq-Cursor, ETag, "
                                      "Idempotency-Replayed, Link, Location, Preference-Applied, Retry-After, "
                                      "WWW-Authenticate, X-Request-Id";

/* Headers of requests that make a browser send a preflight first. */
static const char request_headers[] = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                                      "If-Range, Last-Event-ID, Prefer, Range";

static bool is_any(const char *origin)
{
    return strcmp(origin, "*") == 0;
}

static enum status refuse(const char *origin, const char *why, struct error *error)
{
    return error_set(error, STATUS_INVALID, "--allow-origin \"%.100s\": %s", origin, why);
}

static const char shape[] = "expected SCHEME://HOST[:PORT], like http://localhost:8888, or *";

/* `port` begins with the colon. */
static enum status check_port(const char *origin, const char *port, struct error *error)
{
    const size_t length = strlen(port + 1);
    if (length == 0 || length > 5 || strspn(port + 1, "0123456789") != length) return refuse(origin, shape, error);
    const bool standard = (strncmp(origin, "http:", 5) == 0 && strcmp(port, ":80") == 0) ||
                          (strncmp(origin, "https:", 6) == 0 && strcmp(port, ":443") == 0);
    return standard ? refuse(origin, "browsers leave out the scheme's own port", error) : STATUS_OK;
}

static enum status check_one(const char *origin, struct error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    const char *host = strstr(origin, "://");
    if (strlen(origin) > ORIGIN_MAX) return refuse(origin, "is longer than 200 characters", error);
    if (host == NULL || strspn(origin, letters) == 0) return refuse(origin, shape, error);
    for (const char *c = origin; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'Z') return refuse(origin, "browsers write origins in lower case", error);
        if (*c <= 0x20 || *c >= 0x7f || strchr("\"'<>\\,*", *c) != NULL) return refuse(origin, shape, error);
    }
    host += strlen("://");
    if (strpbrk(host, "/?#@") != NULL)
        return refuse(origin, "an origin ends after the port: no path, no slash, no user", error);
    const char *port = host[0] == '[' ? strchr(host, ']') : host;
    port = port != NULL ? strchr(port, ':') : NULL;
    if (host[0] == '\0' || port == host) return refuse(origin, shape, error);
    return port != NULL ? check_port(origin, port, error) : STATUS_OK;
}

enum status cors_check(const char *const *origins, struct error *error)
{
    size_t count = 0;
    bool any = false;
    enum status status = STATUS_OK;
    for (; origins[count] != NULL && status == STATUS_OK; count++) {
        any = any || is_any(origins[count]);
        if (!is_any(origins[count])) status = check_one(origins[count], error);
    }
    if (status != STATUS_OK || !any || count == 1) return status;
    return error_set(error, STATUS_INVALID,
                     "--allow-origin *: stands alone: it lets pages of any origin read, names let theirs write too");
}

/* The row that matches the request's Origin; NULL: none. */
static const char *match(const char *const *origins, const struct request *request)
{
    const char *origin = request_header(request, "Origin");
    if (origins == NULL || origin == NULL || lint_own_origin(request)) return NULL;
    for (size_t i = 0; origins[i] != NULL; i++)
        if (is_any(origins[i]) || strcmp(origins[i], origin) == 0) return origins[i];
    return NULL;
}

const char *cors_allowed(const char *const *origins, const struct request *request)
{
    return match(origins, request);
}

bool cors_may_write(const char *const *origins, const struct request *request)
{
    const char *row = match(origins, request);
    return row != NULL && !is_any(row);
}

struct cors_answer cors_answer(const char *const *origins, const struct request *request, const char *allow)
{
    struct cors_answer answer = {0};
    if (origins == NULL || origins[0] == NULL) return answer;
    answer.vary = "Origin"; /* also without an Origin, so that a cache does not give this answer to a page that sends
                             * one */
    answer.allowed = match(origins, request);
    if (answer.allowed == NULL) return answer;
    const bool preflight = request->method != NULL && strcmp(request->method, "OPTIONS") == 0 &&
                           request_header(request, "Access-Control-Request-Method") != NULL;
    if (!preflight || allow == NULL) {
        answer.exposed = exposed_headers;
        return answer;
    }
    answer.headers = request_headers;
    answer.methods = is_any(answer.allowed) ? "GET, HEAD" : allow;
    answer.max_age = "600";
    return answer;
}
