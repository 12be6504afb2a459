/* The head of a request: "METHOD TARGET VERSION", then headers, a line each. What passes the checks is routed; names
 * and values that a handler sees are text without control characters, as the database's columns are. */
#include "fuzz.h"

#include "base/utf8.h"
#include "http/accept.h"
#include "http/byte_range.h"
#include "http/cors.h"
#include "http/encoding.h"
#include "http/lint.h"
#include "http/router.h"

#include <string.h>

static const struct route routes[] = {
    {.method = "GET", .pattern = "/v1/runs"},           {.method = "POST", .pattern = "/v1/runs"},
    {.method = "GET", .pattern = "/v1/runs/{id}"},      {.method = "GET", .pattern = "/v1/runs/{id}/artifacts/{name}"},
    {.method = "DELETE", .pattern = "/v1/runs/latest"},
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

static void check_text(const char *text)
{
    const size_t length = strlen(text);
    fuzz_require(utf8_check(text, length) == length);
    for (; *text != '\0'; text++) fuzz_require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

/* As the server has them: names and values apart, blanks around values gone. */
static void take_header(struct request *request, char *line)
{
    char *colon = strchr(line, ':');
    if (colon == NULL) return;
    *colon++ = '\0';
    if (!request_add_header(request, line, colon + strspn(colon, " \t")))
        fuzz_require(request->header_count == REQUEST_HEADERS_MAX);
}

static void check_route(struct request *request, const char *query)
{
    static const char *const known[] = {"limit", "name", NULL};
    enum route_match match;
    const struct route *row;
    char allow[64];
    int64_t limit;
    struct error error;
    enum status status = router_find(routes, ROUTES, request, &match, &row, allow, sizeof allow, &error);
    fuzz_require(status == STATUS_OK || (status == STATUS_MALFORMED && error.detail[0]));
    for (size_t i = 0; status == STATUS_OK && i < request->parameter_count; i++) {
        fuzz_require(request->parameters[i].value[0] != '\0');
        check_text(request->parameters[i].value);
    }
    status = router_query(request, query, &error);
    fuzz_require(status == STATUS_OK || (status == STATUS_MALFORMED && error.detail[0]));
    for (size_t i = 0; status == STATUS_OK && i < request->query_count; i++) {
        check_text(request->query[i].name);
        check_text(request->query[i].value);
    }
    if (status != STATUS_OK) return;
    if (request_query_allow(request, known, &error) != STATUS_OK) check_text(error.pointer);
    if (request_query_integer(request, "limit", 7, 1, 100, &limit, &error) == STATUS_OK)
        fuzz_require(limit >= 1 && limit <= 100);
}

static void check_headers(const struct request *request)
{
    static const char *const types[] = {"application/json", "text/csv", NULL};
    static const char *const origins[] = {"https://a.example", NULL};
    char host[] = "localhost:8642", *const hosts[] = {host, NULL};
    struct error error;
    const char *tags = request_header(request, "If-None-Match");
    const int64_t wait = request_preferred_wait(request, 60);
    fuzz_require(wait >= 0 && wait <= 60);
    fuzz_require(request_prefer(request, types) < 2);
    (void)(lint_host(request, hosts, NULL, &error) == PROBLEM_NONE);
    (void)(lint_origin(request, request->method, &error) == PROBLEM_NONE);
    (void)(lint_media_type(request, &error) == PROBLEM_NONE);
    (void)accept_coding_quality(request_header(request, "Accept-Encoding"), "gzip");
    if (tags != NULL) (void)encoding_etag_matches(tags, "0123", true);
    struct byte_range part;
    if (byte_range_of(request_header(request, "Range"), 1000, &part) == BYTE_RANGE_PART)
        fuzz_require(part.first >= 0 && part.length > 0 && part.first + part.length <= 1000);
    const struct cors_answer cors = cors_answer(origins, request, "GET, HEAD");
    fuzz_require(cors.allowed == NULL || strcmp(cors.allowed, origins[0]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct request *request = calloc(1, sizeof *request);
    char *text = malloc(size + 1), *kept = NULL, none[] = "";
    struct error error;
    struct lint_body body;
    fuzz_require(request != NULL && text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    char *first = strtok_r(text, "\r\n", &kept);
    for (char *line; first != NULL && (line = strtok_r(NULL, "\r\n", &kept)) != NULL;) take_header(request, line);
    char *method = first != NULL ? strtok_r(first, " ", &kept) : NULL;
    char *target = method != NULL ? strtok_r(NULL, " ", &kept) : NULL;
    char *version = target != NULL ? strtok_r(NULL, "", &kept) : NULL;
    request->method = method != NULL ? method : none;
    request->path = target != NULL ? target : none;
    const enum problem_id problem =
        lint_head(request, request->method, request->path, version != NULL ? version : none, &body, &error);
    fuzz_require(problem == PROBLEM_NONE || error.detail[0]);
    if (problem == PROBLEM_NONE) {
        char *query = strchr(target, '?');
        if (query != NULL) *query++ = '\0';
        fuzz_require(!body.chunked || body.length == 0);
        check_headers(request);
        check_route(request, query != NULL ? query : "");
    }
    request_reset(request);
    free(request);
    free(text);
    return 0;
}
