#include "hub/transfer.h"

#include "base/version.h"
#include "net/address.h"

#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CONNECT_SECONDS = 10, STILL_SECONDS = 30, STILL_BYTES = 1024 };

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "no memory for a request to the hub");
}

/* ---- the head of the answer ---- */

static int64_t number(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return -1;
    const long long value = strtoll(text, &end, 10);
    return value >= 0 && value < INT64_MAX ? (int64_t)value : -1;
}

/* Without W/ and quotes. */
static void take_etag(struct transfer_head *head, const char *value)
{
    if (strncmp(value, "W/", 2) == 0) value += 2;
    if (*value == '"') value++;
    (void)snprintf(head->linked_etag, sizeof head->linked_etag, "%.*s", (int)strcspn(value, "\""), value);
}

/* "bytes 0-1023/4096" */
static void take_range(struct transfer_head *head, const char *value)
{
    const char *slash = strchr(value, '/');
    if (strncasecmp(value, "bytes ", 6) != 0 || slash == NULL) return;
    head->range_first = number(value + 6);
    head->range_total = number(slash + 1);
}

/* <https://…?cursor=…>; rel="next" */
static void take_link(struct transfer_head *head, const char *value)
{
    const char *end = strchr(value, '>');
    if (*value != '<' || end == NULL || strstr(end, "rel=\"next\"") == NULL) return;
    (void)snprintf(head->next, sizeof head->next, "%.*s", (int)(end - value - 1), value + 1);
}

/* "api";r=0;t=55: how many are left, and in how many seconds there are more again. */
static void take_limit(struct transfer_head *head, const char *value)
{
    const char *reset = strstr(value, ";t=");
    if (reset != NULL && head->wait_seconds < 0) head->wait_seconds = (double)number(reset + 3);
}

static void take_retry(struct transfer_head *head, const char *value)
{
    const int64_t seconds = number(value);
    const time_t when = seconds < 0 ? curl_getdate(value, NULL) : -1;
    if (seconds >= 0) head->wait_seconds = (double)seconds;
    if (when >= 0) head->wait_seconds = when > time(NULL) ? difftime(when, time(NULL)) : 0;
}

static void take_text(char *out, size_t size, const char *value)
{
    size_t used = 0;
    for (; *value != '\0' && used + 1 < size; value++)
        if ((unsigned char)*value >= 0x20 && (unsigned char)*value < 0x7f) out[used++] = *value;
    out[used] = '\0';
}

static void take_header(struct transfer_head *head, const char *name, const char *value)
{
    if (strcasecmp(name, "x-repo-commit") == 0)
        take_text(head->commit, sizeof head->commit, value);
    else if (strcasecmp(name, "x-linked-etag") == 0)
        take_etag(head, value);
    else if (strcasecmp(name, "x-linked-size") == 0)
        head->linked_bytes = number(value);
    else if (strcasecmp(name, "x-error-code") == 0)
        take_text(head->code, sizeof head->code, value);
    else if (strcasecmp(name, "x-error-message") == 0)
        take_text(head->message, sizeof head->message, value);
    else if (strcasecmp(name, "content-range") == 0)
        take_range(head, value);
    else if (strcasecmp(name, "content-length") == 0)
        head->length = number(value);
    else if (strcasecmp(name, "content-encoding") == 0)
        head->encoded = strcasecmp(value, "identity") != 0;
    else if (strcasecmp(name, "link") == 0)
        take_link(head, value);
    else if (strcasecmp(name, "ratelimit") == 0)
        take_limit(head, value);
    else if (strcasecmp(name, "retry-after") == 0)
        take_retry(head, value);
}

static void clear_head(struct transfer_head *head)
{
    *head = (struct transfer_head){
        .linked_bytes = -1, .range_first = -1, .range_total = -1, .length = -1, .wait_seconds = -1};
}

/* Called for each line. A new status line begins a new head (100 Continue goes before the real one). */
static size_t on_header(char *bytes, size_t size, size_t count, void *owner)
{
    struct transfer *transfer = owner;
    char line[8192];
    const size_t length = size * count;
    if (length >= sizeof line) return length;
    memcpy(line, bytes, length);
    line[length] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        const char *space = strchr(line, ' ');
        clear_head(&transfer->head);
        transfer->head.status = space != NULL ? (int)number(space + 1) : 0;
        return length;
    }
    char *colon = strchr(line, ':');
    if (colon == NULL) return length;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    take_header(&transfer->head, line, value);
    return length;
}

