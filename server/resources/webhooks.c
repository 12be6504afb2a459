#include "store/webhooks.h"

#include "follow/delivery.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"

/* A shorter key could be found by trying, from one delivery and its signature. */
enum { SECRET_LEAST = 16 };

struct webhook_body {
    const char *url, *secret;
    struct param_list events;
};

static const struct param event_item = {
    .type = PARAM_CHOICE, .schema = "ChangeKind", .choices = change_kinds, .help = "A kind of change"};

const struct param webhooks_post_body[] = {
    {.name = "url",
     .type = PARAM_STRING,
     .offset = offsetof(struct webhook_body, url),
     .maximum = WEBHOOK_URL_SIZE - 1,
     .help = "Where events are posted: https:// or http://, without user, password and fragment"},
    {.name = "events",
     .type = PARAM_LIST,
     .offset = offsetof(struct webhook_body, events),
     .fallback = "[]",
     .maximum = 32,
     .item = &event_item,
     .help = "Kinds of events; none: all"},
    {.name = "secret",
     .type = PARAM_STRING,
     .offset = offsetof(struct webhook_body, secret),
     .minimum = SECRET_LEAST,
     .maximum = WEBHOOK_SECRET_SIZE - 1,
     .help = "Key of the signatures, best 32 random bytes or more; it is never shown again"},
    {0},
};

static const struct list_field fields[] = {
    {"id", true}, {"url", true}, {"events", true}, {"after", false}, {"tries", true}, {"created_at", true}, {0},
};

enum status webhooks_list(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK) status = webhook_list(application_connection(context), &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status webhooks_get(struct http_context *context, const struct request *request, struct response *response,
                         struct error *error)
{
    return answer_found(response, application_connection(context), webhook_get, request_parameter(request, "webhook"),
                        error);
}

enum status webhooks_delete(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    return answer_empty(response,
                        webhook_delete(application_connection(context), request_parameter(request, "webhook"), error));
}

static const struct list_field delivery_fields[] = {
    {"event", true},        {"kind", true},    {"try", true},    {"at", true}, {"seconds", false},
    {"http_status", false}, {"outcome", true}, {"error", false}, {0},
};

enum status webhooks_deliveries(struct http_context *context, const struct request *request, struct response *response,
                                struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, delivery_fields, &asked, error);
    if (status == STATUS_OK)
        status = webhook_deliveries(application_connection(context), request_parameter(request, "webhook"), &asked.page,
                                    &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status webhooks_post(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    struct idempotency_record record;
    json_t *document = NULL;
    enum status status =
        answer_body(request, response, webhooks_post_body, sizeof(struct webhook_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct webhook_body *body = filled.params;
    status = delivery_check_url(body->url, application_of(context)->allow_private_webhooks, error);
    const struct webhook_new new = {.url = body->url,
                                    .secret = body->secret,
                                    .events = json_object_get(request->body, "events"),
                                    .record = application_record(request, "/v1/webhooks/", 201, 201, &record)};
    if (status == STATUS_OK) status = webhook_insert(application_connection(context), &new, &document, error);
    schema_filled_reset(&filled);
    return status == STATUS_OK ? answer_made(response, 201, "/v1/webhooks/", document, error) : status;
}
