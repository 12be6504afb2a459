#include "kinds/worst_tokens.h"

#include "base/memory.h"
#include "dataset/token_text.h"
#include "eval/token_ranking.h"
#include "inputs/inputs.h"
#include "kinds/compared_run.h"
#include "kinds/protocol.h"
#include "schema/schema.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of losses that are read for one answer, of each run: about 2.7 million predictions of `quantize` or 8
 * million of `evaluate`, as many as a planning context reads tokens. */
#define READ_BYTES (INT64_C(32) << 20)

const char *const worst_tokens_decodes[] = {"tokenizer", "bytes", "ids", NULL};

/* What the losses are compared with. */
enum reference { REFERENCE_NOTHING, REFERENCE_FULL_PRECISION, REFERENCE_RUN };
static const char *const reference_names[] = {"nothing", "full_precision", "run", NULL};

enum { WINDOW = 2 * WORST_TOKENS_CONTEXT_MOST + 1 };

struct worst_token {
    int64_t sequence, position, token;
    double loss, reference_loss, difference, kl;
    struct token_text text; /* owned; NULL members when no text is asked for */
    int64_t from, count;    /* of the window */
    int64_t tokens[WINDOW];
    double losses[WINDOW], reference_losses[WINDOW];
};

struct worst_tokens {
    struct compared_run run, against;
    struct inputs inputs;
    struct sequences sequences;
    char dataset[STORE_NAME];
    const struct worst_tokens_request *request;
    const float *losses, *before, *kl; /* [predictions], lent by the runs; `before` and `kl` may be NULL */
    int reference, decode;
    int64_t predictions, count;
    struct worst_token *items; /* [count], owned */
};

/* ---- The answer ---- */

#define ITEM(field) offsetof(struct worst_token, field)

static const struct result_field id_item = {.type = RESULT_INTEGER}, loss_item = {.type = RESULT_NUMBER};

static const struct result_field item_fields[] = {
    {.name = "sequence", .type = RESULT_INTEGER, .offset = ITEM(sequence), .help = "From 0, in the dataset's order"},
    {.name = "position",
     .type = RESULT_INTEGER,
     .offset = ITEM(position),
     .help = "Of the predicted token in its sequence, whose first token has position 0 and no prediction"},
    {.name = "token", .type = RESULT_INTEGER, .offset = ITEM(token), .help = "Id of the token that came"},
    {.name = "loss",
     .type = RESULT_NUMBER,
     .offset = ITEM(loss),
     .unit = "nats",
     .help = "Of `evaluate` the loss, of `quantize` the quantized loss of this prediction; null when it is not finite"},
    {.name = "reference_loss",
     .type = RESULT_NUMBER,
     .offset = ITEM(reference_loss),
     .unit = "nats",
     .help = "In full precision, or of the run `against`; null where `reference` is nothing"},
    {.name = "difference",
     .type = RESULT_NUMBER,
     .offset = ITEM(difference),
     .unit = "nats",
     .help = "`loss` − `reference_loss`; null where one of them is"},
    {.name = "kl",
     .type = RESULT_NUMBER,
     .offset = ITEM(kl),
     .unit = "nats",
     .help = "Of `quantize`: the KL divergence of the quantized prediction from that in full precision"},
    {.name = "before",
     .type = RESULT_TEXT,
     .offset = ITEM(text.before),
     .absence = RESULT_NULL,
     .help = "Text of the window before the token; null with `decode=ids`"},
    {.name = "text",
     .type = RESULT_TEXT,
     .offset = ITEM(text.token),
     .absence = RESULT_NULL,
     .help =
         "Text of the token. A character that several tokens make up stands with the one that completes it; what is "
         "no UTF-8 is U+FFFD"},
    {.name = "after",
     .type = RESULT_TEXT,
     .offset = ITEM(text.after),
     .absence = RESULT_NULL,
     .help = "Text of the window after the token"},
    {.name = "from", .type = RESULT_INTEGER, .offset = ITEM(from), .help = "Position of the window's first token"},
    {.name = "tokens",
     .type = RESULT_ARRAY,
     .offset = ITEM(tokens),
     .count = ITEM(count),
     .item = &id_item,
     .help = "Ids of the tokens of the window, `token` among them"},
    {.name = "losses",
     .type = RESULT_ARRAY,
     .offset = ITEM(losses),
     .count = ITEM(count),
     .item = &loss_item,
     .unit = "nats",
     .help = "`loss` of each of them; null for the first of a sequence"},
    {.name = "reference_losses",
     .type = RESULT_ARRAY,
     .offset = ITEM(reference_losses),
     .count = ITEM(count),
     .item = &loss_item,
     .unit = "nats",
     .help = "`reference_loss` of each of them; nulls where `reference` is nothing"},
    {0},
};
static const struct result_shape item_shape = {
    .name = "WorstToken",
    .help = "A prediction that lost much, in the window of tokens around it",
    .fields = item_fields,
    .size = sizeof(struct worst_token),
};
static const struct result_field item = {.type = RESULT_OBJECT, .shape = &item_shape};

