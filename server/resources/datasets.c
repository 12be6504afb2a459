#include "inputs/data_source.h"
#include "inputs/object_file.h"
#include "inputs/roots.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/inline_sequences.h"
#include "schema/form.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dataset_body {
    const char *name, *path, *field;
    int format, dtype;
    bool add_special_tokens;
};

static const char *const formats[] = {"text", "jsonl", "tokens", NULL};
static const char *const dtypes[] = {"uint16", "uint32", "int32", "int64", NULL};

static const struct param token_item = {.type = PARAM_INTEGER, .maximum = INT32_MAX - 1};
static const struct param sequence_item = {.type = PARAM_ARRAY, .item = &token_item, .minimum = 2};

const struct param datasets_post_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct dataset_body, name),
     .maximum = 200,
     .form = &form_name,
     .help = "Unique name"},
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct dataset_body, path),
     .fallback = "null",
     .nullable = true,
     .maximum = 4000,
     .help = "File or directory below a root, or an object of a bucket (s3://BUCKET/KEY), which the first run fetches"},
    {.name = "format",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct dataset_body, format),
     .fallback = "null",
     .nullable = true,
     .schema = "FileFormat",
     .choices = formats,
     .help = "Content of the files; needed with path"},
    {.name = "field",
     .type = PARAM_STRING,
     .offset = offsetof(struct dataset_body, field),
     .fallback = "null",
     .nullable = true,
     .maximum = 200,
     .help = "jsonl: the key of the text; null: \"text\""},
    {.name = "dtype",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct dataset_body, dtype),
     .fallback = "null",
     .nullable = true,
     .schema = "TokenDtype",
     .choices = dtypes,
     .help = "tokens in a .bin file: how they are stored; null: \"uint16\""},
    {.name = "add_special_tokens",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct dataset_body, add_special_tokens),
     .fallback = "null",
     .nullable = true,
     .help = "text, jsonl: whether documents get the tokenizer's special tokens; null: for calibration only"},
    {.name = "sequences",
     .type = PARAM_ARRAY,
     .item = &sequence_item,
     .minimum = 1,
     .fallback = "null",
     .nullable = true,
     .apart = true,
     .help = "The tokens themselves: arrays of ids"},
    {0},
};

static const struct list_field shown[] = {
    {"id", true},
    {"name", true},
    {"format", true},
    {"path", false},
    {"field", false},
    {"dtype", false},
    {"add_special_tokens", false},
    {"sequences", true},
    {"tokens", true},
    {"sha256", false},
    {"created_at", true},
    {0},
};

