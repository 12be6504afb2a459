#include "store/sweeps.h"

#include "kinds/grid.h"
#include "kinds/prepare.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"

#include <stdlib.h>

struct sweep_body {
    const char *name, *kind, *base, *grid;
};

const struct param sweeps_post_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct sweep_body, name),
     .fallback = "null",
     .nullable = true,
     .maximum = 200,
     .help = "Unique name; null: its id"},
    {.name = "kind", .type = PARAM_STRING, .offset = offsetof(struct sweep_body, kind), .maximum = 60, .help = "Kind of the runs"},
    {.name = "base",
     .type = PARAM_JSON,
     .offset = offsetof(struct sweep_body, base),
     .fallback = "{}",
     .help = "Parameters that all runs have"},
    {.name = "grid",
     .type = PARAM_JSON,
     .offset = offsetof(struct sweep_body, grid),
     .fallback = "{}",
     .help = "Field (dots reach into objects) to a list of values, or {\"trajectory\": NAME} for its checkpoints"},
    {0},
};

enum status sweeps_list(struct http_context *context, const struct request *request, struct response *response, struct error *error)
{
    struct page page;
    json_t *document = NULL;
    enum status status = answer_page(request, NULL, &page, error);
    if (status == STATUS_OK) status = sweep_list(application_connection(context), &page, &document, error);
    return status == STATUS_OK ? answer_list(response, request, document, error) : status;
}

enum status sweeps_get(struct http_context *context, const struct request *request, struct response *response, struct error *error)
{
    json_t *document = NULL;
    const enum status status = sweep_get(application_connection(context), request_parameter(request, "sweep"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

enum status sweeps_cancel(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    json_t *document = NULL;
    const enum status status = sweep_cancel(application_connection(context), request_parameter(request, "sweep"), &document, error);
    if (status != STATUS_OK) return status;
    store_notify(application_connection(context));
    return response_json(response, 202, document, error);
}

/* Prepares every run of the product; the faults of the first that has any are told in terms of base and grid. */
static enum status prepare_all(struct http_context *context, const struct kind *kind, const json_t *grid, const json_t *product,
                               struct prepared_run *prepared, struct run_new *rows, struct faults *faults, struct error *error)
{
    const struct application *application = application_of(context);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(product) && status == STATUS_OK; i++) {
        struct faults found = {0};
        char pointer[160];
        status = prepare_run(application_connection(context), kind, json_array_get(product, i), application->roots,
                             application->data_directory, &found, &prepared[i], error);
        if (status == STATUS_OK) rows[i] = prepare_row(&prepared[i]);
        if (status != STATUS_OK && found.count == 0) faults_add(&found, error->pointer, "%s", error->detail);
        for (size_t j = 0; j < faults_kept(&found) && status_info(status)->http == 422; j++) {
            grid_pointer(grid, found.items[j].pointer, pointer, sizeof pointer);
            faults_add(faults, pointer, "%s", found.items[j].detail);
        }
    }
    return status;
}

static enum status insert(struct http_context *context, const struct sweep_body *body, const json_t *document,
                          struct faults *faults, enum store_outcome *outcome, json_t **made, struct error *error)
{
    const struct kind *kind = kind_find(kinds, body->kind);
    const json_t *base = json_object_get(document, "base"), *grid = json_object_get(document, "grid");
    json_t *product = NULL;
    if (kind == NULL) return error_set_at(error, STATUS_INVALID, "/kind", "unknown kind \"%.60s\"", body->kind);
    enum status status = grid_expand(application_connection(context), base, grid, faults, &product, error);
    if (status != STATUS_OK) return status;
    const size_t count = json_array_size(product);
    struct prepared_run *prepared = calloc(count, sizeof *prepared);
    struct run_new *rows = calloc(count, sizeof *rows);
    status = prepared == NULL || rows == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep")
                                              : prepare_all(context, kind, grid, product, prepared, rows, faults, error);
    if (status == STATUS_OK) {
        const struct sweep_new sweep = {
            .name = body->name, .kind = kind->name, .base = base, .grid = grid, .runs = rows, .run_count = count};
        status = sweep_insert(application_connection(context), &sweep, outcome, made, error);
    }
    for (size_t i = 0; prepared != NULL && i < count; i++) prepare_reset(&prepared[i]);
    free(prepared);
    free(rows);
    json_decref(product);
    return status;
}

enum status sweeps_post(struct http_context *context, const struct request *request, struct response *response, struct error *error)
{
    struct schema_filled filled = {0};
    struct faults faults = {0};
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL;
    enum status status = answer_body(request, response, sweeps_post_body, sizeof(struct sweep_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct sweep_body *body = filled.params;
    if (body->name != NULL) status = answer_check_name(body->name, "/name", error);
    if (status == STATUS_OK) status = insert(context, body, request->body, &faults, &outcome, &document, error);
    if (faults.count > 0) status = answer_faults(response, &faults, error);
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    store_notify(application_connection(context));
    return answer_made(response, outcome == STORE_CREATED ? 202 : 200, "/v1/sweeps/", document, error);
}
