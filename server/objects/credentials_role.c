#include "objects/credentials_role.h"

#include "objects/answer_xml.h"
#include "objects/credentials_ask.h"
#include "transfer/escape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TOKEN: the service takes tokens of up to 20,000 bytes. ECHO: so much of a token in a message tells a part of it. */
enum { URL_BYTES = 640, SECONDS = 5, TRIES = 3, TOKEN_BYTES = 20001, FORM_MOST = 128 << 10, ECHO_BYTES = 12 };

#define TRUST_TEXT "the role does not let this identity have its keys: the role's trust policy must name it"
#define TOKEN_TEXT "the token of the web identity has expired: what writes its file must renew it"
#define ISSUER_TEXT                                                                                                \
    "the token of the web identity is not accepted: its issuer and audience must be those of an identity provider" \
    " that the service knows"
#define VALUE_TEXT "the service does not take a setting of the role"

static const struct transfer_meaning meanings[] = {
    {400, 403, "ExpiredTokenException", TRANSFER_FAILED, STATUS_FORBIDDEN, TOKEN_TEXT},
    {400, 403, "ExpiredToken", TRANSFER_FAILED, STATUS_FORBIDDEN, "the session whose keys ask for it has expired"},
    {400, 403, "InvalidIdentityToken", TRANSFER_FAILED, STATUS_FORBIDDEN, ISSUER_TEXT},
    {400, 403, "IDPRejectedClaim", TRANSFER_FAILED, STATUS_FORBIDDEN, ISSUER_TEXT},
    {400, 403, "IDPCommunicationError", TRANSFER_AGAIN, STATUS_UNAVAILABLE,
     "the service cannot reach the identity provider"},
    {400, 403, "Throttling", TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the service limits the rate of requests"},
    {400, 400, "ValidationError", TRANSFER_FAILED, STATUS_INVALID, VALUE_TEXT},
    {400, 400, "InvalidParameterValue", TRANSFER_FAILED, STATUS_INVALID, VALUE_TEXT},
    {403, 403, "RegionDisabledException", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the account does not use the service in this region: name another in AWS_ENDPOINT_URL_STS"},
    {403, 403, "InvalidClientTokenId", TRANSFER_FAILED, STATUS_FORBIDDEN, "the service does not know the access key"},
    {403, 403, "SignatureDoesNotMatch", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the secret key does not belong to the access key, or the clock of this machine is wrong"},
    {401, 403, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, TRUST_TEXT},
    {404, 405, NULL, TRANSFER_FAILED, STATUS_INVALID, "nothing there hands out roles: is AWS_ENDPOINT_URL_STS right?"},
    {429, 429, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the service limits the rate of requests"},
    {500, 599, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the service is in trouble"},
    {0, 999, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, "the service refuses"},
};

struct question {
    struct credentials_question base; /* must be first: the server's functions find the question through it */
    const struct credentials_role *role;
    const char *region;
    char *token; /* owned; NULL: the request is signed */
};

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* ---- the token ---- */

static void forget(char *secret)
{
    if (secret != NULL) explicit_bzero(secret, strlen(secret));
    free(secret);
}

/* Reads at most TOKEN_BYTES into `out`, which ends with NUL. Returns errno. */
static int load(const char *path, char out[TOKEN_BYTES + 1], size_t *length)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return errno;
    *length = fread(out, 1, TOKEN_BYTES, file);
    const int fault = ferror(file) ? errno : 0;
    (void)fclose(file);
    return fault;
}

/* Cuts off the white space around a token, which has none inside. NULL when the text is something else than one. */
static char *only_token(char *text, size_t length)
{
    static const char white[] = " \t\r\n";
    char *begin = text + strspn(text, white);
    char *end = begin + strcspn(begin, white);
    const bool alone = end[strspn(end, white)] == '\0' && strlen(text) == length && length < TOKEN_BYTES;
    *end = '\0';
    return alone ? begin : NULL;
}

/* The token of the file in memory of its own. */
static enum status read_token(const struct credentials_role *role, char **out, struct error *error)
{
    const char *name = role->identity_name;
    enum status status = STATUS_OK;
    size_t length = 0;
    char *text = calloc(1, TOKEN_BYTES + 1);
    if (text == NULL) return error_no_memory(error, "credentials");
    const int fault = load(role->identity_file, text, &length);
    const char *token = only_token(text, length);
    if (fault != 0)
        status = error_set(error, fault == EIO ? STATUS_IO : STATUS_INVALID, "%.160s: the file cannot be read: %s",
                           name, strerror(fault));
    else if (token == NULL)
        status = error_set(error, STATUS_INVALID, "%.160s: the file holds something else than one token", name);
    else if (token[0] == '\0')
        status = error_set(error, STATUS_INVALID,
                           "%.160s: the file is empty: what renews the token has to write it first", name);
    else if ((*out = strdup(token)) == NULL)
        status = error_no_memory(error, "credentials");
    explicit_bzero(text, TOKEN_BYTES);
    free(text);
    return status;
}

/* ---- the request ---- */

static enum status write_address(const struct credentials_environment *environment, char out[URL_BYTES],
                                 struct error *error)
{
    struct origin origin;
    const char *endpoint = environment->roles_endpoint;
    const int length = endpoint != NULL ? snprintf(out, URL_BYTES, "%s", endpoint)
                                        : snprintf(out, URL_BYTES, "https://sts.%s.amazonaws.com", environment->region);
    if (length < URL_BYTES && strpbrk(out, "?#") == NULL && origin_read(out, &origin) &&
        (strcmp(origin.scheme, "https") == 0 || origin_is_loopback(&origin)))
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "AWS_ENDPOINT_URL_STS: must be an https address like https://sts.eu-central-1.amazonaws.com, or one"
        " of this machine, because the answer has keys");
}

static void add(struct buffer *form, const char *name, const char *value)
{
    if (!given(value)) return;
    const size_t size = 3 * strlen(value) + 1;
    char *escaped = malloc(size);
    if (escaped == NULL || !escape_text(value, false, escaped, size))
        form->status = STATUS_NO_MEMORY;
    else
        buffer_printf(form, "&%s=%s", name, escaped);
    forget(escaped);
}

static void write_form(const struct question *question, const char *action, struct buffer *form)
{
    const struct credentials_role *role = question->role;
    buffer_printf(form, "Action=%s&Version=2011-06-15", action);
    add(form, "RoleArn", role->arn);
    add(form, "RoleSessionName", given(role->session) ? role->session : "deltaq");
    add(form, "DurationSeconds", role->seconds);
    if (role->keys != NULL) add(form, "ExternalId", role->external_id);
    add(form, "WebIdentityToken", question->token);
}

/* libcurl signs and hashes the body itself (objects/bucket.c says what it needs for S3, which is more). */
static enum status sign(const struct transfer_server *server, const struct transfer_request *request,
                        struct transfer *transfer, struct error *error)
{
    const struct question *question = (const void *)server;
    const struct credentials_keys *keys = question->role->keys;
    CURL *easy = transfer->easy;
    char scheme[128];
    (void)request;
    if (keys == NULL) return STATUS_OK;
    (void)snprintf(scheme, sizeof scheme, "aws:amz:%s:sts", question->region);
    if (curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, scheme) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_USERNAME, keys->access) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PASSWORD, keys->secret) == CURLE_OK &&
        (keys->session[0] == '\0' || transfer_secret_header(transfer, "x-amz-security-token", keys->session)))
        return STATUS_OK;
    return error_no_memory(error, "credentials");
}