#define FOUND(field) offsetof(struct worst_tokens, field)

static const struct result_field found_fields[] = {
    {.name = "run", .type = RESULT_TEXT, .offset = FOUND(run.id), .help = "Id of the run"},
    {.name = "against",
     .type = RESULT_TEXT,
     .offset = FOUND(against.id),
     .absence = RESULT_NULL,
     .help = "Id of the run that it is held against"},
    {.name = "kind", .type = RESULT_TEXT, .offset = FOUND(run.kind), .help = "Of the run"},
    {.name = "checkpoint", .type = RESULT_TEXT, .offset = FOUND(run.checkpoint), .help = "Id of its checkpoint"},
    {.name = "dataset", .type = RESULT_CHARS, .offset = FOUND(dataset), .help = "Name of the evaluation's dataset"},
    {.name = "reference",
     .type = RESULT_CHOICE,
     .offset = FOUND(reference),
     .choices = reference_names,
     .help = "What losses are held against, and ranked by the difference to: the full precision of the same run, the "
             "run `against`, or nothing: then they are ranked by themselves"},
    {.name = "decode",
     .type = RESULT_CHOICE,
     .offset = FOUND(decode),
     .choices = worst_tokens_decodes,
     .help = "How ids became text"},
    {.name = "predictions", .type = RESULT_INTEGER, .offset = FOUND(predictions), .help = "Those that were ranked"},
    {.name = "items",
     .type = RESULT_LIST,
     .offset = FOUND(items),
     .count = FOUND(count),
     .item = &item,
     .help = "The worst first; one whose loss is not finite comes before all others"},
    {0},
};
const struct result_shape worst_tokens_shape = {.name = "WorstTokens", .fields = found_fields};

/* ---- The losses ---- */

static enum status losses_open(const struct run_context *context, struct compared_run *run, struct error *error)
{
    bool tokens = false;
    int64_t bytes = 0;
    enum status status = compared_run_open(context->connection, run, error);
    if (status == STATUS_OK) status = compared_run_find(context->connection, run, false, &tokens, &bytes, error);
    if (status != STATUS_OK) return status;
    run->id = json_string_value(json_object_get(run->document, "id"));
    if (!tokens)
        return error_set_at(error, STATUS_INVALID, run->pointer,
                            "left no losses of its tokens: post it again with \"per_token\": true");
    if (bytes <= READ_BYTES) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, run->pointer,
                        "left %" PRId64 " bytes of losses; at most %" PRId64 " are read for an answer: its artifacts "
                        "have them, or post it again with fewer sequences",
                        bytes, READ_BYTES);
}

static enum status losses_read(const struct run_context *context, struct compared_run *run, struct error *error)
{
    const enum status status = monitor_check(context->monitor, error);
    if (status != STATUS_OK) return status;
    return compared_run_read(context->connection, context->artifact_place, true, run, error);
}

static enum status runs_read(const struct run_context *context, struct worst_tokens *found, struct error *error)
{
    struct compared_run *run = &found->run, *against = found->against.id != NULL ? &found->against : NULL;
    enum status status = losses_open(context, run, error);
    if (status == STATUS_OK && against != NULL) status = losses_open(context, against, error);
    if (status == STATUS_OK && against != NULL) status = compared_runs_check(run, against, error);
    if (status == STATUS_OK) status = losses_read(context, run, error);
    if (status == STATUS_OK && against != NULL) status = losses_read(context, against, error);
    if (status != STATUS_OK) return status;
    const bool quantized = run->left == &losses_quantize;
    const struct compared_losses losses = compared_run_losses(run);
    found->predictions = compared_predictions(&losses);
    found->losses = run->tokens[quantized];
    found->kl = quantized ? run->tokens[2] : NULL;
    found->reference = against != NULL ? REFERENCE_RUN : quantized ? REFERENCE_FULL_PRECISION : REFERENCE_NOTHING;
    found->before = against != NULL ? against->tokens[quantized] : quantized ? run->tokens[0] : NULL;
    if (against == NULL) return STATUS_OK;
    const struct compared_losses others = compared_run_losses(against);
    return compared_predictions(&others) == found->predictions
               ? STATUS_OK
               : error_set_at(error, STATUS_CORRUPT, against->pointer, "the two runs left losses of other sequences");
}

