#include "resources/waiting.h"

#include "resources/answer.h"
#include "resources/application.h"
#include "store/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS_MAX = 60 };

static bool run_is_final(const json_t *run)
{
    const char *state = json_string_value(json_object_get(run, "state"));
    return state == NULL || (strcmp(state, "queued") != 0 && strcmp(state, "running") != 0);
}

const struct waiting waiting_for_run = {"/v1/runs/", run_get, run_is_final};

/* Every wake is for all topics, so the topic's form does not matter. */
static void park(struct response *response, const json_t *document, int64_t seconds)
{
    char topic[64];
    (void)snprintf(topic, sizeof topic, "of/%.58s", json_string_value(json_object_get(document, "id")));
    response_wait(response, topic, (double)seconds);
}

enum status waiting_get(struct http_context *context, const struct request *request, struct response *response,
                        const struct waiting *what, const char *reference, struct error *error)
{
    int64_t seconds = 0;
    json_t *document = NULL;
    enum status status = request_query_integer(request, "wait", 0, 0, SECONDS_MAX, &seconds, error);
    if (status == STATUS_OK) status = what->get(application_connection(context), reference, &document, error);
    if (status != STATUS_OK) return status;
    if (seconds == 0 || request->wait_over || what->final(document))
        return response_json(response, 200, document, error);
    park(response, document, seconds);
    json_decref(document);
    return STATUS_OK;
}

enum status waiting_made(const struct request *request, struct response *response, const struct waiting *what,
                         int http_status, json_t *document, struct error *error)
{
    const int64_t seconds = request_preferred_wait(request, SECONDS_MAX);
    char applied[32], memo[64];
    response_recorded(response);
    if (seconds <= 0) return answer_made(response, http_status, what->prefix, document, error);
    if (!request->wait_over && !what->final(document)) {
        (void)snprintf(memo, sizeof memo, "%d %.58s", http_status, json_string_value(json_object_get(document, "id")));
        response_remember(response, memo);
        park(response, document, seconds);
        json_decref(document);
        return STATUS_OK;
    }
    (void)snprintf(applied, sizeof applied, "wait=%lld", (long long)seconds);
    const enum status status = response_header(response, "Preference-Applied", applied, error);
    if (status == STATUS_OK) return answer_made(response, http_status, what->prefix, document, error);
    json_decref(document);
    return status;
}

bool waiting_resume(struct http_context *context, const struct request *request, struct response *response,
                    const struct waiting *what, enum status *status, struct error *error)
{
    char *id;
    json_t *document = NULL;
    if (request->remembered[0] == '\0') return false;
    const long http_status = strtol(request->remembered, &id, 10);
    *status = what->get(application_connection(context), id + 1, &document, error);
    if (*status == STATUS_OK) *status = waiting_made(request, response, what, (int)http_status, document, error);
    return true;
}
