#include "base/memory.h"
#include "http/response_writer.h"
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
    {.name = "texts", .type = PARAM_ARRAY, .item = &text_item, .apart = true, .help = "Strings to encode"},
    {.name = "add_special_tokens",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct tokenize_body, add_special_tokens),
     .fallback = "false",
     .help = "Whether each text gets the tokenizer's special tokens"},
    {0},
};

/* Finds the file with the checkpoint's tokenizer. */
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
        if (status == STATUS_OK && !tokenizer_place_find(place->path, out, size, NULL))
            status = error_set_at(error, STATUS_INVALID, "/checkpoint",
                                  "the checkpoint has no tokenizer.json: name a file with \"tokenizer\" instead");
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
        if (status == STATUS_MALFORMED) status = STATUS_CORRUPT; /* the file is malformed, not the request */
        if (status != STATUS_OK && error->pointer[0] == '\0')
            (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    }
    checkpoint_place_close(&place);
    return status;
}

/* Checks that all texts are strings before any of them is encoded. */
static enum status check_texts(const struct request *request, struct response *response, struct error *error)
{
    struct faults faults = {0};
    struct json_reader reader;
    char pointer[64];
    json_reader_init(&reader, "texts", request->large.bytes, request->large.size, NULL, error);
    if (request->large.size == 0 || json_reader_peek(&reader) != JSON_READER_ARRAY)
        return error_set_at(error, STATUS_INVALID, "/texts", "must be an array of strings");
    (void)json_reader_array(&reader);
    for (size_t i = 0; json_reader_next_item(&reader); i++) {
        if (json_reader_peek(&reader) == JSON_READER_STRING) continue;
        (void)snprintf(pointer, sizeof pointer, "/texts/%zu", i);
        faults_add(&faults, pointer, "must be a string");
    }
    const enum status status = json_reader_finish(&reader);
    return status == STATUS_OK && faults.count > 0 ? answer_faults(response, &faults, error) : status;
}

static void write_ids(struct response_writer *writer, const struct token_list *list)
{
    char number[16];
    response_writer_add(writer, "[", 1);
    for (int64_t i = 0; i < list->count; i++) {
        const int length = snprintf(number, sizeof number, "%s%u", i > 0 ? "," : "", list->ids[i]);
        response_writer_add(writer, number, (size_t)length);
    }
    response_writer_add(writer, "]", 1);
}

static enum status encode(const struct request *request, const struct tokenizer *tokenizer, struct json_reader *reader,
                          size_t index, bool special, struct response_writer *writer, struct error *error)
{
    struct token_list list = {0};
    struct json_reader_text text = {0};
    if (!json_reader_string(reader, &text)) return json_reader_status(reader);
    const enum status status =
        tokenizer_encode_watched(tokenizer, text.bytes, text.size, special, request->monitor, &list, error);
    if (index > 0) response_writer_add(writer, ",", 1);
    if (status == STATUS_OK) write_ids(writer, &list);
    tokenizer_list_free(&list);
    return status;
}

/* Encodes text by text from the body into the answer; neither is in memory as a tree. */
static enum status encode_all(const struct request *request, const struct tokenizer *tokenizer, bool special,
                              struct response_writer *writer, struct error *error)
{
    static const char begin[] = "{\"ids\":[", end[] = "]}";
    struct json_reader reader;
    enum status status = STATUS_OK;
    json_reader_init(&reader, "texts", request->large.bytes, request->large.size, NULL, error);
    response_writer_add(writer, begin, sizeof begin - 1);
    (void)json_reader_array(&reader);
    for (size_t i = 0; status == STATUS_OK && json_reader_next_item(&reader); i++)
        status = encode(request, tokenizer, &reader, i, special, writer, error);
    response_writer_add(writer, end, sizeof end - 1);
    struct error ignored;
    if (status != STATUS_OK) reader.error = &ignored; /* only the first error counts */
    const enum status ended = json_reader_finish(&reader);
    return status != STATUS_OK ? status : ended;
}

enum status tokenize_post(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    struct schema_filled filled = {0};
    struct tokenizer *tokenizer = NULL;
    struct response_writer writer;
    enum status status =
        answer_body(request, response, tokenize_post_body, sizeof(struct tokenize_body), &filled, error);
    const struct tokenize_body *body = filled.params;
    response_writer_init(&writer, application_of(context)->data_directory);
    if (status == STATUS_OK) status = check_texts(request, response, error);
    if (status == STATUS_OK) status = open_tokenizer(context, body, &tokenizer, error);
    if (status == STATUS_OK) status = encode_all(request, tokenizer, body->add_special_tokens, &writer, error);
    if (status == STATUS_OK) status = response_writer_answer(&writer, response, "application/json", error);
    tokenizer_close(tokenizer);
    schema_filled_reset(&filled);
    response_writer_reset(&writer);
    return status;
}
