#include "model/config_keys.h"

#include "base/utf8.h"
#include "base/words.h"
#include "files/json_reader.h"
#include "model/config_raw.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 90 }; /* bytes of a key in a message */

/* What the files that Transformers writes have besides, without effect here. */
static const char *const idle[] = {
    "architectures",
    "auto_map",
    "chunk_size",
    "cls_token_id",
    "decoder_start_token_id",
    "dtype",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "reorder_and_upcast_attn",
    "residual_in_fp32",
    "return_dict",
    "router_aux_loss_coef",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_mambapy",
};

/* Training has no dropout. */
static const char *const dropouts[] = {
    "activation_dropout", "attention_dropout", "attn_pdrop",    "classifier_dropout", "dropout",          "embd_pdrop",
    "hidden_dropout",     "layerdrop",         "resid_dropout", "resid_pdrop",        "residual_dropout",
};

static bool listed(struct json_reader_text key, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (json_reader_is(key, list[i])) return true;
    return false;
}

typedef const char *known_keys(size_t index);

static bool is_read(struct json_reader_text key, known_keys *keys)
{
    const char *known;
    for (size_t i = 0; (known = keys(i)) != NULL; i++)
        if (json_reader_is(key, known)) return true;
    return false;
}

static const char *nearest(const char *key, known_keys *keys)
{
    struct words_meant meant = {.given = key, .below = strlen(key) / 3 + 1};
    const char *known;
    for (size_t i = 0; (known = keys(i)) != NULL; i++) words_consider(&meant, known);
    return meant.found;
}

/* Blames `pointer`/KEY; a key that would have to be escaped there blames the whole. */
static enum status blame(const char *pointer, const char *key, enum status status, struct error *error)
{
    const bool plain = strpbrk(key, "~/") == NULL;
    (void)snprintf(error->pointer, sizeof error->pointer, "%s%s%s", pointer, plain ? "/" : "", plain ? key : "");
    return status;
}

static enum status refuse(const char *name, const char *key, known_keys *keys, struct error *error)
{
    const char *meant = nearest(key, keys);
    if (meant == NULL)
        return error_set(error, STATUS_INVALID, "\"%s\" is no key that a %s has here: leave it out", key, name);
    return error_set(error, STATUS_INVALID, "\"%s\" is no key that a %s has here; did you mean \"%s\"?", key, name,
                     meant);
}

static enum status check_dropout(struct json_reader *reader, struct error *error)
{
    double value = 0;
    if (json_reader_null(reader) || !json_reader_double(reader, &value) || !(value > 0 || value < 0)) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "training has no dropout: give 0, or leave it out");
}

/* A copy of a key for messages. */
static void show(struct json_reader_text key, char own[SHOWN])
{
    (void)snprintf(own, SHOWN, "%.*s", (int)(key.size < SHOWN ? key.size : SHOWN - 1), key.bytes);
    utf8_repair(own);
}

/* The settings of a rotation, in the object `key`. */
static enum status check_rope(const char *pointer, const char *key, struct json_reader *reader, struct error *error)
{
    struct json_reader_text inner;
    char own[SHOWN], outer[sizeof error->pointer - SHOWN];
    if (json_reader_peek(reader) != JSON_READER_OBJECT) return STATUS_OK;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &inner)) {
        if (is_read(inner, config_raw_rope_key)) continue;
        show(inner, own);
        (void)snprintf(outer, sizeof outer, "%s/%.15s", pointer, key);
        const enum status status = refuse(key, own, config_raw_rope_key, error);
        return blame(outer, own, status, error);
    }
    return STATUS_OK;
}

static bool is_rope(struct json_reader_text key)
{
    return json_reader_is(key, "rope_scaling") || json_reader_is(key, "rope_parameters");
}

enum status config_keys_check(const char *name, const char *pointer, const char *text, size_t size, struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct error unread;
    struct json_reader reader;
    struct json_reader_text key;
    enum status status = STATUS_OK;
    json_reader_init(&reader, name, text, size, &options, &unread);
    json_reader_object(&reader);
    while (status == STATUS_OK && json_reader_next_key(&reader, &key)) {
        char own[SHOWN];
        show(key, own);
        if (is_rope(key)) {
            status = check_rope(pointer, own, &reader, error);
            continue;
        }
        if (listed(key, dropouts, sizeof dropouts / sizeof dropouts[0]))
            status = check_dropout(&reader, error);
        else if (!is_read(key, config_raw_key) && own[0] != '_' && !listed(key, idle, sizeof idle / sizeof idle[0]))
            status = refuse(name, own, config_raw_key, error);
        if (status != STATUS_OK) status = blame(pointer, own, status, error);
    }
    const enum status ended = json_reader_finish(&reader);
    if (status != STATUS_OK) return status;
    if (ended != STATUS_OK) *error = unread;
    return ended;
}
