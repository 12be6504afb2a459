#include "transfer/transfer.h"

#include "base/version.h"
#include "net/address.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CONNECT_SECONDS = 10, STILL_SECONDS = 30, STILL_BYTES = 1024, POLL_MILLISECONDS = 250 };

/* ---- the answer ---- */

static size_t on_header(char *bytes, size_t size, size_t count, void *owner)
{
    struct transfer *transfer = owner;
    transfer_head_line(&transfer->head, bytes, size * count);
    return size * count;
}

static bool is_good(int status)
{
    return status == 200 || status == 204 || status == 206;
}

/* Keeps the beginning of the body of a redirect or error. */
static size_t on_body(char *bytes, size_t size, size_t count, void *owner)
{
    struct transfer *transfer = owner;
    const size_t length = size * count, left = sizeof transfer->refusal - transfer->refusal_bytes;
    if (!is_good(transfer->head.status)) {
        memcpy(transfer->refusal + transfer->refusal_bytes, bytes, length < left ? length : left);
        transfer->refusal_bytes += length < left ? length : left;
        return length;
    }
    if (transfer->sink == NULL) return length;
    if (!transfer->head.encoded && transfer->sink(transfer->owner, &transfer->head, bytes, length)) return length;
    transfer->refused = true;
    return 0;
}

/* ---- the request ---- */

bool transfer_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (longer != NULL) transfer->headers = longer;
    return longer != NULL;
}

bool transfer_secret_header(struct transfer *transfer, const char *name, const char *secret)
{
    char *line = NULL;
    if (asprintf(&line, "%s: %s", name, secret) < 0) return false;
    const bool good = transfer_header(transfer, line);
    explicit_bzero(line, strlen(line));
    free(line);
    return good;
}

/* A PUT with its body in memory is sent as a POST with another method name. */
static bool set_method(CURL *easy, const struct transfer_request *request)
{
    static const char *const names[] = {[TRANSFER_PUT] = "PUT", [TRANSFER_DELETE] = "DELETE"};
    bool good = true;
    if (request->method == TRANSFER_HEAD) good = curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (request->method == TRANSFER_PUT || request->method == TRANSFER_POST)
        good = curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body != NULL ? request->body : "") == CURLE_OK;
    if (request->method == TRANSFER_PUT || request->method == TRANSFER_DELETE)
        good = good && curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, names[request->method]) == CURLE_OK;
    return good;
}

/* ---- where it may connect to ---- */

/* The proxy that libcurl uses for https, from the variables that libcurl reads; NULL: none. */
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

/* Whether the address is the operator's proxy, which may be private. The proxy decides itself where it connects to. */
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
    if (transfer->to_endpoint || transfer->server->allow_private || address_public(address, length)) return true;
    if (origin_is_loopback(&transfer->server->origin) && address_loopback(address, length)) return true;
    return is_proxy(address, length);
}

static bool set_up(struct transfer *transfer, const struct transfer_request *request, bool plain)
{
    CURL *easy = transfer->easy;
    char range[64];
    bool good = curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_USERAGENT, "deltaq/" DELTAQ_VERSION) == CURLE_OK &&
                set_method(easy, request);
    (void)snprintf(range, sizeof range, "%lld-%lld", (long long)request->first, (long long)request->last);
    if (request->last >= 0) good = good && curl_easy_setopt(easy, CURLOPT_RANGE, range) == CURLE_OK;
    if (plain) good = good && curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
    /* HTTP/1.1 gives parallel requests a connection each; on a single congested connection all of them would be
     * slow. */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    /* libcurl refuses to sign a path that is sent unchanged (8.14.1-2+deb13u7). */
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, transfer->server->signs ? 0L : 1L);
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

enum status transfer_new(const struct transfer_request *request, struct transfer **out, struct error *error)
{
    struct origin origin;
    const struct transfer_server *server = request->server;
    *out = NULL;
    if (!origin_read(request->url, &origin) ||
        (!origin_equal(&origin, &server->origin) && !origin_allowed(&origin, &server->origin)))
        return error_set(error, STATUS_FORBIDDEN, "%s leads to an address that is not https", server->name);
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) return error_no_memory(error, "a request to another server");
    transfer->server = server;
    transfer->sink = request->sink;
    transfer->owner = request->owner;
    transfer->to_endpoint = origin_equal(&origin, &server->origin);
    transfer_head_clear(&transfer->head);
    transfer->easy = curl_easy_init();
    enum status status = transfer->easy != NULL ? STATUS_OK : error_no_memory(error, "a request to another server");
    for (const char *const *line = request->headers; status == STATUS_OK && line != NULL && *line != NULL; line++)
        if (!transfer_header(transfer, *line)) status = error_no_memory(error, "a request to another server");
    if (status == STATUS_OK && server->authorize != NULL && transfer->to_endpoint)
        status = server->authorize(server, request, transfer, error);
    if (status == STATUS_OK && !set_up(transfer, request, strcmp(origin.scheme, "http") == 0))
        status = error_no_memory(error, "a request to another server");
    if (status != STATUS_OK)
        transfer_free(transfer);
    else
        *out = transfer;
    return status;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer == NULL) return;
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    free(transfer);
}