/* ---- the answer ---- */

/* Whether the message repeats a part of the token: a service that quotes what it was sent. */
static bool echoes(const char *message, const char *token)
{
    char part[ECHO_BYTES + 1] = "";
    if (token == NULL) return false;
    for (const char *at = message; strlen(at) >= ECHO_BYTES; at++) {
        memcpy(part, at, ECHO_BYTES);
        if (strstr(token, part) != NULL) return true;
    }
    return false;
}

static void read_refusal(const struct transfer_server *server, const char *body, size_t length,
                         struct transfer_head *head)
{
    const struct question *question = (const void *)server;
    answer_xml_refusal(body, length, head);
    head->region[0] = '\0'; /* of a bucket */
    if (echoes(head->message, question->token)) head->message[0] = '\0';
    if (echoes(head->code, question->token)) head->code[0] = '\0';
}

struct answer {
    char place[128]; /* of the keys in the answer */
    bool ends;
    struct credentials_found *out;
};

static enum status take_part(void *context, const char *path, const char *text, struct error *error)
{
    struct answer *answer = context;
    struct credentials_keys *keys = &answer->out->keys;
    const struct {
        const char *name;
        char *out;
        size_t size;
    } parts[] = {{"AccessKeyId", keys->access, sizeof keys->access},
                 {"SecretAccessKey", keys->secret, sizeof keys->secret},
                 {"SessionToken", keys->session, sizeof keys->session}};
    const size_t length = strlen(answer->place);
    (void)error;
    if (text == NULL || strncmp(path, answer->place, length) != 0) return STATUS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(path + length, parts[i].name) == 0) (void)credentials_source_copy(text, parts[i].out, parts[i].size);
    if (strcmp(path + length, "Expiration") == 0) answer->ends = credentials_source_end(text, &answer->out->expires);
    return STATUS_OK;
}

