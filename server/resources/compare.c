#include "kinds/compared_run.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/result_render.h"

/* Compares two runs without a run of its own, because it reads two small files and the computation is short: 2000
 * samples of at most DIFFERENCE_BOOTSTRAP_MOST sequences take a second or two. Tokens are compared by runs of the kind
 * compare. */

struct comparison {
    const char *a, *b;
    struct compared_numbers found;
};

#define COMPARISON(field) offsetof(struct comparison, field)

static const struct result_field comparison_fields[] = {
    {.name = "a", .type = RESULT_TEXT, .offset = COMPARISON(a), .help = "Id of the run that is compared with"},
    {.name = "b", .type = RESULT_TEXT, .offset = COMPARISON(b), .help = "Id of the run that is compared"},
    {.type = RESULT_MERGED, .offset = COMPARISON(found), .shape = &compared_numbers_shape},
    {0},
};
const struct result_shape compare_result = {.name = "Comparison", .fields = comparison_fields};

static enum status side_open(struct http_context *context, const struct request *request, const char *field,
                             struct compared_run *side, struct error *error)
{
    side->id = request_query(request, field);
    if (side->id == NULL) return request_query_fault(error, field, "is missing: ?a=RUN&b=RUN");
    return compared_run_open(application_connection(context), side, error);
}

static enum status side_read(struct http_context *context, const struct request *request, struct compared_run *side,
                             struct error *error)
{
    struct artifact_place place = application_of(context)->artifact_place;
    place.monitor = request->monitor;
    const enum status status = compared_run_read(application_connection(context), &place, false, side, error);
    return status == STATUS_OK ? monitor_check(request->monitor, error) : status;
}

static enum status sides_compare(const struct compared_run *a, const struct compared_run *b,
                                 struct compared_numbers *out, struct error *error)
{
    const struct compared_losses first = compared_run_losses(a), second = compared_run_losses(b);
    out->kind = a->kind;
    out->protocol = a->protocol;
    return compared_measure(&first, &second, 0, out, error);
}

enum status compare_get(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct compared_run a = {.pointer = "/a"}, b = {.pointer = "/b"};
    struct comparison comparison = {0};
    json_t *document = NULL;
    enum status status;
    if ((status = side_open(context, request, "a", &a, error)) != STATUS_OK) goto done;
    if ((status = side_open(context, request, "b", &b, error)) != STATUS_OK) goto done;
    if ((status = compared_runs_check(&a, &b, error)) != STATUS_OK) goto done;
    if ((status = side_read(context, request, &a, error)) != STATUS_OK) goto done;
    if ((status = side_read(context, request, &b, error)) != STATUS_OK) goto done;
    if ((status = sides_compare(&a, &b, &comparison.found, error)) != STATUS_OK) goto done;
    comparison.a = json_string_value(json_object_get(a.document, "id"));
    comparison.b = json_string_value(json_object_get(b.document, "id"));
    status = result_render(&compare_result, &comparison, &document, error);
done:
    compared_run_reset(&a);
    compared_run_reset(&b);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}
