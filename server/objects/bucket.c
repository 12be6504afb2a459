#include "objects/bucket.h"

#include "base/hex.h"
#include "objects/answer_xml.h"
#include "objects/credentials.h"
#include "transfer/escape.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGION_TEXT "the bucket lies in another region: set --s3-region to it"
#define RIGHT_TEXT \
    "access is refused: the credentials have no right to this, or there are none and the bucket is not a public one"
#define SILENT_TEXT \
    "the server refuses and cannot say why in an answer to HEAD: the session of the credentials may have expired"

/* `code` is S3's code in the body. Answers to HEAD have no body. */
static const struct transfer_meaning meanings[] = {
    {400, 400, "AuthorizationHeaderMalformed", TRANSFER_FAILED, STATUS_INVALID, REGION_TEXT},
    {400, 400, "IllegalLocationConstraintException", TRANSFER_FAILED, STATUS_INVALID, REGION_TEXT},
    {400, 403, "ExpiredToken", TRANSFER_AGAIN, STATUS_FORBIDDEN, "the session of the credentials has expired"},
    {400, 403, "InvalidToken", TRANSFER_FAILED, STATUS_FORBIDDEN, "the session token of the credentials is not good"},
    {400, 400, "RequestTimeout", TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the server ran out of time"},
    {403, 403, "RequestTimeTooSkewed", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the clock of this machine and that of the server are too far apart: set it"},
    {403, 403, "SignatureDoesNotMatch", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the secret key does not belong to the access key"},
    {403, 403, "InvalidAccessKeyId", TRANSFER_FAILED, STATUS_FORBIDDEN, "the server does not know the access key"},
    {403, 403, "InvalidObjectState", TRANSFER_FAILED, STATUS_FORBIDDEN, "the object is archived: restore it first"},
    {404, 404, "NoSuchBucket", TRANSFER_FAILED, STATUS_NOT_FOUND, "there is no such bucket"},
    {404, 404, NULL, TRANSFER_FAILED, STATUS_NOT_FOUND, "there is no such object"},
    {409, 409, "OperationAborted", TRANSFER_AGAIN, STATUS_UNAVAILABLE, "something else changes it at the same time"},
    {412, 412, NULL, TRANSFER_FAILED, STATUS_INPUT_CHANGED, "the object is not the one any more that was listed"},
    {301, 301, NULL, TRANSFER_FAILED, STATUS_INVALID, REGION_TEXT},
    {307, 307, NULL, TRANSFER_FAILED, STATUS_INVALID, REGION_TEXT},
    {401, 401, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, RIGHT_TEXT},
    {403, 403, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, RIGHT_TEXT},
    {408, 408, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the server ran out of time"},
    {429, 429, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the server limits the rate of requests"},
    {503, 503, "SlowDown", TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the server limits the rate of requests"},
    {500, 599, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the server is in trouble"},
    {0, 999, NULL, TRANSFER_FAILED, STATUS_CORRUPT, "an answer that object storage does not give"},
};

/* ---- the signature ---- */

static bool payload_header(const struct transfer_request *request, char *out, size_t size)
{
    unsigned char digest[32];
    char digits[2 * sizeof digest + 1];
    const void *body = request->body != NULL ? request->body : "";
    if (EVP_Digest(body, request->body_bytes, digest, NULL, EVP_sha256(), NULL) != 1) return false;
    hex_write(digest, sizeof digest, digits);
    (void)snprintf(out, size, "x-amz-content-sha256: %s", digits);
    return true;
}

/* libcurl signs; versions from 7.88 on must give the same signature. Because 7.88 lacks some steps, they are done here:
 * the payload's hash is a header, the address is already canonical (bucket_url), and the session is a header, which is
 * signed like all headers. libcurl signs every header of the list, even one without a value, and sorts headers with
 * their values. Signed headers must be exactly the sent ones; no header name may be a prefix of another. */
static enum status sign(const struct transfer_server *server, const struct transfer_request *request,
                        struct transfer *transfer, struct error *error)
{
    const struct bucket *bucket = (const void *)server;
    CURL *easy = transfer->easy;
    char scheme[128], payload[128];
    struct credentials_keys *keys = malloc(sizeof *keys);
    enum status status = keys == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a request to object storage")
                                      : credentials_take(bucket->objects->credentials, keys, error);
    if (status != STATUS_OK || keys->access[0] == '\0') goto done;
    (void)snprintf(scheme, sizeof scheme, "aws:amz:%s:s3", bucket->objects->region);
    bool good = payload_header(request, payload, sizeof payload) && transfer_header(transfer, payload) &&
                curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, scheme) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_USERNAME, keys->access) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PASSWORD, keys->secret) == CURLE_OK;
    if (good && keys->session[0] != '\0')
        good = transfer_secret_header(transfer, "x-amz-security-token", keys->session);
    if (!good) status = error_set(error, STATUS_NO_MEMORY, "no memory for a request to object storage");
    transfer->is_signed = good;
done:
    if (keys != NULL) credentials_wipe(keys);
    free(keys);
    return status;
}

/* The region is part of the message only when it is another one. */
static void read_refusal(const struct transfer_server *server, const char *body, size_t length,
                         struct transfer_head *head)
{
    const struct bucket *bucket = (const void *)server;
    answer_xml_refusal(body, length, head);
    if (strcasecmp(head->code, "ExpiredToken") == 0) credentials_forget(bucket->objects->credentials);
    if (strcmp(head->region, bucket->objects->region) == 0) head->region[0] = '\0';
}

/* ---- addresses ---- */

static enum status init(const struct objects *objects, const char *name, struct bucket *out, struct error *error)
{
    out->server = (struct transfer_server){.name = "object storage",
                                           .meanings = meanings,
                                           .stays = true,
                                           .signs = true,
                                           .authorize = sign,
                                           .read_refusal = read_refusal};
    out->objects = objects;
    if (origin_read(out->base, &out->server.origin)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "\"%.64s\" is no name for a bucket", name);
}

/* Without an endpoint it is Amazon's, where the bucket is part of the host's name, unless a dot in the bucket's name
 * would not match the certificate. */
enum status bucket_init(const struct objects *objects, const char *name, struct bucket *out, struct error *error)
{
    if (objects->endpoint[0] != '\0')
        (void)snprintf(out->base, sizeof out->base, "%s/%s", objects->endpoint, name);
    else if (strpbrk(name, "._") == NULL)
        (void)snprintf(out->base, sizeof out->base, "https://%s.s3.%s.amazonaws.com", name, objects->region);
    else
        (void)snprintf(out->base, sizeof out->base, "https://s3.%s.amazonaws.com/%s", objects->region, name);
    return init(objects, name, out, error);
}

enum status bucket_init_service(const struct objects *objects, struct bucket *out, struct error *error)
{
    if (objects->endpoint[0] != '\0')
        (void)snprintf(out->base, sizeof out->base, "%s", objects->endpoint);
    else
        (void)snprintf(out->base, sizeof out->base, "https://s3.%s.amazonaws.com", objects->region);
    return init(objects, "", out, error);
}

/* libcurl would remove "." and ".." from the path before it signs, and ask for another object. */
static bool has_dots(const char *key)
{
    for (const char *at = key; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        const size_t length = strcspn(at, "/");
        if ((length == 1 || length == 2) && strncmp(at, "..", length) == 0) return true;
    }
    return false;
}

enum status bucket_url(const struct bucket *bucket, const char *key, const char *query, char out[BUCKET_URL],
                       struct error *error)
{
    char path[3 * OBJECTS_PLACE_KEY];
    if (has_dots(key))
        return error_set(error, STATUS_UNSUPPORTED,
                         "the key \"%.200s\" has a part \".\" or \"..\", which signed requests cannot name", key);
    const bool fits = escape_text(key, true, path, sizeof path);
    if (fits &&
        snprintf(out, BUCKET_URL, "%s/%s%s%s", bucket->base, path, query[0] != '\0' ? "?" : "", query) < BUCKET_URL)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%.200s: the key is too long", key);
}

/* ---- asking ---- */

struct question {
    const struct bucket *bucket;
    const struct asking *asking;
    const struct bucket_request *request;
    const char *url;
    struct transfer_head *head;
    struct buffer *body;
    bool renewed; /* the credentials were forgotten on suspicion */
};

static bool take(void *owner, const struct transfer_head *head, const char *bytes, size_t length)
{
    const struct question *question = owner;
    (void)head;
    if (question->body == NULL) return true;
    buffer_append(question->body, bytes, length);
    return question->body->status == STATUS_OK;
}

/* S3 answers 400 to a signed request whose session has expired. The code that says so is in the body, which answers to
 * HEAD do not have. */
static bool is_silent(const struct question *question, const struct transfer *transfer)
{
    return question->request->method == TRANSFER_HEAD && transfer->is_signed && transfer->head.status == 400 &&
           transfer->head.code[0] == '\0';
}

/* Judges an answer without a reason: another region where the server names it, else keys that have expired, perhaps.
 * New ones are tried once. */
static enum transfer_verdict judge_silent(struct question *question, const char *region, struct error *error)
{
    const char *what = question->request->what;
    const bool again = region[0] == '\0' && !question->renewed;
    if (region[0] != '\0')
        (void)error_set(error, STATUS_INVALID, "%.200s: " REGION_TEXT " (HTTP 400); the bucket's region is %.64s", what,
                        region);
    else
        (void)error_set(error, STATUS_FORBIDDEN, "%.200s: " SILENT_TEXT " (HTTP 400)", what);
    if (again) credentials_forget(question->bucket->objects->credentials);
    question->renewed = true;
    return again ? TRANSFER_AGAIN : TRANSFER_FAILED;
}

static enum status once(void *context, enum transfer_verdict *verdict, double *wait, struct error *error)
{
    struct question *question = context;
    const struct bucket_request *request = question->request;
    const struct transfer_request asked = {.server = &question->bucket->server,
                                           .url = question->url,
                                           .method = request->method,
                                           .headers = request->headers,
                                           .body = request->body,
                                           .body_bytes = request->body_bytes,
                                           .first = request->first,
                                           .last = request->bytes > 0 ? request->first + request->bytes - 1 : -1,
                                           .seconds = question->asking->seconds,
                                           .sink = take,
                                           .owner = question};
    struct transfer *transfer = NULL;
    CURLcode code;
    if (question->body != NULL) buffer_reset(question->body);
    enum status status = transfer_new(&asked, &transfer, error);
    if (status == STATUS_OK) status = transfer_perform(transfer, question->asking->monitor, &code, error);
    if (status == STATUS_OK) {
        *verdict = transfer_judge(transfer, code, request->what, error);
        if (code == CURLE_OK && is_silent(question, transfer))
            *verdict = judge_silent(question, transfer->head.region, error);
        *question->head = transfer->head;
        *wait = transfer->head.wait_seconds;
        if (question->body != NULL && question->body->status != STATUS_OK)
            status = buffer_status(question->body, "the answer of object storage", error);
    }
    transfer_free(transfer);
    return status;
}

enum status bucket_ask(const struct bucket *bucket, const struct asking *asking, const struct bucket_request *request,
                       struct transfer_head *head, struct buffer *body, struct error *error)
{
    char url[BUCKET_URL];
    struct question question = {
        .bucket = bucket, .asking = asking, .request = request, .url = url, .head = head, .body = body};
    const enum status status = bucket_url(bucket, request->key != NULL ? request->key : "",
                                          request->query != NULL ? request->query : "", url, error);
    return status == STATUS_OK ? asking_repeat(asking, bucket->server.name, once, &question, error) : status;
}
