#include "http/lint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { TARGET_MAX = 8192, KEY_MAX = 200 };

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

/* Headers that may occur once; a second one is an attack or a mistake. */
static const char *const single[] = {
    "Host",   "Content-Length", "Transfer-Encoding", "Content-Type", "Authorization", "Idempotency-Key",
    "Origin", "Expect",         "Content-Encoding",  "Last-Event-ID"};

static bool token_character(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool method_known(const char *method)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i], method) == 0) return true;
    return false;
}

static enum problem_id refuse(struct error *error, enum problem_id id, const char *detail)
{
    (void)error_set(error, STATUS_MALFORMED, "%s", detail);
    return id;
}

static enum problem_id lint_target(const char *target, struct error *error)
{
    if (target[0] != '/') return refuse(error, PROBLEM_BAD_REQUEST, "the request target must start with /");
    const size_t length = strlen(target);
    if (length > TARGET_MAX)
        return refuse(error, PROBLEM_TARGET_TOO_LONG, "the request target is longer than 8192 bytes");
    for (size_t i = 0; i < length; i++)
        if (target[i] <= 0x20 || target[i] >= 0x7f || target[i] == '#')
            return refuse(error, PROBLEM_BAD_REQUEST,
                          "the request target holds a character that must be percent-encoded: a space, control, #"
                          " or non-ASCII one");
    return PROBLEM_NONE;
}

static enum problem_id lint_fields(const struct request *request, struct error *error)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct name_value *header = &request->headers[i];
        if (!header->name[0]) return refuse(error, PROBLEM_BAD_REQUEST, "a header has no name");
        for (const char *c = header->name; *c; c++)
            if (!token_character(*c))
                return refuse(error, PROBLEM_BAD_REQUEST, "a header name holds a character that is not allowed");
        for (const char *c = header->value; *c; c++)
            if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
                return refuse(error, PROBLEM_BAD_REQUEST, "a header value holds a control character");
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        size_t count = 0;
        for (size_t j = 0; j < request->header_count; j++)
            count += strcasecmp(request->headers[j].name, single[i]) == 0;
        if (count > 1) {
            (void)error_set(error, STATUS_MALFORMED, "header %s may come once, found %zu", single[i], count);
            return PROBLEM_BAD_REQUEST;
        }
    }
    return PROBLEM_NONE;
}

static enum problem_id lint_length(const struct request *request, const char *version, struct lint_body *body,
                                   struct error *error)
{
    const char *length = request_header(request, "Content-Length"),
               *coding = request_header(request, "Transfer-Encoding");
    *body = (struct lint_body){0};
    if (length != NULL && coding != NULL)
        return refuse(error, PROBLEM_BAD_REQUEST, "Content-Length and Transfer-Encoding may not come together");
    if (coding != NULL) {
        if (strcasecmp(coding, "chunked") != 0)
            return refuse(error, PROBLEM_BAD_REQUEST, "the only transfer coding understood is chunked");
        if (strcmp(version, "HTTP/1.1") != 0)
            return refuse(error, PROBLEM_BAD_REQUEST, "Transfer-Encoding needs HTTP/1.1");
        body->chunked = body->present = true;
    }
    if (length != NULL) {
        const size_t digits = strlen(length);
        if (digits == 0 || strspn(length, "0123456789") != digits)
            return refuse(error, PROBLEM_BAD_REQUEST, "Content-Length must be a number of digits only");
        if (digits > 18)
            return refuse(error, PROBLEM_BODY_TOO_LARGE, "the declared body is larger than any this server takes");
        for (const char *c = length; *c; c++) body->length = body->length * 10 + (uint64_t)(*c - '0');
        body->present = body->length > 0;
    }
    return PROBLEM_NONE;
}

static enum problem_id lint_rest(const struct request *request, struct error *error)
{
    const char *expect = request_header(request, "Expect"), *key = request_header(request, "Idempotency-Key");
    if (expect != NULL && strcasecmp(expect, "100-continue") != 0)
        return refuse(error, PROBLEM_EXPECTATION, "the only expectation understood is 100-continue");
    if (key != NULL) {
        const size_t length = strlen(key);
        bool visible = length >= 1 && length <= KEY_MAX;
        for (size_t i = 0; i < length && visible; i++) visible = key[i] > 0x20 && key[i] < 0x7f;
        if (!visible)
            return refuse(error, PROBLEM_BAD_REQUEST, "Idempotency-Key must be 1 to 200 visible ASCII characters");
    }
    return PROBLEM_NONE;
}

