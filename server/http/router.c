#include "http/router.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENTS_MAX = 16 };

enum status router_unescape(char *text, bool plus, struct error *error)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '%') {
            const int high = hex_value(in[1]), low = high < 0 ? -1 : hex_value(in[2]);
            if (low < 0)
                return error_set(error, STATUS_MALFORMED, "a %% in the address must be followed by two hex digits");
            *out = (char)(high * 16 + low);
            in += 2;
        } else {
            *out = plus && *in == '+' ? ' ' : *in;
        }
        if ((unsigned char)*out < 0x20 || *out == 0x7f)
            return error_set(error, STATUS_MALFORMED, "the address holds an encoded control character");
        out++;
    }
    *out = '\0';
    const size_t length = (size_t)(out - text);
    if (utf8_check(text, length) != length)
        return error_set(error, STATUS_MALFORMED, "the address is not valid UTF-8 once decoded");
    return STATUS_OK;
}

/* Cuts `text` ("/v1/runs/x") at its slashes into decoded segments. STATUS_NOT_FOUND: more segments than any route
 * has. */
static enum status split(char *text, char **segments, size_t *count, struct error *error)
{
    *count = 0;
    char *cursor = text + 1;
    while (true) {
        char *slash = strchr(cursor, '/');
        if (slash != NULL) *slash = '\0';
        enum status status = router_unescape(cursor, false, error);
        if (status != STATUS_OK) return status;
        if (*count == SEGMENTS_MAX)
            return error_set(error, STATUS_NOT_FOUND, "the address has more parts than any there is");
        segments[(*count)++] = cursor;
        if (slash == NULL) return STATUS_OK;
        cursor = slash + 1;
    }
}

/* Whether the segments fit `pattern`; the number of literal segments in it goes to *literal. An empty segment fits no
 * parameter. */
static bool pattern_fits(const char *pattern, char *const *segments, size_t count, int *literal)
{
    *literal = 0;
    for (size_t i = 0; i < count; i++) {
        if (*pattern != '/') return false;
        pattern++;
        const size_t length = strcspn(pattern, "/");
        const bool parameter = length > 2 && pattern[0] == '{';
        if (parameter ? !segments[i][0] : strlen(segments[i]) != length || memcmp(segments[i], pattern, length) != 0)
            return false;
        *literal += !parameter;
        pattern += length;
    }
    return *pattern == '\0';
}

/* Names of parameters are kept in the request's own text behind the segments, because patterns do not end them with a
 * NUL. */
static enum status bind_parameters(struct request *request, const char *pattern, char *const *segments, char *names,
                                   struct error *error)
{
    for (size_t i = 0; *pattern == '/'; i++) {
        pattern++;
        const size_t length = strcspn(pattern, "/");
        if (length > 2 && pattern[0] == '{') {
            if (request->parameter_count == REQUEST_PARAMETERS_MAX)
                return error_set(error, STATUS_INTERNAL, "a route has more than %d parameters", REQUEST_PARAMETERS_MAX);
            memcpy(names, pattern + 1, length - 2);
            names[length - 2] = '\0';
            request->parameters[request->parameter_count++] = (struct name_value){names, segments[i]};
            names += length - 1;
        }
        pattern += length;
    }
    return STATUS_OK;
}

/* Appends METHOD (and HEAD after GET) unless it is there already. */
static void allow_add(char *allow, size_t size, const char *method)
{
    const size_t length = strlen(allow);
    if (strstr(allow, method) != NULL) return;
    (void)snprintf(allow + length, size - length, "%s%s%s", length ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

enum status router_find(const struct route *routes, size_t count, struct request *request, enum route_match *match,
                        const struct route **row, char *allow, size_t allow_size, struct error *error)
{
    char *segments[SEGMENTS_MAX];
    size_t segment_count = 0;
    int best = -1;
    *match = ROUTE_UNKNOWN;
    *row = NULL;
    allow[0] = '\0';
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        if (strlen(routes[i].pattern) > longest) longest = strlen(routes[i].pattern);
    const size_t length = strlen(request->path);
    free(request->target_text);
    request->parameter_count = 0;
    request->target_text = malloc(length + longest + 2);
    if (request->target_text == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the address");
    memcpy(request->target_text, request->path, length + 1);
    enum status status = split(request->target_text, segments, &segment_count, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < count; i++) {
        int literal;
        if (!pattern_fits(routes[i].pattern, segments, segment_count, &literal)) continue;
        allow_add(allow, allow_size, routes[i].method);
        if (strcmp(routes[i].method, request->method) != 0 || literal <= best) continue;
        best = literal;
        *row = &routes[i];
    }
    if (allow[0]) allow_add(allow, allow_size, "OPTIONS");
    *match = *row != NULL ? ROUTE_FOUND : allow[0] ? ROUTE_METHOD : ROUTE_UNKNOWN;
    return *row != NULL ? bind_parameters(request, (*row)->pattern, segments, request->target_text + length + 1, error)
                        : STATUS_OK;
}

enum status router_query(struct request *request, const char *text, struct error *error)
{
    free(request->query_text);
    request->query_count = 0;
    request->query_text = strdup(text);
    if (request->query_text == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the query");
    for (char *cursor = request->query_text, *next; cursor != NULL; cursor = next) {
        next = strchr(cursor, '&');
        if (next != NULL) *next++ = '\0';
        if (!*cursor) continue;
        if (request->query_count == REQUEST_QUERY_MAX)
            return error_set(error, STATUS_MALFORMED, "more than %d query parameters", REQUEST_QUERY_MAX);
        char *value = strchr(cursor, '=');
        if (value != NULL)
            *value++ = '\0';
        else
            value = cursor + strlen(cursor);
        enum status status = router_unescape(cursor, true, error);
        if (status == STATUS_OK) status = router_unescape(value, true, error);
        if (status != STATUS_OK) return status;
        request->query[request->query_count++] = (struct name_value){cursor, value};
    }
    return STATUS_OK;
}
