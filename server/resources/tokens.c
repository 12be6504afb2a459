#include "store/tokens.h"

#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/form.h"

#include <string.h>

struct token_body {
    const char *name;
    int scope;
    int64_t days;
};

static const char *const scope_names[] = {
    [TOKEN_READ] = "read", [TOKEN_WRITE] = "write", [TOKEN_ADMIN] = "admin", NULL};

const struct param tokens_post_body[] = {
    {.name = "scope",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct token_body, scope),
     .choices = scope_names,
     .help = "Its rights; each scope includes the ones before"},
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct token_body, name),
     .maximum = 200,
     .form = &form_name,
     .fallback = "null",
     .help = "Its name in lists; no two tokens share one"},
    {.name = "days",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct token_body, days),
     .fallback = "0",
     .minimum = 0,
     .maximum = TOKEN_DAYS_MOST,
     .help = "How long it is valid; 0: until it is revoked"},
    {0},
};

static const struct list_field fields[] = {
    {"id", true},          {"name", true},       {"scope", true},         {"created_at", true},
    {"expires_at", false}, {"revoked_at", true}, {"last_used_at", false}, {0},
};

enum status tokens_list(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK)
        status = token_list(application_connection(context), asked.filter.name, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status tokens_delete(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    return answer_empty(response, token_revoke(application_connection(context), request_parameter(request, "token"),
                                               request->principal.name, error));
}

/* Refuses an Idempotency-Key, because its answer would be stored in the database, which must not contain the text of a
 * token. */
static enum status check_request(const struct request *request, const struct token_body *body, struct error *error)
{
    if (request_header(request, "Idempotency-Key") != NULL)
        return error_set(error, STATUS_INVALID,
                         "no Idempotency-Key here: the answer holds a secret, which is not kept; if it was lost, revoke"
                         " the token and make another");
    return body->name != NULL ? answer_check_name(body->name, "/name", error) : STATUS_OK;
}

enum status tokens_post(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct schema_filled filled = {0};
    char text[TOKEN_TEXT] = "";
    json_t *document = NULL;
    enum status status = answer_body(request, response, tokens_post_body, sizeof(struct token_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct token_body *body = filled.params;
    status = check_request(request, body, error);
    if (status == STATUS_OK)
        status = token_create(application_connection(context), (enum token_scope)body->scope, body->name, body->days,
                              text, &document, error);
    if (status == STATUS_OK && json_object_set_new(document, "token", json_string(text)) != 0) {
        json_decref(document);
        status = error_set(error, STATUS_NO_MEMORY, "no memory for an answer");
    }
    explicit_bzero(text, sizeof text);
    schema_filled_reset(&filled);
    return status == STATUS_OK ? response_json(response, 201, document, error) : status;
}
