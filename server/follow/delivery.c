#include "follow/delivery.h"

#include "base/hex.h"
#include "base/version.h"
#include "net/address.h"
#include "net/guard.h"
#include "json/written.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 5 };

/* ---- the address in a request ---- */

static enum status refuse_url(struct error *error, const char *why)
{
    return error_set_at(error, STATUS_INVALID, "/url", "%s", why);
}

static char *part_of(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

/* Whether the host follows two slashes: libcurl also takes one or three, and guesses. */
static bool has_two_slashes(const char *url)
{
    const char *colon = strchr(url, ':');
    return colon != NULL && strncmp(colon, "://", 3) == 0 && colon[3] != '/';
}

enum status delivery_check_url(const char *url, bool allow_private, struct error *error)
{
    CURLU *parsed = curl_url();
    if (parsed == NULL) return error_no_memory(error, "a delivery");
    enum status status = STATUS_OK;
    if (!has_two_slashes(url) || curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK) {
        status = refuse_url(error, "must be an address like https://host/path");
    } else {
        char *scheme = part_of(parsed, CURLUPART_SCHEME), *host = part_of(parsed, CURLUPART_HOST),
             *user = part_of(parsed, CURLUPART_USER), *fragment = part_of(parsed, CURLUPART_FRAGMENT);
        if (scheme == NULL || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
            status = refuse_url(error, "must begin with https:// or http://");
        else if (host == NULL || host[0] == '\0')
            status = refuse_url(error, "names no host");
        else if (user != NULL)
            status = refuse_url(error, "may hold no user or password");
        else if (fragment != NULL)
            status = refuse_url(error, "may hold no fragment (#)");
        else if (!allow_private && address_literal_private(host))
            status = refuse_url(error, "is an address of this machine or a private network: start the server with"
                                       " --allow-private-webhooks if it should go there");
        curl_free(scheme);
        curl_free(host);
        curl_free(user);
        curl_free(fragment);
    }
    curl_url_cleanup(parsed);
    return status;
}

/* ---- the signature ---- */

enum status delivery_sign(const char *secret, int64_t seconds, const char *body, char out[DELIVERY_SIGNATURE],
                          struct error *error)
{
    char *message;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const int size = asprintf(&message, "%lld.%s", (long long)seconds, body);
    if (size < 0) return error_no_memory(error, "a delivery");
    const bool good = HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)message, (size_t)size,
                           digest, &length) != NULL;
    free(message);
    if (!good) return error_set(error, STATUS_INTERNAL, "HMAC-SHA-256 failed");
    const int at = snprintf(out, DELIVERY_SIGNATURE, "t=%lld,v1=", (long long)seconds);
    hex_write(digest, length, out + at);
    return STATUS_OK;
}

/* ---- the request ---- */

struct post {
    struct guard guard;
    atomic_bool *stop;
};

static bool allow_all(const void *owner, const struct sockaddr *address, size_t length)
{
    (void)owner, (void)address, (void)length;
    return true;
}

/* The answer's body is of no interest. */
static size_t drop_body(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes, (void)context;
    return size * count;
}

static int look_whether_to_stop(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct post *post = context;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(post->stop) ? 1 : 0;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char *line = NULL;
    if (asprintf(&line, "%s: %s", name, value) < 0) return false;
    struct curl_slist *longer = curl_slist_append(*list, line);
    free(line);
    if (longer != NULL) *list = longer;
    return longer != NULL;
}

static bool set_up(CURL *easy, const struct webhook_job *job, struct post *post, struct curl_slist *headers,
                   const char *body, char *problem)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)DELIVERY_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop_body);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_whether_to_stop);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, post);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    return curl_easy_setopt(easy, CURLOPT_URL, job->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "deltaq/" DELTAQ_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) == CURLE_OK && guard_set(easy, &post->guard);
}

static void judge(CURL *easy, CURLcode code, const struct post *post, const char *problem, struct delivery_result *out)
{
    long status = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME, &out->seconds);
    out->http_status = (int)status;
    out->stopped = code == CURLE_ABORTED_BY_CALLBACK;
    if (post->guard.refused[0] != '\0' && code != CURLE_OK)
        (void)snprintf(out->error, sizeof out->error,
                       "%.80s is an address of this machine or a private network, where webhooks do not go"
                       " (--allow-private-webhooks)",
                       post->guard.refused);
    else if (code != CURLE_OK)
        (void)snprintf(out->error, sizeof out->error, "%.200s",
                       problem[0] != '\0' ? problem : curl_easy_strerror(code));
    else if (status >= 300 && status < 400)
        (void)snprintf(out->error, sizeof out->error, "HTTP %ld: redirects are not followed", status);
    else if (status < 200 || status >= 300)
        (void)snprintf(out->error, sizeof out->error, "HTTP %ld", status);
}

static bool make_headers(const struct webhook_job *job, const json_t *event, const char *signature,
                         struct curl_slist **out)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(event, "id")));
    return add_header(out, "Content-Type", "application/json") && add_header(out, "Deltaq-Event-Id", id) &&
           add_header(out, "Deltaq-Event", json_string_value(json_object_get(event, "kind"))) &&
           add_header(out, "Deltaq-Webhook", job->id.text) && add_header(out, "Deltaq-Signature", signature) &&
           add_header(out, "Expect", "");
}

/* {"id", "event", "webhook", "data"}. NULL: no memory. */
static char *make_body(const struct webhook_job *job, const json_t *event)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(event, "id")));
    json_t *body = json_pack("{ss sO ss sO}", "id", id, "event", json_object_get(event, "kind"), "webhook",
                             job->id.text, "data", json_object_get(event, "data"));
    char *text = body != NULL ? written_json(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

enum status delivery_post(const struct webhook_job *job, const json_t *event, bool allow_private, atomic_bool *stop,
                          struct delivery_result *out, struct error *error)
{
    char signature[DELIVERY_SIGNATURE], problem[CURL_ERROR_SIZE] = "";
    struct post post = {.guard = {.allowed = allow_private ? allow_all : NULL}, .stop = stop};
    struct curl_slist *headers = NULL;
    CURL *easy = curl_easy_init();
    char *body = make_body(job, event);
    enum status status = easy == NULL || body == NULL ? error_no_memory(error, "a delivery") : STATUS_OK;
    *out = (struct delivery_result){0};
    if (status == STATUS_OK) status = delivery_sign(job->secret, (int64_t)time(NULL), body, signature, error);
    if (status == STATUS_OK &&
        (!make_headers(job, event, signature, &headers) || !set_up(easy, job, &post, headers, body, problem)))
        status = error_no_memory(error, "a delivery");
    if (status == STATUS_OK) judge(easy, curl_easy_perform(easy), &post, problem, out);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    free(body);
    return status;
}