enum problem_id lint_head(const struct request *request, const char *method, const char *target, const char *version,
                          struct lint_body *body, struct error *error)
{
    enum problem_id problem;
    *body = (struct lint_body){0};
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return refuse(error, PROBLEM_BAD_REQUEST, "the version must be HTTP/1.1 or HTTP/1.0");
    if (!method_known(method))
        return refuse(error, PROBLEM_METHOD_UNKNOWN,
                      "methods understood: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    if ((problem = lint_target(target, error)) != PROBLEM_NONE) return problem;
    if ((problem = lint_fields(request, error)) != PROBLEM_NONE) return problem;
    if (request_header(request, "Host") == NULL)
        return refuse(error, PROBLEM_BAD_REQUEST, "a request needs one Host header");
    if ((problem = lint_length(request, version, body, error)) != PROBLEM_NONE) return problem;
    return lint_rest(request, error);
}

enum problem_id lint_host(const struct request *request, char *const *hosts, const char *own, struct error *error)
{
    const char *host = request_header(request, "Host");
    for (size_t i = 0; hosts[i] != NULL; i++)
        if (strcasecmp(host, hosts[i]) == 0) return PROBLEM_NONE;
    if (own != NULL && strcasecmp(host, own) == 0) return PROBLEM_NONE;
    return refuse(error, PROBLEM_MISDIRECTED,
                  "this server does not answer for the name in Host; start it with --allow-host NAME if it should");
}

bool lint_own_origin(const struct request *request)
{
    const char *host = request_header(request, "Host"), *origin = request_header(request, "Origin");
    if (host == NULL || origin == NULL) return false;
    const char *rest = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : "";
    return strcasecmp(rest, host) == 0;
}

/* Another page of the same site is another page: sites are names without ports, and others have ports of localhost. */
static bool other_site(const struct request *request)
{
    const char *site = request_header(request, "Sec-Fetch-Site");
    return site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static bool other_origin(const struct request *request)
{
    return request_header(request, "Origin") != NULL && !lint_own_origin(request);
}

bool lint_other_page(const struct request *request)
{
    return other_site(request) || other_origin(request);
}

enum problem_id lint_origin(const struct request *request, const char *method, struct error *error)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0)
        return PROBLEM_NONE;
    if (other_site(request))
        return refuse(error, PROBLEM_CROSS_SITE, "a page of another site may not write here (Sec-Fetch-Site)");
    if (other_origin(request))
        return refuse(error, PROBLEM_CROSS_SITE, "a page of another site may not write here (Origin)");
    return PROBLEM_NONE;
}

enum problem_id lint_media_type(const struct request *request, struct error *error)
{
    const char *type = request_header(request, "Content-Type"), *coding = request_header(request, "Content-Encoding");
    if (coding != NULL && strcasecmp(coding, "identity") != 0)
        return refuse(error, PROBLEM_MEDIA_TYPE, "bodies must come without a content coding");
    if (type == NULL) return refuse(error, PROBLEM_MEDIA_TYPE, "a body needs Content-Type: application/json");
    size_t length = strcspn(type, ";");
    while (length > 0 && (type[length - 1] == ' ' || type[length - 1] == '\t')) length--;
    const bool json = (length == 16 && strncasecmp(type, "application/json", 16) == 0) ||
                      (length == 28 && strncasecmp(type, "application/merge-patch+json", 28) == 0);
    if (!json) return refuse(error, PROBLEM_MEDIA_TYPE, "the body must be application/json");
    const char *parameters = type + strcspn(type, ";");
    const char *charset = strcasestr(parameters, "charset=");
    if (charset != NULL && strncasecmp(charset + 8, "utf-8", 5) != 0 && strncasecmp(charset + 8, "\"utf-8\"", 7) != 0)
        return refuse(error, PROBLEM_MEDIA_TYPE, "the body must be UTF-8");
    return PROBLEM_NONE;
}
