#include "client/client.h"

#include "base/version.h"
#include "json/jsonb.h"
#include "json/written.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 10, PROBLEM_TEXT = 300 };

struct client {
    CURL *easy;
    char *url; /* without a slash at its end */
    struct curl_slist *authorization;
    char problem[CURL_ERROR_SIZE];
};

/* ---- the address ---- */

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

/* An http or https address without a user, query or fragment; *loopback: it leads to this machine. */
static bool check_url(const char *url, bool *loopback)
{
    static const CURLUPart none[] = {CURLUPART_USER, CURLUPART_QUERY, CURLUPART_FRAGMENT};
    char *scheme = NULL, *host = NULL;
    CURLU *parts = curl_url();
    bool good = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        char *found = NULL;
        if (curl_url_get(parts, none[i], &found, 0) == CURLUE_OK) good = false;
        curl_free(found);
    }
    *loopback = good && is_loopback(host);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return good;
}

static enum status set_token(struct client *client, const char *token, struct error *error)
{
    char *line = NULL;
    for (const char *at = token; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            return error_set(error, STATUS_INVALID, "the token has a character that no token has");
    if (asprintf(&line, "Authorization: Bearer %s", token) < 0) return error_no_memory(error, "a request");
    client->authorization = curl_slist_append(NULL, line);
    explicit_bzero(line, strlen(line));
    free(line);
    return client->authorization != NULL ? STATUS_OK : error_no_memory(error, "a request");
}

enum status client_new(const char *url, const char *token, const char *authorities, struct client **out,
                       struct error *error)
{
    bool loopback;
    enum status status = STATUS_OK;
    *out = NULL;
    if (!check_url(url, &loopback))
        return error_set(error, STATUS_INVALID, "\"%.200s\" is no address of a server: expected http[s]://HOST[:PORT]",
                         url);
    if (authorities != NULL && access(authorities, R_OK) != 0)
        return error_set(error, STATUS_INVALID, "certificates in %.200s: %s", authorities, strerror(errno));
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL) return error_no_memory(error, "a request");
    client->url = strdup(url);
    client->easy = curl_easy_init();
    if (client->url == NULL || client->easy == NULL) status = error_no_memory(error, "a request");
    if (status == STATUS_OK && token != NULL && token[0] != '\0') status = set_token(client, token, error);
    if (status == STATUS_OK && authorities != NULL &&
        curl_easy_setopt(client->easy, CURLOPT_CAINFO, authorities) != CURLE_OK)
        status = error_no_memory(error, "a request");
    if (status != STATUS_OK) {
        client_free(client);
        return status;
    }
    for (size_t length = strlen(client->url); length > 0 && client->url[length - 1] == '/';)
        client->url[--length] = '\0';
    /* A proxy cannot reach what listens on this machine's loopback. */
    if (loopback) (void)curl_easy_setopt(client->easy, CURLOPT_NOPROXY, "*");
    *out = client;
    return STATUS_OK;
}

enum status client_user(struct client *client, const char *name, const char *password, struct error *error)
{
    if (strchr(name, ':') != NULL)
        return error_set(error, STATUS_INVALID, "the user's name has a colon, which basic authentication cannot send");
    if (curl_easy_setopt(client->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC) != CURLE_OK ||
        curl_easy_setopt(client->easy, CURLOPT_USERNAME, name) != CURLE_OK ||
        curl_easy_setopt(client->easy, CURLOPT_PASSWORD, password) != CURLE_OK)
        return error_no_memory(error, "a request");
    return STATUS_OK;
}

void client_free(struct client *client)
{
    if (client == NULL) return;
    curl_easy_cleanup(client->easy);
    for (struct curl_slist *line = client->authorization; line != NULL; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(client->authorization);
    free(client->url);
    free(client);
}

void client_escape(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (isalnum((unsigned char)*text) || strchr("-._~", *text) != NULL)
            buffer_append(out, text, 1);
        else
            buffer_printf(out, "%%%02X", (unsigned char)*text);
}

/* ---- the answer ---- */

static size_t on_body(char *bytes, size_t size, size_t count, void *owner)
{
    struct client_reply *reply = owner;
    buffer_append(&reply->body, bytes, size * count);
    return reply->body.status == STATUS_OK ? size * count : 0;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *owner)
{
    struct client_reply *reply = owner;
    const size_t length = size * count, name = strlen("retry-after:");
    if (length <= name || length > name + 8 || strncasecmp(bytes, "retry-after:", name) != 0) return length;
    char text[16];
    (void)snprintf(text, sizeof text, "%.*s", (int)(length - name), bytes + name);
    const long seconds = strtol(text, NULL, 10);
    if (seconds > 0 && seconds < 3600) reply->retry_seconds = (int)seconds;
    return length;
}

static void read_head(CURL *easy, struct client_reply *reply)
{
    const char *type = NULL;
    long http = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http);
    reply->http = (int)http;
    if (curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type) != CURLE_OK || type == NULL) return;
    (void)snprintf(reply->type, sizeof reply->type, "%.*s", (int)strcspn(type, "; "), type);
    for (char *at = reply->type; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
}