/* Drops the bodies of redirects and errors. */
static size_t on_body(char *bytes, size_t size, size_t count, void *owner)
{
    struct transfer *transfer = owner;
    const size_t length = size * count;
    if (transfer->head.status != 200 && transfer->head.status != 206) return length;
    if (!transfer->head.encoded && transfer->sink(transfer->owner, &transfer->head, bytes, length)) return length;
    transfer->refused = true;
    return 0;
}

/* ---- the request ---- */

static bool add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (longer != NULL) transfer->headers = longer;
    return longer != NULL;
}

static bool add_token(struct transfer *transfer, const struct hub *hub)
{
    char *line = NULL;
    if (asprintf(&line, "Authorization: Bearer %s", hub->token) < 0) return false;
    const bool good = add_header(transfer, line);
    explicit_bzero(line, strlen(line));
    free(line);
    transfer->authorized = good;
    return good;
}

/* ---- where it may connect to ---- */

/* The proxy that libcurl takes for https, from the environment as libcurl reads it; NULL: none. */
static const char *proxy_of_environment(void)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') return value;
    }
    return NULL;
}

static bool same_address(const struct addrinfo *a, const struct sockaddr *b, size_t length)
{
    return a->ai_addrlen == length && memcmp(a->ai_addr, b, length) == 0;
}

/* Whether the address is the operator's proxy, which may well be private. The proxy decides itself where it leads. */
static bool is_proxy(const struct sockaddr *address, size_t length)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *given = proxy_of_environment();
    struct addrinfo *found = NULL;
    char *host = NULL, *port = NULL;
    bool same = false;
    CURLU *url = given != NULL ? curl_url() : NULL;
    if (url != NULL && curl_url_set(url, CURLUPART_URL, given, CURLU_GUESS_SCHEME) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_OK && getaddrinfo(host, port, &hints, &found) == 0)
        for (const struct addrinfo *at = found; at != NULL && !same; at = at->ai_next)
            same = same_address(at, address, length);
    if (found != NULL) freeaddrinfo(found);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    return same;
}

static bool may_connect(const void *owner, const struct sockaddr *address, size_t length)
{
    const struct transfer *transfer = owner;
    if (transfer->to_endpoint || transfer->hub->allow_private || address_public(address, length)) return true;
    if (origin_is_loopback(&transfer->hub->origin) && address_loopback(address, length)) return true;
    return is_proxy(address, length);
}

static bool set_up(struct transfer *transfer, const struct transfer_request *request, bool plain)
{
    CURL *easy = transfer->easy;
    char range[64];
    bool good = curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_USERAGENT, "deltaq/" DELTAQ_VERSION) == CURLE_OK;
    (void)snprintf(range, sizeof range, "%lld-%lld", (long long)request->first, (long long)request->last);
    if (request->last >= 0) good = good && curl_easy_setopt(easy, CURLOPT_RANGE, range) == CURLE_OK;
    if (plain) good = good && curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
    /* HTTP/1.1 gives parallel requests a connection each; a single congested connection would slow all of them. */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)STILL_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STILL_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)request->seconds);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->problem);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, request->owner);
    transfer->guard = (struct guard){.allowed = may_connect, .owner = transfer};
    return good && guard_set(easy, &transfer->guard);
}

enum status transfer_new(const struct hub *hub, const struct transfer_request *request, struct transfer **out,
                         struct error *error)
{
    struct origin origin;
    *out = NULL;
    if (!origin_read(request->url, &origin) || !origin_allowed(&origin, &hub->origin))
        return error_set(error, STATUS_FORBIDDEN, "the hub leads to an address that is not https");
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) return no_memory(error);
    transfer->sink = request->sink;
    transfer->owner = request->owner;
    transfer->hub = hub;
    transfer->to_endpoint = origin_equal(&origin, &hub->origin);
    clear_head(&transfer->head);
    transfer->easy = curl_easy_init();
    bool good = transfer->easy != NULL && add_header(transfer, "Accept-Encoding: identity");
    if (good && hub->token != NULL && transfer->to_endpoint) good = add_token(transfer, hub);
    if (!good || !set_up(transfer, request, strcmp(origin.scheme, "http") == 0)) {
        transfer_free(transfer);
        return no_memory(error);
    }
    *out = transfer;
    return STATUS_OK;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer == NULL) return;
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    free(transfer);
}

