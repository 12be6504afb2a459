#include "base/memory.h"
#include "inputs/checkpoint_place.h"
#include "inputs/roots.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/checkpoints.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenize_body {
    const char *checkpoint;
    struct tokenizer_place {
        const char *path;
    } tokenizer;
    bool add_special_tokens;
};

static const struct param place_params[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct tokenizer_place, path),
     .maximum = 4000,
     .help = "A tokenizer.json, or a GGUF file that has one, below a root"},
    {0},
};

static const struct param text_item = {.type = PARAM_STRING, .minimum = -1};

const struct param tokenize_post_body[] = {
    {.name = "checkpoint",
     .type = PARAM_CHECKPOINT,
     .offset = offsetof(struct tokenize_body, checkpoint),
     .fallback = "null",
     .nullable = true,
     .help = "The checkpoint whose tokenizer is used"},
    {.name = "tokenizer",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct tokenize_body, tokenizer),
     .schema = "TokenizerPlace",
     .children = place_params,
     .fallback = "null",
     .nullable = true,
     .help = "A tokenizer of its own, instead of checkpoint"},
    {.name = "texts", .type = PARAM_ARRAY, .item = &text_item, .help = "Strings to encode"},
    {.name = "add_special_tokens",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct tokenize_body, add_special_tokens),
     .fallback = "false",
     .help = "Whether each text gets the tokenizer's special tokens"},
    {0},
};

/* The path of the file that has the checkpoint's tokenizer. */
static enum status checkpoint_tokenizer(struct http_context *context, const char *reference,
                                        struct checkpoint_place *place, char *out, size_t size, struct error *error)
{
    const struct application *application = application_of(context);
    struct checkpoint *row = malloc(sizeof *row);
    if (row == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    enum status status = checkpoint_find(application_connection(context), reference, row, error);
    if (status == STATUS_OK) {
        status =
            checkpoint_place_find(application->roots, application->data_directory, row, "/checkpoint", place, error);
        if (status == STATUS_OK)
            (void)tokenizer_place_find(place->path, out, size, NULL); /* where there is none, opening says so */
    } else if (status == STATUS_NOT_FOUND || status == STATUS_CONFLICT) {
        char detail[sizeof error->detail];
        (void)snprintf(detail, sizeof detail, "%s", error->detail);
        status = error_set_at(error, STATUS_INVALID, "/checkpoint", "%s", detail);
    }
    free(row);
    return status;
}

static enum status open_tokenizer(struct http_context *context, const struct tokenize_body *body,
                                  struct tokenizer **out, struct error *error)
{
    char path[PATH_MAX], canonical[PATH_MAX];
    struct checkpoint_place place = {0};
    const char *pointer = body->checkpoint != NULL ? "/checkpoint" : "/tokenizer/path";
    const char *file = body->checkpoint != NULL ? path : body->tokenizer.path;
    enum status status = STATUS_OK;
    if ((body->checkpoint == NULL) == (body->tokenizer.path == NULL))
        return error_set_at(error, STATUS_INVALID, "/checkpoint", "give either checkpoint or tokenizer");
    if (body->checkpoint != NULL)
        status = checkpoint_tokenizer(context, body->checkpoint, &place, path, sizeof path, error);
    if (status == STATUS_OK && place.hold == NULL) { /* a link in the directory may lead anywhere */
        status = roots_resolve(application_of(context)->roots, file, pointer, canonical, sizeof canonical, error);
        file = canonical;
    }
    if (status == STATUS_OK) {
        status = tokenizer_open(file, out, error);
        if (status == STATUS_MALFORMED) status = STATUS_CORRUPT; /* the file is, not the request */
        if (status != STATUS_OK && error->pointer[0] == '\0')
            (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    }
    checkpoint_place_close(&place);
    return status;
}

static enum status encode(const struct request *request, const struct tokenizer *tokenizer, const json_t *text,
                          size_t index, bool special, json_t *out, struct error *error)
{
    struct token_list list = {0};
    char pointer[64];
    (void)snprintf(pointer, sizeof pointer, "/texts/%zu", index);
    if (!json_is_string(text)) return error_set_at(error, STATUS_INVALID, pointer, "must be a string");
    enum status status = tokenizer_encode_watched(tokenizer, json_string_value(text), json_string_length(text), special,
                                                  request->monitor, &list, error);
    json_t *ids = json_array();
    for (int64_t i = 0; status == STATUS_OK && i < list.count; i++)
        if (json_array_append_new(ids, json_integer(list.ids[i])) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for ids");
    if (json_array_append_new(out, ids) != 0 && status == STATUS_OK)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for ids");
    tokenizer_list_free(&list);
    return status;
}

enum status tokenize_post(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    struct tokenizer *tokenizer = NULL;
    json_t *all = json_array(), *text;
    size_t index;
    enum status status =
        answer_body(request, response, tokenize_post_body, sizeof(struct tokenize_body), &filled, error);
    const struct tokenize_body *body = filled.params;
    if (status == STATUS_OK) status = open_tokenizer(context, body, &tokenizer, error);
    json_array_foreach(json_object_get(request->body, "texts"), index, text) if (status == STATUS_OK) status =
        encode(request, tokenizer, text, index, body->add_special_tokens, all, error);
    tokenizer_close(tokenizer);
    schema_filled_reset(&filled);
    if (status == STATUS_OK) return response_json(response, 200, json_pack("{so}", "ids", all), error);
    json_decref(all);
    return status;
}
