#include "kinds/worst_tokens.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/result_render.h"

#include <string.h>

enum { LIMIT = 50, CONTEXT = 16 };

static enum status decode_of(const struct request *request, enum worst_tokens_decode *out, struct error *error)
{
    const char *name = request_query(request, "decode");
    *out = WORST_TOKENS_TOKENIZER;
    if (name == NULL) return STATUS_OK;
    for (int i = 0; worst_tokens_decodes[i] != NULL; i++) {
        if (strcmp(worst_tokens_decodes[i], name) != 0) continue;
        *out = (enum worst_tokens_decode)i;
        return STATUS_OK;
    }
    return request_query_fault(error, "decode", "must be one of tokenizer, bytes, ids, found \"%.60s\"", name);
}

/* The context for reading runs' inputs, like that of a dry run. */
static struct run_context reading(struct http_context *context, const struct request *request)
{
    const struct dry_run_place place = application_reading_place(context, request->monitor);
    struct run_context out = dry_run_context(&place);
    out.device = "cpu"; /* a literal, because the place's text does not live long enough */
    return out;
}

enum status worst_tokens_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    const struct run_context place = reading(context, request);
    struct worst_tokens_request asked = {.run = request_parameter(request, "run"),
                                         .against = request_query(request, "against")};
    struct worst_tokens *found = NULL;
    json_t *document = NULL;
    enum status status = request_query_integer(request, "limit", LIMIT, 1, WORST_TOKENS_MOST, &asked.limit, error);
    if (status == STATUS_OK)
        status =
            request_query_integer(request, "context", CONTEXT, 0, WORST_TOKENS_CONTEXT_MOST, &asked.context, error);
    if (status == STATUS_OK) status = decode_of(request, &asked.decode, error);
    if (status == STATUS_OK) status = worst_tokens_find(&place, &asked, &found, error);
    if (status == STATUS_OK) status = result_render(&worst_tokens_shape, found, &document, error);
    worst_tokens_free(found);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}
