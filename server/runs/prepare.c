#include "runs/prepare.h"

#include "base/version.h"
#include "inputs/checkpoint_place.h"
#include "inputs/hash.h"
#include "schema/form.h"
#include "schema/schema.h"
#include "store/checkpoints.h"
#include "store/datasets.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* References are resolved in the parameters; their content goes into a copy that only the dedupe key sees. */
struct resolver {
    struct run_request *request;
    const struct kind *kind;
    struct faults *faults;
    json_t *content; /* object: pointer -> content of the reference there */
};

/* The id stands for the content while its hash is not known, because the files registered under an id do not change. */
static enum status replace(struct resolver *resolver, const char *pointer, json_t *value, const char *id,
                           const char *sha256, struct error *error)
{
    if (json_string_set(value, id) != 0) return error_no_memory(error, "a run");
    return json_object_set_new(resolver->content, pointer, json_string(sha256[0] != '\0' ? sha256 : id)) == 0
               ? STATUS_OK
               : error_no_memory(error, "a run");
}

static enum status visit_checkpoint(struct resolver *resolver, const char *pointer, json_t *value, struct error *error)
{
    struct checkpoint *found = malloc(sizeof *found);
    if (found == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_find(resolver->request->connection, json_string_value(value), found, error);
    if (status == STATUS_OK && !checkpoint_place_known(found))
        status = error_set(error, STATUS_INVALID, "nothing is known of where the checkpoint's files are");
    if (status == STATUS_OK) status = run_request_uses_checkpoint(resolver->request, &found->id, error);
    if (status == STATUS_OK) status = replace(resolver, pointer, value, found->id.text, found->sha256, error);
    free(found);
    return status;
}

static enum status visit_dataset(struct resolver *resolver, const char *pointer, json_t *value, struct error *error)
{
    struct dataset found = {0};
    enum status status = dataset_find(resolver->request->connection, json_string_value(value), &found, error);
    if (status != STATUS_OK) return status;
    status = run_request_uses_dataset(resolver->request, &found.id, error);
    if (status == STATUS_OK) status = replace(resolver, pointer, value, found.id.text, found.sha256, error);
    dataset_reset(&found);
    return status;
}

static bool may_be_made(const char *name)
{
    return strlen(name) <= STORE_NAME_GIVEN && form_name.fits(name);
}

/* A trajectory that will be made stays a name until everything else is known to be valid (make_trajectory). */
static enum status visit_trajectory(struct resolver *resolver, const char *pointer, json_t *value, struct error *error)
{
    struct store_id id = {0};
    enum status status = trajectory_resolve(resolver->request->connection, json_string_value(value), &id, error);
    if (status == STATUS_NOT_FOUND && resolver->kind->makes_trajectories) {
        if (may_be_made(json_string_value(value))) return STATUS_OK;
        return error_set(error, STATUS_INVALID, "the name of a new trajectory has at most %d bytes and %s",
                         STORE_NAME_GIVEN, form_name.wanted);
    }
    if (status == STATUS_OK) status = run_request_uses_trajectory(resolver->request, &id, error);
    return status == STATUS_OK ? replace(resolver, pointer, value, id.text, "", error) : status;
}

static enum status make_trajectory(void *context, enum param_type type, const char *pointer, json_t *value,
                                   struct error *error)
{
    struct resolver *resolver = context;
    struct store_id id = {0};
    if (type != PARAM_TRAJECTORY || json_object_get(resolver->content, pointer) != NULL) return STATUS_OK;
    enum status status = trajectory_ensure(resolver->request->connection, json_string_value(value), &id, NULL, error);
    if (status == STATUS_OK) status = run_request_uses_trajectory(resolver->request, &id, error);
    return status == STATUS_OK ? replace(resolver, pointer, value, id.text, "", error) : status;
}

/* An unknown or ambiguous name is one more fault; any other error ends the walk. */
static enum status visit(void *context, enum param_type type, const char *pointer, json_t *value, struct error *error)
{
    struct resolver *resolver = context;
    enum status status = STATUS_OK;
    if (type == PARAM_CHECKPOINT)
        status = visit_checkpoint(resolver, pointer, value, error);
    else if (type == PARAM_DATASET)
        status = visit_dataset(resolver, pointer, value, error);
    else
        status = visit_trajectory(resolver, pointer, value, error);
    if (status != STATUS_NOT_FOUND && status != STATUS_CONFLICT && status != STATUS_INVALID) return status;
    faults_add(resolver->faults, pointer, "%s", error->detail);
    return STATUS_OK;
}

/* content NULL: the key is made of the references' ids. */
static enum status make_key(const struct kind *kind, const struct run_request *request, const json_t *content,
                            char out[HASH_TEXT], struct error *error)
{
    json_t *document = json_pack("{ss si sO* sO sO}", "kind", kind->name, "revision", ENGINE_REVISION, "content",
                                 content, "identity", request->identity, "params", request->params);
    if (document == NULL) return error_no_memory(error, "a run");
    const enum status status = hash_json(document, out, error);
    json_decref(document);
    return status;
}

/* Copies the parameters with every reference blanked, because the content is added beside them. */
static enum status blank(void *context, enum param_type type, const char *pointer, json_t *value, struct error *error)
{
    (void)context, (void)type, (void)pointer;
    return json_string_set(value, "") == 0 ? STATUS_OK : error_no_memory(error, "a run");
}

static enum status prepare_key(struct prepared_run *run, const json_t *content, struct error *error)
{
    struct run_request *request = &run->request;
    json_t *kept = request->params;
    if (request->identity == NULL) return STATUS_OK;
    enum status status = make_key(run->kind, request, NULL, run->named_key, error);
    if (status != STATUS_OK) return status;
    request->params = json_deep_copy(kept);
    if (request->params == NULL) status = error_no_memory(error, "a run");
    if (status == STATUS_OK)
        status = schema_references(run->kind->params, request->params, "/params", blank, NULL, error);
    if (status == STATUS_OK) status = make_key(run->kind, request, content, run->dedupe_key, error);
    json_decref(request->params);
    request->params = kept;
    return status;
}

/* The batch key uses ids and not content, because a batch opens its inputs once for all members. */
static enum status prepare_batch(struct prepared_run *run, struct error *error)
{
    const struct kind *kind = run->kind;
    if (kind->execute_batch == NULL || run->request.alone) return STATUS_OK;
    json_t *common = json_copy(run->request.params);
    for (const char *const *name = kind->apart; common != NULL && *name != NULL; name++)
        (void)json_object_del(common, *name);
    json_t *document = json_pack("{ss so}", "kind", kind->name, "params", common);
    if (document == NULL) return error_no_memory(error, "a run");
    const enum status status = hash_json(document, run->batch, error);
    json_decref(document);
    return status;
}

enum status prepare_run(struct connection *connection, const struct kind *kind, const json_t *params,
                        const struct roots *roots, const char *data_directory, bool make, struct faults *faults,
                        struct prepared_run *out, struct error *error)
{
    struct schema_filled filled = {0};
    struct resolver resolver = {.request = &out->request, .kind = kind, .faults = faults, .content = json_object()};
    *out = (struct prepared_run){.kind = kind};
    out->request = (struct run_request){
        .connection = connection, .roots = roots, .data_directory = data_directory, .posted = params};
    out->request.params = params == NULL ? json_object() : json_deep_copy(params);
    out->request.identity = json_object();
    enum status status = STATUS_OK;
    if (resolver.content == NULL || out->request.params == NULL || out->request.identity == NULL)
        status = error_no_memory(error, "a run");
    /* filled once for faults and defaults, and again below, when strings have become ids */
    if (status == STATUS_OK)
        status = schema_fill(kind->params, kind->params_size, out->request.params, "/params", faults, &filled, error);
    if (status == STATUS_OK)
        status = schema_references(kind->params, out->request.params, "/params", visit, &resolver, error);
    if (status == STATUS_OK) status = faults_status(faults, error);
    schema_filled_reset(&filled);
    if (status == STATUS_OK)
        status = schema_fill(kind->params, kind->params_size, out->request.params, "/params", faults, &filled, error);
    if (status == STATUS_OK && kind->check != NULL) status = kind->check(&out->request, filled.params, error);
    if (status == STATUS_OK && make)
        status = schema_references(kind->params, out->request.params, "/params", make_trajectory, &resolver, error);
    if (status == STATUS_OK) status = prepare_batch(out, error);
    if (status == STATUS_OK) status = prepare_key(out, resolver.content, error);
    schema_filled_reset(&filled);
    json_decref(resolver.content);
    if (status != STATUS_OK) prepare_reset(out);
    return status;
}

/* Whom it meets is asked first: an equal run that is posted meanwhile is met and found, or neither. */
enum status prepare_check_vacant(const struct prepared_run *run, const struct run_new *row, struct error *error)
{
    const struct run_request *request = &run->request;
    struct store_id equal;
    struct error unread;
    bool found = false;
    if (run->kind->vacant == NULL || request->makes == NULL) return STATUS_OK;
    const enum status status = run->kind->vacant(request, error);
    if (status != STATUS_CONFLICT) return status;
    const enum status looked = run_find_equal(request->connection, row, &found, &equal, &unread);
    return looked == STATUS_OK && found ? STATUS_OK : status;
}

void prepare_reset(struct prepared_run *run)
{
    json_decref(run->request.params);
    run_request_reset(&run->request);
    *run = (struct prepared_run){0};
}

struct run_new prepare_row(const struct prepared_run *run)
{
    return (struct run_new){
        .kind = run->kind->name,
        .params = run->request.params,
        .dedupe_key = run->dedupe_key[0] != '\0' ? run->dedupe_key : NULL,
        .named_key = run->named_key[0] != '\0' ? run->named_key : NULL,
        .batch = run->batch[0] != '\0' ? run->batch : NULL,
        .checkpoints = run->request.checkpoints,
        .checkpoint_count = run->request.checkpoint_count,
        .trajectories = run->request.trajectories,
        .trajectory_count = run->request.trajectory_count,
        .datasets = run->request.datasets,
        .dataset_count = run->request.dataset_count,
        .vacant = run->request.makes != NULL ? run->kind->vacant : NULL,
        .request = &run->request,
    };
}
