/* Services that hand out temporary credentials: that of a container, and the metadata of an instance (version 2: a
 * token is requested first, which a forged request from outside cannot do). Their addresses are local. */
#include "objects/credentials_ask.h"
#include "objects/credentials_source.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_BYTES = 1024, SECONDS = 2, TRIES = 2, NAME_BYTES = 256 };
#define CONTAINER     "http://169.254.170.2"
#define INSTANCE      "http://169.254.169.254"
#define INSTANCE_PATH "/latest/meta-data/iam/security-credentials/"

static const struct transfer_meaning meanings[] = {
    {404, 404, NULL, TRANSFER_FAILED, STATUS_NOT_FOUND, "there are no credentials"},
    {500, 599, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the service is in trouble"},
    {429, 429, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the service limits the rate of requests"},
    {0, 999, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, "the service refuses"},
};

/* ---- one question ---- */

struct question {
    struct credentials_question base; /* must be first: `add_secret` finds the secret through it */
    const char *name, *secret;        /* a header; NULL: none */
};

static enum status add_secret(const struct transfer_server *server, const struct transfer_request *request,
                              struct transfer *transfer, struct error *error)
{
    const struct question *question = (const void *)server;
    (void)request;
    if (question->secret == NULL || transfer_secret_header(transfer, question->name, question->secret))
        return STATUS_OK;
    return error_no_memory(error, "credentials");
}

/* Reads the text at `url` into the question's answer. */
static enum status ask(struct question *question, const char *url, struct error *error)
{
    struct credentials_question *asked = &question->base;
    asked->server =
        (struct transfer_server){.name = "the service of credentials", .meanings = meanings, .authorize = add_secret};
    asked->what = "credentials";
    asked->seconds = SECONDS;
    return credentials_ask(asked, url, error);
}

static void reset(struct question *question)
{
    credentials_ask_reset(&question->base);
}

/* {"AccessKeyId", "SecretAccessKey", "Token", "Expiration": "2026-01-31T12:00:00Z"} */
static enum status read_answer(const struct buffer *body, struct credentials_found *out, struct error *error)
{
    json_t *answer = json_loadb(body->bytes, body->length, 0, NULL);
    const bool good = credentials_source_copy(json_string_value(json_object_get(answer, "AccessKeyId")),
                                              out->keys.access, sizeof out->keys.access) &&
                      credentials_source_copy(json_string_value(json_object_get(answer, "SecretAccessKey")),
                                              out->keys.secret, sizeof out->keys.secret) &&
                      credentials_source_copy(json_string_value(json_object_get(answer, "Token")), out->keys.session,
                                              sizeof out->keys.session) &&
                      credentials_source_end(json_string_value(json_object_get(answer, "Expiration")), &out->expires);
    json_decref(answer);
    if (good) return STATUS_OK;
    credentials_wipe(&out->keys);
    return error_set(error, STATUS_INVALID, "the service of credentials answers with something else");
}

/* ---- a container ---- */

/* Requires https, or an address of this machine, because nobody else may see the token. */
static bool may_be_asked(const char *url)
{
    static const char *const local[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    struct origin origin;
    if (!origin_read(url, &origin)) return false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (strcmp(local[i], origin.host) == 0) return true;
    return strcmp(origin.scheme, "https") == 0 || origin_is_loopback(&origin);
}

/* Reads the token's file each time, because it is rewritten while we run. */
static enum status read_token(const struct credentials_environment *environment, char out[CREDENTIALS_SESSION],
                              struct error *error)
{
    out[0] = '\0';
    if (environment->token_file == NULL) {
        if (environment->token == NULL || credentials_source_copy(environment->token, out, CREDENTIALS_SESSION))
            return STATUS_OK;
        return error_set(error, STATUS_INVALID, "AWS_CONTAINER_AUTHORIZATION_TOKEN: has characters that no token has");
    }
    char text[CREDENTIALS_SESSION];
    FILE *file = fopen(environment->token_file, "re");
    const bool read = file != NULL && fgets(text, sizeof text, file) != NULL;
    if (file != NULL) (void)fclose(file);
    if (read) text[strcspn(text, "\r\n")] = '\0';
    const bool good = read && credentials_source_copy(text, out, CREDENTIALS_SESSION);
    explicit_bzero(text, sizeof text);
    return good ? STATUS_OK
                : error_set(error, STATUS_INVALID, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: holds no token");
}

static enum status from_container(const struct credentials_environment *environment, struct credentials_found *out,
                                  struct error *error)
{
    char url[URL_BYTES], token[CREDENTIALS_SESSION];
    if (environment->relative_uri == NULL && environment->full_uri == NULL) return STATUS_OK;
    const bool relative = environment->relative_uri != NULL;
    const int length = snprintf(url, sizeof url, "%s%s", relative ? CONTAINER : environment->full_uri,
                                relative ? environment->relative_uri : "");
    if (length >= (int)sizeof url || !may_be_asked(url))
        return error_set(error, STATUS_INVALID,
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or an address of this machine");
    enum status status = read_token(environment, token, error);
    if (status != STATUS_OK) return status;
    struct question question = {
        .base.tries = TRIES, .name = "Authorization", .secret = token[0] != '\0' ? token : NULL};
    status = ask(&question, url, error);
    if (status == STATUS_OK) status = read_answer(&question.base.answer, out, error);
    explicit_bzero(token, sizeof token);
    reset(&question);
    return status;
}

const struct credentials_source credentials_source_container = {.name = "container", .find = from_container};

/* ---- an instance ---- */

/* The first line of the answer, without its end. False when there is none. */
static bool first_line(const struct buffer *body, char *out, size_t size)
{
    const size_t length = strcspn(body->bytes, "\r\n");
    if (length == 0 || length >= size) return false;
    memcpy(out, body->bytes, length);
    out[length] = '\0';
    return true;
}

static enum status of_role(const char *endpoint, struct question *question, struct credentials_found *out,
                           struct error *error)
{
    const struct buffer *answer = &question->base.answer;
    char url[URL_BYTES], role[NAME_BYTES];
    (void)snprintf(url, sizeof url, "%.700s" INSTANCE_PATH, endpoint);
    enum status status = ask(question, url, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* an instance without a role */
    if (status == STATUS_OK && (!first_line(answer, role, sizeof role) || strpbrk(role, "/?# ") != NULL))
        status = error_set(error, STATUS_INVALID, "the service of credentials names no role");
    if (status != STATUS_OK) return status;
    (void)snprintf(url, sizeof url, "%.700s" INSTANCE_PATH "%s", endpoint, role);
    status = ask(question, url, error);
    return status == STATUS_OK ? read_answer(answer, out, error) : status;
}

/* Without a token from the usual address there is most likely no metadata service, because most machines are not cloud
 * instances; but one that limits the rate of requests looks the same. */
static enum status from_instance(const struct credentials_environment *environment, struct credentials_found *out,
                                 struct error *error)
{
    static const char *const headers[] = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL};
    const char *endpoint = environment->metadata != NULL ? environment->metadata : INSTANCE;
    char url[URL_BYTES], token[NAME_BYTES] = "";
    struct question question = {.base = {.method = TRANSFER_PUT, .headers = headers, .tries = 1}};
    if (environment->metadata_disabled != NULL && strcasecmp(environment->metadata_disabled, "true") == 0)
        return STATUS_OK;
    (void)snprintf(url, sizeof url, "%.700s/latest/api/token", endpoint);
    enum status status = ask(&question, url, error);
    const bool there = status == STATUS_OK && first_line(&question.base.answer, token, sizeof token);
    reset(&question);
    out->silent = !there && environment->metadata == NULL;
    if (out->silent) return STATUS_OK;
    if (status == STATUS_OK && !there)
        status = error_set(error, STATUS_INVALID, "the service of credentials gives no token");
    question = (struct question){.base.tries = TRIES, .name = "X-aws-ec2-metadata-token", .secret = token};
    if (status == STATUS_OK) status = of_role(endpoint, &question, out, error);
    explicit_bzero(token, sizeof token);
    reset(&question);
    return status;
}

const struct credentials_source credentials_source_instance = {.name = "instance", .find = from_instance};