/* ---- the verdict ---- */

/* What an answer without the requested content means. `code` is the hub's X-Error-Code; NULL: any. The first row that
 * fits. */
static const struct meaning {
    int low, high;
    const char *code;
    enum transfer_verdict verdict;
    enum status status;
    const char *text;
} meanings[] = {
    {401, 401, "GatedRepo", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the repository is gated: accept its conditions on the hub and set HF_TOKEN to a token of that account"},
    {403, 403, "GatedRepo", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the repository is gated and HF_TOKEN's account has no access: ask for it on the hub"},
    {403, 403, "DisabledRepo", TRANSFER_FAILED, STATUS_FORBIDDEN, "the hub has disabled the repository"},
    {404, 404, "RevisionNotFound", TRANSFER_FAILED, STATUS_NOT_FOUND, "the repository has no such revision"},
    {404, 404, "EntryNotFound", TRANSFER_FAILED, STATUS_NOT_FOUND, "the repository has no such file at that revision"},
    {401, 401, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the hub wants a token: the repository is private, gated, or does not exist; set HF_TOKEN or look at its name"},
    {403, 403, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, "the hub refuses access"},
    {404, 404, NULL, TRANSFER_FAILED, STATUS_NOT_FOUND, "the hub has no such repository"},
    {408, 408, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub ran out of time"},
    {429, 429, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub limits the rate of requests"},
    {500, 599, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub is in trouble"},
    {0, 999, NULL, TRANSFER_FAILED, STATUS_CORRUPT, "an answer that the hub does not give"},
};

static enum transfer_verdict judge_status(const struct transfer *transfer, const char *what, struct error *error)
{
    const struct transfer_head *head = &transfer->head;
    const struct meaning *row = meanings;
    while (head->status < row->low || head->status > row->high ||
           (row->code != NULL && strcasecmp(row->code, head->code) != 0))
        row++;
    (void)error_set(error, row->status, "%.200s: %s (HTTP %d)", what, row->text, head->status);
    return row->verdict;
}

static enum transfer_verdict judge_move(struct transfer *transfer, const char *what, struct error *error)
{
    const char *location = NULL;
    if (curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &location) == CURLE_OK && location != NULL &&
        strlen(location) < sizeof transfer->head.location) {
        (void)snprintf(transfer->head.location, sizeof transfer->head.location, "%s", location);
        return TRANSFER_MOVED;
    }
    (void)error_set(error, STATUS_CORRUPT, "%.200s: the hub redirects to nowhere", what);
    return TRANSFER_FAILED;
}

enum transfer_verdict transfer_judge(struct transfer *transfer, CURLcode code, const char *what, struct error *error)
{
    const int status = transfer->head.status;
    if (transfer->refused && transfer->head.encoded) {
        (void)error_set(error, STATUS_CORRUPT, "%.200s: the hub sends a content coding that was not asked for", what);
        return TRANSFER_FAILED;
    }
    if (code == CURLE_OUT_OF_MEMORY) {
        (void)no_memory(error);
        return TRANSFER_FAILED;
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        (void)error_set(error, STATUS_FORBIDDEN, "%.200s: the server's certificate is not good: %.200s", what,
                        transfer->problem);
        return TRANSFER_FAILED;
    }
    if (code != CURLE_OK && transfer->guard.refused[0] != '\0') {
        (void)error_set(error, STATUS_FORBIDDEN,
                        "%.200s: the hub leads to %.80s, an address of this machine or a private network"
                        " (--allow-private-hub)",
                        what, transfer->guard.refused);
        return TRANSFER_FAILED;
    }
    if (code != CURLE_OK || status == 0) {
        const char *detail = transfer->problem[0] != '\0' ? transfer->problem : curl_easy_strerror(code);
        (void)error_set(error, STATUS_UNAVAILABLE, "%.200s: %.200s", what, detail);
        return TRANSFER_AGAIN;
    }
    if (status == 200 || status == 206) return TRANSFER_GOOD;
    if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308)
        return judge_move(transfer, what, error);
    return judge_status(transfer, what, error);
}