static bool is_json(const char *type)
{
    const size_t length = strlen(type);
    return strcmp(type, "application/json") == 0 || (length > 5 && strcmp(type + length - 5, "+json") == 0);
}

void client_reply_reset(struct client_reply *reply)
{
    buffer_reset(&reply->body);
    json_decref(reply->document);
    *reply = (struct client_reply){0};
}

/* ---- the request ---- */

static bool add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer != NULL) *list = longer;
    return longer != NULL;
}

static bool make_headers(const struct client *client, const struct client_request *request, struct curl_slist **list)
{
    char accept[160];
    (void)snprintf(accept, sizeof accept, "Accept: %s", request->accept != NULL ? request->accept : "application/json");
    bool good = add_line(list, accept) && add_line(list, "Expect:");
    if (good && client->authorization != NULL) good = add_line(list, client->authorization->data);
    if (good && request->body != NULL) good = add_line(list, "Content-Type: application/json");
    for (const char *const *line = request->headers; good && line != NULL && *line != NULL; line++)
        good = add_line(list, *line);
    return good;
}

static void set_up(struct client *client, const struct client_request *request, const char *url,
                   const struct curl_slist *headers, const char *body, struct client_reply *reply)
{
    CURL *easy = client->easy;
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "deltaq/" DELTAQ_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT, request->seconds > 0 ? request->seconds : (long)CLIENT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->problem);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, reply);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, reply);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (body != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

static enum status perform(struct client *client, struct client_reply *reply, struct error *error)
{
    client->problem[0] = '\0';
    const CURLcode code = curl_easy_perform(client->easy);
    if (reply->body.status != STATUS_OK) return buffer_status(&reply->body, "the answer", error);
    if (code == CURLE_OUT_OF_MEMORY) return error_no_memory(error, "a request");
    if (code != CURLE_OK)
        return error_set(error, STATUS_UNAVAILABLE, "no answer from %.150s: %.200s", client->url,
                         client->problem[0] != '\0' ? client->problem : curl_easy_strerror(code));
    read_head(client->easy, reply);
    if (!is_json(reply->type) || reply->body.length == 0) return STATUS_OK;
    struct error cause; /* an answer that is no JSON has no document */
    const enum status status = jsonb_read(reply->body.bytes, reply->body.length, &reply->document, &cause);
    return status == STATUS_NO_MEMORY ? error_no_memory(error, "an answer") : STATUS_OK;
}

enum status client_send(struct client *client, const struct client_request *request, struct client_reply *reply,
                        struct error *error)
{
    struct curl_slist *headers = NULL;
    char *url = NULL, *body = request->body != NULL ? written_json(request->body, JSON_COMPACT) : NULL;
    enum status status = STATUS_OK;
    *reply = (struct client_reply){0};
    buffer_init(&reply->body, CLIENT_MOST);
    if (asprintf(&url, "%s%s", client->url, request->path) < 0) url = NULL;
    if (url == NULL || (request->body != NULL && body == NULL) || !make_headers(client, request, &headers))
        status = error_no_memory(error, "a request");
    if (status == STATUS_OK) {
        set_up(client, request, url, headers, body, reply);
        status = perform(client, reply, error);
        (void)curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, NULL);
        (void)curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, NULL);
    }
    curl_slist_free_all(headers);
    free(body);
    free(url);
    return status;
}

/* ---- problems ---- */

/* What a server that is busy, stops or is away answers is worth a retry, whatever its own status was. */
static enum status status_of_http(int http)
{
    if (http >= 500 || http == 429) return STATUS_UNAVAILABLE;
    for (int i = STATUS_INVALID; i < STATUS_COUNT; i++)
        if (status_info((enum status)i)->http == http) return (enum status)i;
    return STATUS_INVALID;
}

enum status client_problem(const struct client_reply *reply, struct error *error)
{
    const json_t *document = reply->document, *first = json_array_get(json_object_get(document, "errors"), 0);
    const char *detail = json_string_value(json_object_get(document, "detail"));
    const char *pointer = json_string_value(json_object_get(first, "pointer"));
    if (detail == NULL) detail = json_string_value(json_object_get(document, "title"));
    if (detail == NULL) detail = json_string_value(json_object_get(document, "message"));
    if (detail == NULL) detail = reply->body.bytes != NULL ? reply->body.bytes : "";
    (void)error_set_at(error, status_of_http(reply->http), pointer != NULL ? pointer : "", "%.*s%s(HTTP %d)",
                       PROBLEM_TEXT, detail, detail[0] != '\0' ? " " : "", reply->http);
    error->again_seconds = reply->retry_seconds;
    return error->status;
}

enum status client_call(struct client *client, const struct client_request *request, struct client_reply *reply,
                        struct error *error)
{
    const enum status status = client_send(client, request, reply, error);
    if (status != STATUS_OK || reply->http < 300) return status;
    return client_problem(reply, error);
}
