#include "kinds/compared_run.h"

#include "base/memory.h"
#include "eval/losses_tokens.h"
#include "kinds/artifact_file.h"
#include "store/runs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void compared_run_reset(struct compared_run *run)
{
    losses_table_reset(&run->table);
    for (size_t c = 0; c < LOSSES_TABLE_COLUMNS; c++) memory_free(run->tokens[c]);
    json_decref(run->document);
    *run = (struct compared_run){0};
}

static const char *text_of(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text != NULL ? text : "";
}

enum status compared_run_open(struct connection *connection, struct compared_run *run, struct error *error)
{
    const enum status status = run_get(connection, run->id, &run->document, error);
    if (status != STATUS_OK) return status;
    const char *state = text_of(run->document, "state");
    const json_t *result = json_object_get(run->document, "result");
    run->kind = text_of(run->document, "kind");
    run->left = losses_of_kind(run->kind);
    run->protocol = text_of(result, "protocol_id");
    run->checkpoint = text_of(json_object_get(run->document, "params"), "checkpoint");
    run->recipe = text_of(result, "recipe_id");
    run->calibration = text_of(result, "calibration_id");
    if (run->left == NULL)
        return error_set_at(error, STATUS_INVALID, run->pointer,
                            "is a run of the kind %s; only evaluate and quantize leave losses of sequences", run->kind);
    if (strcmp(state, "succeeded") != 0)
        return error_set_at(error, STATUS_CONFLICT, run->pointer,
                            "the run is %s; only runs that succeeded have losses to read", state);
    return STATUS_OK;
}

enum status compared_runs_check(const struct compared_run *a, const struct compared_run *b, struct error *error)
{
    if (strcmp(a->kind, b->kind) != 0)
        return error_set_at(error, STATUS_INVALID, b->pointer,
                            "is a run of the kind %s and the other one of %s; compare runs of one kind", b->kind,
                            a->kind);
    if (strcmp(a->protocol, b->protocol) != 0)
        return error_set_at(
            error, STATUS_INVALID, b->pointer,
            "was measured on other sequences or in other precision than the other run: protocol_id %s, not %s; give "
            "both the same dataset, sequence_length, packing, max_sequences and precision",
            b->protocol, a->protocol);
    if (strcmp(a->checkpoint, b->checkpoint) != 0 && strcmp(a->recipe, b->recipe) != 0)
        return error_set_at(
            error, STATUS_INVALID, b->pointer,
            "is of another checkpoint and of another method than the other run (recipe_id %s, not %s), so that a "
            "difference could come from either; quantize both checkpoints by one method, or one by "
            "both",
            b->recipe, a->recipe);
    return STATUS_OK;
}

/* ---- What it left ---- */

static enum status find(struct connection *connection, const struct compared_run *run, const char *name,
                        struct run_artifact *out, struct error *error)
{
    const enum status status = run_artifact_find(connection, run->id, name, out, error);
    if (status != STATUS_NOT_FOUND) return status;
    return error_set_at(error, STATUS_INVALID, run->pointer, "has no %s: %s", name,
                        strcmp(name, LOSSES_ARTIFACT) == 0
                            ? "an earlier version measured it; post it again with \"force\": true"
                            : "post it again with \"per_token\": true, or compare without per_token");
}

enum status compared_run_find(struct connection *connection, const struct compared_run *run, bool tokens_needed,
                              bool *tokens, int64_t *bytes, struct error *error)
{
    struct run_artifact artifact;
    enum status status = find(connection, run, LOSSES_ARTIFACT, &artifact, error);
    *tokens = true;
    *bytes = status == STATUS_OK ? artifact.bytes : 0;
    for (size_t c = 0; c < run->left->count && *tokens && status == STATUS_OK; c++) {
        status = find(connection, run, run->left->tokens[c], &artifact, error);
        *tokens = status == STATUS_OK;
        if (status == STATUS_OK) *bytes += artifact.bytes;
        if (status == STATUS_INVALID && !tokens_needed) status = STATUS_OK;
    }
    return status;
}

/* An open artifact, and a path to it for readers that want one. */
struct opened {
    int fd;
    char path[32];
};

static enum status open_left(struct connection *connection, const struct artifact_place *place,
                             const struct compared_run *run, const char *name, struct opened *out, struct error *error)
{
    struct run_artifact artifact;
    enum status status = find(connection, run, name, &artifact, error);
    if (status == STATUS_OK) status = artifact_file_open(place, artifact.sha256, artifact.bytes, &out->fd, error);
    if (status == STATUS_OK) (void)snprintf(out->path, sizeof out->path, "/proc/self/fd/%d", out->fd);
    return status;
}

static enum status read_sequences(struct connection *connection, const struct artifact_place *place,
                                  struct compared_run *run, struct error *error)
{
    const struct losses_kind *left = run->left;
    struct opened file;
    enum status status = open_left(connection, place, run, LOSSES_ARTIFACT, &file, error);
    if (status != STATUS_OK) return status;
    status = losses_table_read(file.path, left->columns, left->count, &run->table, error);
    (void)close(file.fd);
    return status;
}

static enum status read_tokens(struct connection *connection, const struct artifact_place *place, const char *name,
                               int64_t predictions, struct compared_run *run, float **out, struct error *error)
{
    struct opened file;
    enum status status = open_left(connection, place, run, name, &file, error);
    if (status != STATUS_OK) return status;
    status = losses_tokens_read(file.path, predictions, out, error);
    (void)close(file.fd);
    return status;
}

enum status compared_run_read(struct connection *connection, const struct artifact_place *place, bool tokens,
                              struct compared_run *run, struct error *error)
{
    enum status status = read_sequences(connection, place, run, error);
    if (status != STATUS_OK || !tokens) return status;
    const struct compared_losses losses = compared_run_losses(run);
    const int64_t predictions = compared_predictions(&losses);
    for (size_t c = 0; c < run->left->count && status == STATUS_OK; c++)
        status = read_tokens(connection, place, run->left->tokens[c], predictions, run, &run->tokens[c], error);
    return status;
}

struct compared_losses compared_run_losses(const struct compared_run *run)
{
    struct compared_losses losses = {
        .left = run->left, .sequences = run->table.sequences, .predictions = run->table.predictions};
    for (size_t c = 0; c < run->left->count; c++) {
        losses.columns[c] = run->table.columns[c];
        losses.tokens[c] = run->tokens[c];
    }
    return losses;
}