enum status datasets_list(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, shown, &asked, error);
    if (status == STATUS_OK)
        status = dataset_list(application_connection(context), &asked.filter, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status datasets_get(struct http_context *context, const struct request *request, struct response *response,
                         struct error *error)
{
    return answer_found(response, application_connection(context), dataset_get, request_parameter(request, "dataset"),
                        error);
}

enum status datasets_delete(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    return answer_empty(response,
                        dataset_delete(application_connection(context), request_parameter(request, "dataset"), error));
}

static enum status insert_inline(struct http_context *context, const struct dataset_body *body,
                                 const struct inline_sequences *sequences, enum store_outcome *outcome,
                                 json_t **document, struct error *error)
{
    char sha256[INLINE_SEQUENCES_HASH];
    json_t *definition = json_object();
    const struct dataset_sequences source = inline_sequences_source(sequences);
    enum status status = inline_sequences_hash(sequences, sha256, error);
    const struct dataset_new row = {
        .name = body->name, .format = "sequences", .definition = definition, .sequences = &source, .sha256 = sha256};
    if (status == STATUS_OK) status = dataset_insert(application_connection(context), &row, outcome, document, error);
    json_decref(definition);
    return status;
}

static enum status read_inline(struct http_context *context, const struct request *request, struct response *response,
                               const struct dataset_body *body, enum store_outcome *outcome, json_t **document,
                               struct error *error)
{
    struct inline_sequences sequences = {0};
    struct faults faults = {0};
    enum status status =
        inline_sequences_read(request->large, application_of(context)->data_directory, &faults, &sequences, error);
    if (status == STATUS_OK && faults.count > 0)
        status = answer_faults(response, &faults, error);
    else if (status == STATUS_OK)
        status = insert_inline(context, body, &sequences, outcome, document, error);
    inline_sequences_reset(&sequences);
    return status;
}

/* {"path", "field", "dtype", "add_special_tokens"}: the given fields that the format uses. */
static enum status define(const json_t *body, const char *format, const char *path, json_t **out, struct error *error)
{
    static const struct {
        const char *name, *formats;
    } fields[] = {{"field", "jsonl"}, {"dtype", "tokens"}, {"add_special_tokens", "text jsonl"}};
    *out = json_pack("{ss}", "path", path);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a dataset");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(body, fields[i].name);
        char pointer[64];
        if (json_is_null(value)) continue;
        (void)snprintf(pointer, sizeof pointer, "/%s", fields[i].name);
        if (strstr(fields[i].formats, format) == NULL)
            return error_set_at(error, STATUS_INVALID, pointer, "means nothing for the format \"%s\"", format);
        if (json_object_set(*out, fields[i].name, value) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a dataset");
    }
    return STATUS_OK;
}

/* Nothing of the object is read yet; its "commit" comes from the server and stands for the content. */
static enum status insert_object(struct http_context *context, const struct dataset_body *body, const json_t *given,
                                 enum store_outcome *outcome, json_t **document, struct error *error)
{
    struct object_file file;
    struct dataset_source source;
    char path[2 * OBJECTS_PLACE_MOST], commit[NAMES_COMMIT];
    json_t *definition = NULL;
    const char *format = json_string_value(json_object_get(given, "format"));
    enum status status = object_file_read(body->path, "/path", &file, error);
    if (status != STATUS_OK) return status;
    if (snprintf(path, sizeof path, "%s/%s", file.directory, file.name) >= (int)sizeof path)
        return error_set_at(error, STATUS_INVALID, "/path", "is too long");
    status = define(given, format, path, &definition, error);
    if (status == STATUS_OK) status = data_source_parse(format, definition, &source, error);
    if (status == STATUS_OK) status = object_file_commit(application_of(context)->hub, &file, "/path", commit, error);
    if (status == STATUS_OK && json_object_set_new(definition, "commit", json_string(commit)) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a dataset");
    const struct dataset_new row = {.name = body->name, .format = format, .definition = definition};
    if (status == STATUS_OK) status = dataset_insert(application_connection(context), &row, outcome, document, error);
    json_decref(definition);
    return status;
}

/* Reads properties of the files. A fault is the files', so the status is neither about the address nor about the body's
 * form. */
static enum status read_files(const struct dataset_source *source, const struct monitor *monitor,
                              struct data_source_files *out, struct error *error)
{
    enum status status = dataset_look(source, error);
    if (status == STATUS_OK) status = data_source_read(source, monitor, out, error);
    if (status != STATUS_OK && error->pointer[0] == '\0')
        (void)snprintf(error->pointer, sizeof error->pointer, "/path");
    if (status == STATUS_NOT_FOUND || status == STATUS_FORBIDDEN || status == STATUS_MALFORMED)
        status = error->status = STATUS_INVALID;
    return status;
}

static enum status insert_files(struct http_context *context, const struct monitor *monitor,
                                const struct dataset_body *body, const json_t *given, enum store_outcome *outcome,
                                json_t **document, struct error *error)
{
    char path[PATH_MAX];
    struct stat found;
    struct data_source_files files = {0};
    struct dataset_source source;
    json_t *definition = NULL;
    const struct roots *roots = application_of(context)->roots;
    const char *format = json_string_value(json_object_get(given, "format"));
    enum status status;
    if (format == NULL)
        return error_set_at(error, STATUS_INVALID, "/format", "is missing: one of \"text\", \"jsonl\", \"tokens\"");
    if (objects_place_is(body->path)) return insert_object(context, body, given, outcome, document, error);
    if ((status = roots_resolve(roots, body->path, "/path", path, sizeof path, error)) != STATUS_OK) return status;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) status = roots_check_links(roots, path, "/path", error);
    if (status == STATUS_OK) status = define(given, format, path, &definition, error);
    if (status == STATUS_OK) status = data_source_parse(format, definition, &source, error);
    if (status == STATUS_OK) status = read_files(&source, monitor, &files, error);
    const struct dataset_new row = {.name = body->name,
                                    .format = format,
                                    .definition = definition,
                                    .fingerprint = files.fingerprint,
                                    .sha256 = files.sha256[0] != '\0' ? files.sha256 : NULL};
    if (status == STATUS_OK) status = dataset_insert(application_connection(context), &row, outcome, document, error);
    json_decref(definition);
    return status;
}

enum status datasets_post(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL;
    enum status status =
        answer_body(request, response, datasets_post_body, sizeof(struct dataset_body), &filled, error);
    const struct dataset_body *body = filled.params;
    if (status == STATUS_OK && (body->path == NULL) == (request->large.size == 0))
        status = error_set_at(error, STATUS_INVALID, "/path", "give either path (with format) or sequences");
    else if (status == STATUS_OK && body->path == NULL && !json_is_null(json_object_get(request->body, "format")))
        status = error_set_at(error, STATUS_INVALID, "/format", "goes with path only");
    else if (status == STATUS_OK && body->path == NULL)
        status = read_inline(context, request, response, body, &outcome, &document, error);
    else if (status == STATUS_OK)
        status = insert_files(context, request->monitor, body, request->body, &outcome, &document, error);
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    return answer_made(response, outcome == STORE_CREATED ? 201 : 200, "/v1/datasets/", document, error);
}
