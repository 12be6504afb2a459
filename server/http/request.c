#include "http/request.h"

#include "base/words.h"
#include "http/accept.h"
#include "http/encoding.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KNOWN_MAX = 200 };

static const char *find(const struct name_value *pairs, size_t count, const char *name, size_t index)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0 && index-- == 0) return pairs[i].value;
    return NULL;
}

const char *request_parameter(const struct request *request, const char *name)
{
    return find(request->parameters, request->parameter_count, name, 0);
}

const char *request_query(const struct request *request, const char *name)
{
    return find(request->query, request->query_count, name, 0);
}

const char *request_query_at(const struct request *request, const char *name, size_t index)
{
    return find(request->query, request->query_count, name, index);
}

enum status request_query_fault(struct error *error, const char *name, const char *format, ...)
{
    char pointer[sizeof error->pointer], detail[sizeof error->detail];
    size_t used = 1;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    pointer[0] = '/';
    for (; *name && used + 3 < sizeof pointer; name++) { /* RFC 6901 */
        if (*name == '~' || *name == '/') pointer[used++] = '~';
        pointer[used++] = *name == '~' ? '0' : *name == '/' ? '1' : *name;
    }
    pointer[used] = '\0';
    return error_set_at(error, STATUS_INVALID, pointer, "%s", detail);
}

static bool may_repeat(const char *name)
{
    return name[0] != '\0' && name[strlen(name) - 1] == REQUEST_QUERY_REPEATS[0];
}

static size_t name_length(const char *name)
{
    return strlen(name) - (may_repeat(name) ? 1 : 0);
}

static bool is_named(const char *name, const char *given)
{
    const size_t length = name_length(name);
    return strncmp(name, given, length) == 0 && given[length] == '\0';
}

enum status request_query_allow(const struct request *request, const char *const *names, struct error *error)
{
    char known[KNOWN_MAX] = "";
    for (size_t j = 0; names[j] != NULL; j++)
        words_add(known, sizeof known, "%.*s", (int)name_length(names[j]), names[j]);
    for (size_t i = 0; i < request->query_count; i++) {
        const char *given = request->query[i].name;
        size_t j = 0;
        while (names[j] != NULL && !is_named(names[j], given)) j++;
        if (names[j] == NULL)
            return request_query_fault(error, given, "unknown query parameter; %s%s",
                                       known[0] ? "known here: " : "there are none here", known);
        if (!may_repeat(names[j]) && find(request->query, request->query_count, given, 1) != NULL)
            return request_query_fault(error, given, "comes twice: one value was expected");
    }
    return STATUS_OK;
}

enum status request_query_integer(const struct request *request, const char *name, int64_t fallback, int64_t minimum,
                                  int64_t maximum, int64_t *out, struct error *error)
{
    const char *text = request_query(request, name);
    *out = fallback;
    if (text == NULL) return STATUS_OK;
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool number =
        (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) && end != NULL && *end == '\0' && errno == 0;
    if (!number || value < minimum || value > maximum)
        return request_query_fault(error, name, "expected a whole number from %lld to %lld, found \"%.40s\"",
                                   (long long)minimum, (long long)maximum, text);
    *out = value;
    return STATUS_OK;
}

/* Appends the value to the header of that name. False: there is none yet. */
static bool join(struct request *request, const char *name, const char *value, char **owned)
{
    size_t i = 0;
    while (i < request->header_count && strcasecmp(request->headers[i].name, name) != 0) i++;
    if (i == request->header_count) return false;
    const size_t size = strlen(request->headers[i].value) + strlen(", ") + strlen(value) + 1;
    char *joined = malloc(size);
    if (joined == NULL) return true;
    (void)snprintf(joined, size, "%s, %s", request->headers[i].value, value);
    free(*owned);
    *owned = joined;
    request->headers[i].value = joined;
    return true;
}

bool request_add_header(struct request *request, const char *name, const char *value)
{
    static const char *const lists[REQUEST_LISTS] = {"Accept", "Accept-Encoding", "If-Match", "If-None-Match"};
    for (size_t i = 0; i < REQUEST_LISTS; i++)
        if (strcasecmp(lists[i], name) == 0 && join(request, name, value, &request->lists[i])) return true;
    if (request->header_count == REQUEST_HEADERS_MAX) return false;
    request->headers[request->header_count++] = (struct name_value){name, value};
    return true;
}

void request_reset(struct request *request)
{
    for (size_t i = 0; i < REQUEST_LISTS; i++) free(request->lists[i]);
    free(request->target_text);
    free(request->query_text);
}

bool request_wants_body(const struct request *request, const char *etag)
{
    return !request->head && !encoding_etag_matches(request_header(request, "If-None-Match"), etag, true);
}

const char *request_header(const struct request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0) return request->headers[i].value;
    return NULL;
}

/* The value of `wait` in one header, whose preferences are separated by commas and have parameters after ";". */
static int64_t wait_of(const char *header)
{
    for (const char *at = header; *at != '\0';) {
        at += strspn(at, " \t,");
        const char *end = at + strcspn(at, ",");
        if (strncasecmp(at, "wait", 4) == 0 && at[4 + strspn(at + 4, " \t")] == '=') {
            const char *number = strchr(at, '=') + 1;
            number += strspn(number, " \t\"");
            return strspn(number, "0123456789") > 0 ? strtoll(number, NULL, 10) : 0;
        }
        at = end;
    }
    return 0;
}

int64_t request_preferred_wait(const struct request *request, int64_t most)
{
    int64_t seconds = 0;
    for (size_t i = 0; i < request->header_count && seconds == 0; i++)
        if (strcasecmp(request->headers[i].name, "Prefer") == 0) seconds = wait_of(request->headers[i].value);
    return seconds < most ? seconds : most;
}

int request_prefer(const struct request *request, const char *const *types)
{
    const char *accept = request_header(request, "Accept");
    int best = -1, best_quality = 0;
    if (accept == NULL || accept[strspn(accept, " \t,")] == '\0') return 0;
    for (int i = 0; types[i] != NULL; i++) {
        const int quality = accept_type_quality(accept, types[i]);
        if (quality > best_quality) {
            best = i;
            best_quality = quality;
        }
    }
    return best;
}
