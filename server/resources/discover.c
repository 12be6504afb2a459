#include "hub/repository.h"
#include "hub/revision_name.h"
#include "inputs/public_rate.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/checkpoints.h"
#include "store/trajectories.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_BYTES = 200, REGISTERED_MOST = 5000, REQUEST_SECONDS = 15, TRIES = 2 };
static const double LONGEST_WAIT_SECONDS = 2;

struct discover_body {
    const char *repo, *match;
    int64_t every;
};

const struct param discover_post_body[] = {
    {.name = "repo",
     .type = PARAM_STRING,
     .schema = "Repository",
     .offset = offsetof(struct discover_body, repo),
     .maximum = NAMES_REPO_MOST,
     .form = &names_repo_form,
     .help = "Repository on the hub: ORGANISATION/NAME"},
    {.name = "match",
     .type = PARAM_STRING,
     .offset = offsetof(struct discover_body, match),
     .fallback = "null",
     .nullable = true,
     .maximum = PATTERN_BYTES,
     .help = "Only revisions whose names fit this pattern, with * and ? as in file names; null: all whose names are"
             " understood"},
    {.name = "every",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct discover_body, every),
     .fallback = "1",
     .minimum = 1,
     .maximum = 100000,
     .help = "Only each so-many-th of them, in the order of training, and the last"},
    {0},
};

struct revision {
    struct repository_ref ref;
    struct revision_name name;
};

static int compare_revisions(const void *a, const void *b)
{
    const struct revision *x = a, *y = b;
    const int order = revision_name_compare(&x->name, &y->name);
    return order != 0 ? order : strverscmp(x->ref.name, y->ref.name);
}

/* A refusal of the hub is a fault of the request's repo; a hub that does not answer is not. */
static enum status blame(enum status status, struct error *error)
{
    const struct error cause = *error;
    if (status != STATUS_NOT_FOUND && status != STATUS_FORBIDDEN && status != STATUS_CORRUPT &&
        status != STATUS_TOO_LARGE)
        return status;
    return error_set_at(error, STATUS_INVALID, "/repo", "%s", cause.detail);
}

/* All matching revisions in the order of training. *out is malloc'ed and the caller's. */
static enum status ask_hub(const struct application *application, const char *repo, const char *match,
                           struct revision **out, size_t *count, struct error *error)
{
    struct repository_ref *refs = NULL;
    struct revision_names *names = NULL;
    size_t ref_count = 0;
    const struct repository_caller caller = {
        .hub = application->hub,
        .asking = {.seconds = REQUEST_SECONDS, .tries = TRIES, .longest_wait = LONGEST_WAIT_SECONDS}};
    enum status status = names_check_repo(repo, "/repo", error);
    *out = NULL;
    *count = 0;
    if (status == STATUS_OK) status = hub_enter(application->hub, error);
    if (status != STATUS_OK) return status;
    status = blame(repository_refs(&caller, repo, &refs, &ref_count, error), error);
    hub_leave(application->hub);
    if (status == STATUS_OK) status = revision_names_new(&names, error);
    if (status == STATUS_OK && (*out = calloc(ref_count + 1, sizeof **out)) == NULL)
        status = error_no_memory(error, "a list of revisions");
    for (size_t i = 0; i < ref_count && status == STATUS_OK; i++) {
        if (match != NULL && fnmatch(match, refs[i].name, 0) != 0) continue;
        struct revision *revision = &(*out)[(*count)++];
        revision->ref = refs[i];
        revision_name_read(names, refs[i].name, &revision->name);
    }
    if (status == STATUS_OK && *count > 0) qsort(*out, *count, sizeof **out, compare_revisions);
    revision_names_free(names);
    free(refs);
    return status;
}