static enum status read_answer(const struct question *question, const char *action, struct credentials_found *out,
                               struct error *error)
{
    struct answer answer = {.out = out};
    struct error cause;
    const struct buffer *body = &question->base.answer;
    const struct credentials_keys *keys = &out->keys;
    (void)snprintf(answer.place, sizeof answer.place, "%sResponse/%sResult/Credentials/", action, action);
    enum status status = answer_xml_read(body->bytes, body->length, take_part, &answer, &cause);
    const bool whole = keys->access[0] != '\0' && keys->secret[0] != '\0' && keys->session[0] != '\0' && answer.ends;
    if (status == STATUS_NO_MEMORY)
        *error = cause;
    else if (status != STATUS_OK || !whole)
        status = error_set(error, STATUS_INVALID,
                           "%.200s: the answer has no keys: is AWS_ENDPOINT_URL_STS that of a service of roles?",
                           question->base.what);
    else if (out->expires <= time(NULL))
        status = error_set(error, STATUS_INVALID,
                           "%.200s: the keys that the service hands out have expired already: set this machine's clock",
                           question->base.what);
    if (status != STATUS_OK) credentials_wipe(&out->keys);
    return status;
}

/* ---- all of it ---- */

/* The service's own words, which say more than its codes. */
static void add_message(const struct transfer_head *head, struct error *error)
{
    const size_t used = strlen(error->detail);
    if (head->message[0] != '\0')
        (void)snprintf(error->detail + used, sizeof error->detail - used, ": %s", head->message);
}

static enum status ask(struct question *question, const char *url, const char *action, struct credentials_found *out,
                       struct error *error)
{
    struct buffer form = {.limit = FORM_MOST};
    struct credentials_question *asked = &question->base;
    write_form(question, action, &form);
    enum status status = buffer_status(&form, "the request for a role", error);
    asked->body = form.bytes;
    if (status == STATUS_OK) {
        status = credentials_ask(asked, url, error);
        if (status == STATUS_OK)
            status = read_answer(question, action, out, error);
        else
            add_message(&asked->head, error);
    }
    if (form.bytes != NULL) explicit_bzero(form.bytes, form.length);
    buffer_reset(&form);
    credentials_ask_reset(asked);
    return status;
}

enum status credentials_role_assume(const struct credentials_environment *environment,
                                    const struct credentials_role *role, struct credentials_found *out,
                                    struct error *error)
{
    char url[URL_BYTES], what[256];
    const bool by_token = role->keys == NULL;
    struct question question = {.base = {.server = {.name = "the service of roles (STS)",
                                                    .meanings = meanings,
                                                    .signs = !by_token,
                                                    .authorize = sign,
                                                    .read_refusal = read_refusal},
                                         .what = what,
                                         .method = TRANSFER_POST,
                                         .seconds = SECONDS,
                                         .tries = TRIES},
                                .role = role,
                                .region = environment->region};
    (void)snprintf(what, sizeof what, "the role %.160s", role->arn);
    if (!credentials_source_copy(role->arn, out->role, sizeof out->role))
        return error_set(error, STATUS_INVALID,
                         "the name of the role is no ARN like arn:aws:iam::123456789012:role/lab");
    enum status status = write_address(environment, url, error);
    if (status == STATUS_OK && by_token) status = read_token(role, &question.token, error);
    if (status == STATUS_OK)
        status = ask(&question, url, by_token ? "AssumeRoleWithWebIdentity" : "AssumeRole", out, error);
    forget(question.token);
    return status;
}

/* ---- the web identity of the environment ---- */

/* A role without a file is for other programs, which get their keys elsewhere. */
static enum status from_identity(const struct credentials_environment *environment, struct credentials_found *out,
                                 struct error *error)
{
    const struct credentials_role role = {.arn = environment->role,
                                          .session = environment->role_session,
                                          .identity_file = environment->identity_file,
                                          .identity_name = "AWS_WEB_IDENTITY_TOKEN_FILE"};
    if (role.identity_file == NULL) return STATUS_OK;
    if (role.arn == NULL)
        return error_set(error, STATUS_INVALID,
                         "AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not: set both, or none of them");
    return credentials_role_assume(environment, &role, out, error);
}

const struct credentials_source credentials_source_identity = {.name = "web identity", .find = from_identity};