/* ---- The tokens ---- */

/* Finds how the run read its evaluation. The caller resets *filled before it releases *own, because *filled lends from
 * it. */
static enum status use_find(const struct compared_run *run, json_t **own, struct schema_filled *filled,
                            struct error *error)
{
    const json_t *params = json_object_get(run->document, "params");
    const json_t *from = run->left == &losses_quantize ? json_object_get(params, "evaluation") : params;
    *own = json_object();
    for (const struct param *row = data_source_evaluation; row->name != NULL; row++) {
        json_t *value = json_object_get(from, row->name);
        if (value != NULL && json_object_set(*own, row->name, value) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    }
    return schema_fill(data_source_evaluation, sizeof(struct data_use), *own, "/params", NULL, filled, error);
}

/* Checks that the tokens are the ones that were measured; otherwise there is no answer. */
static enum status tokens_check(const struct worst_tokens *found, struct error *error)
{
    const struct compared_run *run = &found->run;
    const struct sequences *sequences = &found->sequences;
    const char *precision = json_string_value(json_object_get(json_object_get(run->document, "params"), "precision"));
    char protocol[PROTOCOL_TEXT];
    const enum status status =
        protocol_id(sequences, precision != NULL ? precision : inputs_precisions[PRECISION_F32], protocol, error);
    if (status != STATUS_OK) return status;
    if (strcmp(protocol, run->protocol) != 0)
        return error_set(
            error, STATUS_INPUT_CHANGED,
            "its dataset and tokenizer give other tokens today than those that were measured; post the run "
            "again with \"force\": true");
    if (sequences->count == run->table.sequences &&
        sequences->starts[sequences->count] - sequences->count == found->predictions)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "the losses that it left are of other sequences than its evaluation");
}

static enum status tokens_read(const struct run_context *context, struct worst_tokens *found, struct error *error)
{
    struct schema_filled filled = {0};
    json_t *own = NULL;
    enum status status = use_find(&found->run, &own, &filled, error);
    if (status == STATUS_OK) status = inputs_open(context, found->run.checkpoint, PRECISION_F32, &found->inputs, error);
    if (status == STATUS_OK)
        status =
            inputs_sequences(context, &found->inputs, filled.params, false, &found->sequences, found->dataset, error);
    if (status == STATUS_OK) status = tokens_check(found, error);
    schema_filled_reset(&filled);
    json_decref(own);
    return status;
}

/* Errors of the run's checkpoint or dataset are reported at /run. Retryable errors, cancellation and STATUS_TOO_LARGE
 * pass unchanged. */
static enum status blame(enum status status, struct error *error)
{
    const struct error cause = *error;
    if (status == STATUS_OK || status == STATUS_CANCELLED || status == STATUS_TOO_LARGE || status_info(status)->retry)
        return status;
    const bool gone = status == STATUS_NOT_FOUND;
    return error_set_at(error, gone ? STATUS_INVALID : status, "/run", "its tokens cannot be had: %s", cause.detail);
}

/* ---- Their text ---- */

static enum status tokenizer_find_for(struct worst_tokens *found, struct tokenizer **bytes,
                                      const struct tokenizer **out, struct error *error)
{
    *out = NULL;
    if (found->decode == WORST_TOKENS_IDS) return STATUS_OK;
    enum status status = found->decode == WORST_TOKENS_BYTES ? tokenizer_open_bytes(bytes, error)
                                                             : inputs_open_tokenizer(&found->inputs, error);
    if (status == STATUS_OK) *out = found->decode == WORST_TOKENS_BYTES ? *bytes : found->inputs.tokenizer;
    if (status == STATUS_OK || status_info(status)->retry) return status;
    const struct error cause = *error;
    if (status == STATUS_INVALID)
        return error_set_at(error, status, "/decode",
                            "the checkpoint has no tokenizer: give decode=bytes where ids are bytes, or decode=ids");
    return error_set_at(error, status, "/decode", "%s; decode=ids needs no tokenizer", cause.detail);
}