static json_t *number_or_null(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

/* ---- looking ---- */

/* {"repo@revision": id of the trajectory's checkpoint} */
static enum status registered(struct connection *connection, const char *trajectory, json_t **out, struct error *error)
{
    struct checkpoint *rows = NULL;
    size_t count = 0;
    *out = json_object();
    enum status status = *out == NULL ? error_no_memory(error, "a list of revisions")
                                      : checkpoint_of_trajectory(connection, trajectory, &rows, &count, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* a POST may make it */
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        char key[sizeof rows->repo + sizeof rows->revision + 2];
        (void)snprintf(key, sizeof key, "%s@%s", rows[i].repo, rows[i].revision);
        if (rows[i].repo[0] != '\0' && json_object_set_new(*out, key, json_string(rows[i].id.text)) != 0)
            status = error_no_memory(error, "a list of revisions");
    }
    free(rows);
    return status;
}

static json_t *describe(const char *repo, const struct revision *revision, const json_t *known)
{
    char key[NAMES_REPO_MOST + NAMES_REVISION_MOST + 3];
    (void)snprintf(key, sizeof key, "%s@%s", repo, revision->ref.name);
    json_t *checkpoint = json_object_get(known, key);
    return json_pack("{ss ss ss sb so so so so sO}", "revision", revision->ref.name, "commit", revision->ref.commit,
                     "kind", revision->ref.tag ? "tag" : "branch", "understood", revision->name.known, "step",
                     number_or_null(revision->name.step), "tokens", number_or_null(revision->name.tokens), "stage",
                     revision->name.stage[0] != '\0' ? json_string(revision->name.stage) : json_null(), "ingredient",
                     number_or_null(revision->name.ingredient), "checkpoint",
                     checkpoint != NULL ? checkpoint : json_null());
}

enum status discover_get(struct http_context *context, const struct request *request, struct response *response,
                         struct error *error)
{
    const char *repo = request_query(request, "repo");
    struct revision *revisions = NULL;
    size_t count = 0;
    json_t *known = NULL, *items = json_array();
    enum status status = STATUS_OK;
    if (repo == NULL) status = error_set_at(error, STATUS_INVALID, "/repo", "is missing: give ?repo=ORGANISATION/NAME");
    if (status == STATUS_OK)
        status = ask_hub(application_of(context), repo, request_query(request, "match"), &revisions, &count, error);
    if (status == STATUS_OK)
        status = registered(application_connection(context), request_parameter(request, "trajectory"), &known, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        if (json_array_append_new(items, describe(repo, &revisions[i], known)) != 0)
            status = error_no_memory(error, "a list of revisions");
    free(revisions);
    json_decref(known);
    if (status == STATUS_OK)
        return response_json(response, 200, json_pack("{ss so sn}", "repo", repo, "items", items, "next"), error);
    json_decref(items);
    return status;
}

/* ---- registering ---- */

static json_t *make_row(const char *repo, const char *trajectory, const struct revision *revision)
{
    char name[sizeof revision->ref.name];
    json_t *tags = json_object(), *source = json_pack("{ss ss ss}", "repo", repo, "revision", revision->ref.name,
                                                      "commit", revision->ref.commit);
    (void)snprintf(name, sizeof name, "%s", revision->ref.name);
    for (char *at = name; *at != '\0'; at++)
        if (*at == '/') *at = '-';
    if (revision->name.stage[0] != '\0') (void)json_object_set_new(tags, "stage", json_string(revision->name.stage));
    if (revision->name.ingredient >= 0)
        (void)json_object_set_new(tags, "ingredient", json_integer(revision->name.ingredient));
    const double rate = public_rate(source, trajectory, name, -1, revision->name.step);
    return json_pack("{ss so so so so so}", "name", name, "step", number_or_null(revision->name.step), "tokens",
                     number_or_null(revision->name.tokens), "learning_rate",
                     isfinite(rate) ? json_real(rate) : json_null(), "source", source, "tags", tags);
}

/* The reason why a revision is left out; NULL: it is not. "main" is most often a copy of the last checkpoint. */
static const char *objection(const struct revision *revisions, size_t count, size_t index)
{
    const struct revision *revision = &revisions[index];
    if (!revision->name.known) return "its name is not understood; register it with POST /v1/checkpoints";
    if (strcmp(revision->name.stage, "final") != 0) return NULL;
    for (size_t i = 0; i < count; i++)
        if (i != index && revisions[i].name.known && strcmp(revisions[i].ref.commit, revision->ref.commit) == 0)
            return "it is the same commit as another revision";
    return NULL;
}

/* Fills `rows` and `skipped`: takes every n-th of the revisions that could be registered, and the last one. */
static enum status choose(const struct discover_body *body, const char *trajectory, const struct revision *revisions,
                          size_t count, json_t *rows, json_t *skipped, struct error *error)
{
    json_t *last = NULL;
    int64_t fit = 0;
    for (size_t i = 0; i < count; i++) {
        const char *why = objection(revisions, count, i);
        if (why != NULL) {
            if (json_array_append_new(skipped,
                                      json_pack("{ss ss}", "revision", revisions[i].ref.name, "detail", why)) != 0)
                return error_no_memory(error, "a list of revisions");
            continue;
        }
        json_decref(last);
        last = make_row(body->repo, trajectory, &revisions[i]);
        if (last == NULL) return error_no_memory(error, "a list of revisions");
        if (fit++ % body->every != 0) continue;
        (void)json_array_append_new(rows, last);
        last = NULL;
    }
    if (last != NULL) (void)json_array_append_new(rows, last);
    if (json_array_size(rows) == 0)
        return error_set_at(error, STATUS_INVALID, "/repo", "none of its revisions has a name that is understood%s",
                            body->match != NULL ? " and fits the pattern" : "");
    if (json_array_size(rows) > REGISTERED_MOST)
        return error_set_at(error, STATUS_INVALID, "/every",
                            "%zu revisions are too many, at most %d are registered: take fewer", json_array_size(rows),
                            REGISTERED_MOST);
    return STATUS_OK;
}

/* A revision whose name is registered with another source is skipped too. */
static enum status add_different(json_t *document, json_t *skipped, struct error *error)
{
    size_t index;
    json_t *name;
    json_array_foreach(json_object_get(document, "different"), index, name)
    {
        if (json_array_append_new(
                skipped, json_pack("{sO ss}", "revision", name, "detail",
                                   "a checkpoint of this name with another source or commit is registered")) != 0)
            return error_no_memory(error, "a list of revisions");
    }
    (void)json_object_del(document, "different");
    return STATUS_OK;
}

static enum status register_revisions(struct http_context *context, const char *trajectory,
                                      const struct discover_body *body, json_t **document, struct error *error)
{
    struct revision *revisions = NULL;
    size_t count = 0;
    json_t *rows = json_array(), *skipped = json_array();
    enum status status = ask_hub(application_of(context), body->repo, body->match, &revisions, &count, error);
    if (status == STATUS_OK) status = choose(body, trajectory, revisions, count, rows, skipped, error);
    if (status == STATUS_OK)
        status = checkpoint_insert_many(application_connection(context), trajectory, rows, document, error);
    if (status == STATUS_OK) status = add_different(*document, skipped, error);
    if (status == STATUS_OK && (json_object_set(*document, "skipped", skipped) != 0 ||
                                json_object_set_new(*document, "repo", json_string(body->repo)) != 0))
        status = error_no_memory(error, "a list of revisions");
    free(revisions);
    json_decref(rows);
    json_decref(skipped);
    return status;
}

enum status discover_post(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    json_t *document = NULL;
    const char *trajectory = request_parameter(request, "trajectory");
    enum status status = answer_check_name(trajectory, "", error);
    if (status == STATUS_OK)
        status = answer_body(request, response, discover_post_body, sizeof(struct discover_body), &filled, error);
    if (status == STATUS_OK) status = register_revisions(context, trajectory, filled.params, &document, error);
    schema_filled_reset(&filled);
    if (status == STATUS_OK) return response_json(response, 200, document, error);
    json_decref(document);
    return status;
}