enum status transfer_perform(struct transfer *transfer, const struct monitor *monitor, CURLcode *code,
                             struct error *error)
{
    enum status status = STATUS_OK;
    int running = 1, left;
    CURLM *multi = curl_multi_init();
    *code = CURLE_OUT_OF_MEMORY;
    if (multi == NULL || curl_multi_add_handle(multi, transfer->easy) != CURLM_OK)
        status = error_no_memory(error, "a request to another server");
    while (status == STATUS_OK && running > 0) {
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            status = error_no_memory(error, "a request to another server");
        if (running > 0 && status == STATUS_OK) (void)curl_multi_poll(multi, NULL, 0, POLL_MILLISECONDS, NULL);
        if (status == STATUS_OK) status = monitor_check(monitor, error);
    }
    for (const CURLMsg *message; multi != NULL && (message = curl_multi_info_read(multi, &left)) != NULL;)
        if (message->msg == CURLMSG_DONE) *code = message->data.result;
    if (multi != NULL) (void)curl_multi_remove_handle(multi, transfer->easy);
    (void)curl_multi_cleanup(multi);
    return status;
}

/* ---- the verdict ---- */

static enum transfer_verdict judge_status(struct transfer *transfer, const char *what, struct error *error)
{
    struct transfer_head *head = &transfer->head;
    const struct transfer_server *server = transfer->server;
    if (server->read_refusal != NULL) server->read_refusal(server, transfer->refusal, transfer->refusal_bytes, head);
    const struct transfer_meaning *row = server->meanings;
    while (head->status < row->low || head->status > row->high ||
           (row->code != NULL && strcasecmp(row->code, head->code) != 0))
        row++;
    const bool coded = server->read_refusal != NULL && head->code[0] != '\0';
    (void)error_set(error, row->status, "%.200s: %s (HTTP %d%s%s)%s%s", what, row->text, head->status,
                    coded ? ", " : "", coded ? head->code : "",
                    head->region[0] != '\0' ? "; the bucket's region is " : "", head->region);
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
    (void)error_set(error, STATUS_CORRUPT, "%.200s: %s redirects to nowhere", what, transfer->server->name);
    return TRANSFER_FAILED;
}

enum transfer_verdict transfer_judge(struct transfer *transfer, CURLcode code, const char *what, struct error *error)
{
    const int status = transfer->head.status;
    if (transfer->refused && transfer->head.encoded) {
        (void)error_set(error, STATUS_CORRUPT, "%.200s: %s sends a content coding that was not asked for", what,
                        transfer->server->name);
        return TRANSFER_FAILED;
    }
    if (code == CURLE_OUT_OF_MEMORY) {
        (void)error_no_memory(error, "a request to another server");
        return TRANSFER_FAILED;
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        (void)error_set(error, STATUS_FORBIDDEN, "%.200s: the server's certificate is not good: %.200s", what,
                        transfer->problem);
        return TRANSFER_FAILED;
    }
    if (code != CURLE_OK && transfer->guard.refused[0] != '\0') {
        (void)error_set(error, STATUS_FORBIDDEN,
                        "%.200s: %s leads to %.80s, an address of this machine or a private network"
                        " (--allow-private-hub)",
                        what, transfer->server->name, transfer->guard.refused);
        return TRANSFER_FAILED;
    }
    if (code != CURLE_OK || status == 0) {
        const char *detail = transfer->problem[0] != '\0' ? transfer->problem : curl_easy_strerror(code);
        (void)error_set(error, STATUS_UNAVAILABLE, "%.200s: %.200s", what, detail);
        return TRANSFER_AGAIN;
    }
    if (is_good(status)) return TRANSFER_GOOD;
    const bool moves = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    return moves && !transfer->server->stays ? judge_move(transfer, what, error) : judge_status(transfer, what, error);
}