/* The index of a sequence's first prediction. */
static int64_t first_of(const struct sequences *sequences, int64_t sequence)
{
    return sequences->starts[sequence] - sequence;
}

static int64_t sequence_of(const struct sequences *sequences, int64_t place)
{
    int64_t low = 0, high = sequences->count - 1;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (first_of(sequences, middle) <= place)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void window_fill(const struct worst_tokens *found, struct worst_token *one)
{
    const struct sequences *sequences = &found->sequences;
    const int64_t start = sequences->starts[one->sequence], length = sequences->starts[one->sequence + 1] - start;
    const int64_t context = found->request->context, last = one->position + context;
    one->from = one->position > context ? one->position - context : 0;
    one->count = (last < length ? last + 1 : length) - one->from;
    for (int64_t i = 0; i < one->count; i++) {
        const int64_t position = one->from + i, place = start - one->sequence + position - 1;
        one->tokens[i] = sequences->tokens[start + position];
        one->losses[i] = position > 0 ? (double)found->losses[place] : NAN;
        one->reference_losses[i] = position > 0 && found->before != NULL ? (double)found->before[place] : NAN;
    }
}

static enum status item_fill(const struct worst_tokens *found, const struct tokenizer *tokenizer, int64_t place,
                             struct worst_token *one, struct error *error)
{
    const struct sequences *sequences = &found->sequences;
    one->sequence = sequence_of(sequences, place);
    one->position = place - first_of(sequences, one->sequence) + 1;
    window_fill(found, one);
    const int64_t at = one->position - one->from;
    one->token = one->tokens[at];
    one->loss = one->losses[at];
    one->reference_loss = one->reference_losses[at];
    one->difference = one->loss - one->reference_loss;
    one->kl = found->kl != NULL ? (double)found->kl[place] : NAN;
    if (tokenizer == NULL) return STATUS_OK;
    const uint32_t *ids = sequences->tokens + sequences->starts[one->sequence] + one->from;
    const enum status status = token_text_of(tokenizer, ids, one->count, at, &one->text, error);
    if (status != STATUS_INVALID) return status;
    const struct error cause = *error;
    return error_set_at(error, status, "/decode",
                        "%s: these ids are not of that kind; decode=ids gives them as they are", cause.detail);
}

static enum status items_fill(const struct run_context *context, struct worst_tokens *found, struct error *error)
{
    const int64_t limit = found->request->limit;
    const struct tokenizer *tokenizer = NULL;
    struct tokenizer *bytes = NULL;
    int64_t places[WORST_TOKENS_MOST];
    assert(limit <= WORST_TOKENS_MOST && found->request->context <= WORST_TOKENS_CONTEXT_MOST);
    enum status status = tokenizer_find_for(found, &bytes, &tokenizer, error);
    if (status == STATUS_OK) status = memory_new(limit, sizeof *found->items, "worst tokens", &found->items, error);
    if (status == STATUS_OK) {
        found->count = token_ranking(found->losses, found->before, found->predictions, limit, places);
        status = monitor_check(context->monitor, error);
    }
    for (int64_t i = 0; i < found->count && status == STATUS_OK; i++)
        status = item_fill(found, tokenizer, places[i], &found->items[i], error);
    tokenizer_close(bytes);
    return status;
}

enum status worst_tokens_find(const struct run_context *context, const struct worst_tokens_request *request,
                              struct worst_tokens **out, struct error *error)
{
    struct worst_tokens *found = calloc(1, sizeof *found);
    *out = NULL;
    if (found == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for worst tokens");
    found->run = (struct compared_run){.pointer = "/run", .id = request->run};
    found->against = (struct compared_run){.pointer = "/against", .id = request->against};
    found->request = request;
    found->decode = (int)request->decode;
    enum status status = runs_read(context, found, error);
    if (status == STATUS_OK) status = blame(tokens_read(context, found, error), error);
    if (status == STATUS_OK) status = items_fill(context, found, error);
    if (status == STATUS_OK)
        *out = found;
    else
        worst_tokens_free(found);
    return status;
}

void worst_tokens_free(struct worst_tokens *found)
{
    if (found == NULL) return;
    for (int64_t i = 0; i < found->count; i++) token_text_reset(&found->items[i].text);
    memory_free(found->items);
    dataset_sequences_free(&found->sequences);
    inputs_reset(&found->inputs);
    compared_run_reset(&found->run);
    compared_run_reset(&found->against);
    free(found);
}
