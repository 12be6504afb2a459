#include "model/recognise.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "model/architecture.h"
#include "model/config_text.h"
#include "model/model.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXTS_MAX = 5, LIMIT = 4 << 20, NAME_SIZE = 128, SHOWN_SIZE = 512 };

/* The configurations that describe a checkpoint, the most important first. */
struct said {
    struct config_text texts[TEXTS_MAX];
    int count;
    char *file; /* owned: config.json */
};

/* The keys that tell the architecture. */
struct hints {
    char model_type[64];
    char class_name[64];         /* the first of "architectures" */
    bool no_rope_layers, window; /* keys that stand there with a value */
};

/* ---- What is said ---- */

static void said_add(struct said *said, const char *name, const char *text, size_t size)
{
    if (text != NULL) said->texts[said->count++] = (struct config_text){name, text, size};
}

static enum status said_read(const struct weights *weights, struct said *said, struct error *error)
{
    char path[PATH_MAX];
    size_t size = 0;
    const char *given = weights_given_config(weights), *own = weights_config(weights);
    *said = (struct said){.count = 0};
    if (snprintf(path, sizeof path, "%s/config.json", weights_directory(weights)) >= (int)sizeof path)
        return error_set(error, STATUS_INVALID, "the path of config.json is too long");
    const enum status status = file_read_all(AT_FDCWD, path, LIMIT, &said->file, &size, error);
    if (status != STATUS_OK && (status != STATUS_NOT_FOUND || (given == NULL && own == NULL))) return status;
    if (given != NULL) said_add(said, "source.config", given, strlen(given));
    said_add(said, "config.json", said->file, size);
    if (own != NULL) said_add(said, "the file's metadata", own, strlen(own));
    return STATUS_OK;
}

static enum status hints_read(const struct said *said, struct hints *out, struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct json_reader reader;
    struct json_reader_text key;
    char *text = NULL;
    size_t size = 0;
    *out = (struct hints){.window = false};
    enum status status = config_text_merge(said->texts, said->count, &text, &size, error);
    if (status != STATUS_OK) return status;
    json_reader_init(&reader, said->texts[0].name, text, size, &options, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_null(&reader)) continue;
        if (json_reader_is(key, "model_type"))
            json_reader_string_copy(&reader, out->model_type, sizeof out->model_type);
        out->no_rope_layers |= json_reader_is(key, "no_rope_layers") || json_reader_is(key, "no_rope_layer_interval");
        out->window |= json_reader_is(key, "sliding_window");
        if (!json_reader_is(key, "architectures") || json_reader_peek(&reader) != JSON_READER_ARRAY) continue;
        json_reader_array(&reader);
        for (bool first = true; json_reader_next_item(&reader); first = false)
            if (first && json_reader_peek(&reader) == JSON_READER_STRING)
                json_reader_string_copy(&reader, out->class_name, sizeof out->class_name);
    }
    status = json_reader_finish(&reader);
    memory_free(text);
    return status;
}

/* ---- What the tensors show ---- */

/* The tensor `name` (with %d: of layer `layer`) and `ending`; false when it is not there. */
static bool tensor_find(const struct weights *weights, const char *name, int layer, const char *ending,
                        struct weights_tensor *out)
{
    char full[NAME_SIZE];
    const char *mark = name == NULL ? NULL : strstr(name, "%d");
    if (name == NULL) return false;
    if (mark != NULL)
        (void)snprintf(full, sizeof full, "%.*s%d%s%s", (int)(mark - name), name, layer, mark + 2, ending);
    else
        (void)snprintf(full, sizeof full, "%s%s", name, ending);
    char *expert = strstr(full, "%d");
    if (expert != NULL) { /* the first one stands for all */
        *expert = '0';
        memmove(expert + 1, expert + 2, strlen(expert + 2) + 1);
    }
    const int64_t index = weights_find(weights, full);
    if (index >= 0) weights_tensor(weights, index, out);
    return index >= 0;
}

/* Some files leave out the prefix that others give to every name. */
static bool role_find(const struct weights *weights, const struct architecture *row, enum role role, int layer,
                      const char *ending, struct weights_tensor *out)
{
    const char *name = row->names[role];
    const size_t prefix = row->prefix == NULL ? 0 : strlen(row->prefix);
    if (tensor_find(weights, name, layer, ending, out)) return true;
    return name != NULL && prefix > 0 && strncmp(name, row->prefix, prefix) == 0 &&
           tensor_find(weights, name + prefix, layer, ending, out);
}

static int layers_count(const struct weights *weights, const struct architecture *row)
{
    struct weights_tensor tensor;
    for (int role = 0; role < ROLE_COUNT; role++) {
        int layers = 0;
        if (row->names[role] == NULL || strstr(row->names[role], "%d") == NULL) continue;
        while (layers <= CONFIG_LAYERS_MAX && role_find(weights, row, (enum role)role, layers, ".weight", &tensor))
            layers++;
        if (layers > 0) return layers;
    }
    return 0;
}

struct text {
    char bytes[SHOWN_SIZE]; /* the few numbers below never fill it */
    size_t used;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(text->bytes + text->used, SHOWN_SIZE - text->used, format, arguments);
    va_end(arguments);
    text->used += (size_t)size;
}

/* Settings of a state space model. The tensors of mamba2 show only the product of groups and states, so these two must
 * come from the configuration. */
static void state_space_shown(const struct weights *weights, const struct architecture *row, int64_t width,
                              struct text *out)
{
    struct weights_tensor tensor, bias;
    const bool heads = row->block == BLOCK_MAMBA2;
    if (role_find(weights, row, ROLE_STATE_OUTPUT, 0, ".weight", &tensor))
        add(out, ", \"expand\": %.17g", (double)(tensor.elements / width) / (double)width);
    if (role_find(weights, row, ROLE_STATE_CONVOLUTION, 0, ".weight", &tensor) && tensor.rank == 3)
        add(out, ", \"conv_kernel\": %lld, \"use_conv_bias\": %s", (long long)tensor.shape[2],
            role_find(weights, row, ROLE_STATE_CONVOLUTION, 0, ".bias", &bias) ? "true" : "false");
    if (role_find(weights, row, ROLE_STATE_DECAY, 0, "", &tensor) && tensor.rank == (heads ? 1 : 2))
        add(out, ", \"%s\": %lld", heads ? "num_heads" : "state_size", (long long)tensor.shape[tensor.rank - 1]);
    if (role_find(weights, row, ROLE_STATE_STEP, 0, ".weight", &tensor) && tensor.rank == 2)
        add(out, ", \"time_step_rank\": %lld", (long long)tensor.shape[1]);
    add(out, ", \"use_bias\": %s", role_find(weights, row, ROLE_STATE_INPUT, 0, ".bias", &bias) ? "true" : "false");
}

/* Whether the first block has the tensor that only blocks of the row's kind have. */
static bool block_shown(const struct weights *weights, const struct architecture *row)
{
    struct weights_tensor tensor;
    if (row->block == BLOCK_ATTENTION) return true;
    const enum role role = row->block == BLOCK_MAMBA2 ? ROLE_STATE_GATED_NORM : ROLE_STATE_SELECTION;
    return role_find(weights, row, role, 0, ".weight", &tensor);
}

/* The sizes of the embedding and the number of layers. False when there is no embedding or no layer, or when a block is
 * another one than the row's. */
static bool sizes_shown(const struct weights *weights, const struct architecture *row, int64_t *width, struct text *out)
{
    struct weights_tensor tensor, other;
    const int layers = layers_count(weights, row);
    if (!role_find(weights, row, ROLE_EMBEDDING, 0, ".weight", &tensor) &&
        !tensor_find(weights, row->embedding_alias, 0, ".weight", &tensor))
        return false;
    if (tensor.rank != 2 || tensor.shape[1] < 1 || layers == 0 || !block_shown(weights, row)) return false;
    const bool projects = role_find(weights, row, ROLE_PROJECT_IN, 0, ".weight", &other) && other.rank == 2;
    *width = projects ? other.shape[0] : tensor.shape[1];
    if (*width < 1) return false;
    add(out, "{\"vocab_size\": %lld, \"hidden_size\": %lld, \"num_hidden_layers\": %d", (long long)tensor.shape[0],
        (long long)*width, layers);
    if (projects) add(out, ", \"word_embed_proj_dim\": %lld", (long long)tensor.shape[1]);
    if (role_find(weights, row, ROLE_POSITIONS, 0, ".weight", &tensor) && tensor.rank == 2)
        add(out, ", \"max_position_embeddings\": %lld", (long long)(tensor.shape[0] - row->position_offset));
    return true;
}

static void attention_shown(const struct weights *weights, const struct architecture *row, int64_t width,
                            struct text *out)
{
    struct weights_tensor tensor, norm;
    const enum role query = row->names[ROLE_QUERY] != NULL ? ROLE_QUERY : ROLE_QUERY_KEY_VALUE;
    if (row->query_key_norm == QUERY_KEY_NORM_HEAD && role_find(weights, row, ROLE_QUERY_NORM, 0, ".weight", &norm) &&
        norm.elements > 0 && role_find(weights, row, ROLE_QUERY, 0, ".weight", &tensor)) {
        add(out, ", \"head_dim\": %lld, \"num_attention_heads\": %lld", (long long)norm.elements,
            (long long)(tensor.elements / width / norm.elements));
        if (role_find(weights, row, ROLE_KEY, 0, ".weight", &tensor))
            add(out, ", \"num_key_value_heads\": %lld", (long long)(tensor.elements / width / norm.elements));
    }
    if (row->block == BLOCK_ATTENTION && role_find(weights, row, query, 0, ".weight", &tensor))
        add(out, ", \"attention_bias\": %s", role_find(weights, row, query, 0, ".bias", &tensor) ? "true" : "false");
}

static void mlp_sizes_shown(const struct weights *weights, const struct architecture *row, int64_t width,
                            struct text *out)
{
    struct weights_tensor tensor;
    if (role_find(weights, row, ROLE_UP, 0, ".weight", &tensor))
        add(out, ", \"intermediate_size\": %lld", (long long)(tensor.elements / width));
    if (role_find(weights, row, ROLE_ROUTER, 0, ".weight", &tensor) && tensor.rank == 2)
        add(out, ", \"num_experts\": %lld", (long long)tensor.shape[0]);
}

/* The settings that tensors with the names of `row` show, as members of a config.json. False when they do not show a
 * model of this row. */
static bool shown(const struct weights *weights, const struct architecture *row, struct text *out)
{
    struct weights_tensor tensor;
    int64_t width = 0;
    *out = (struct text){.used = 0};
    if (!sizes_shown(weights, row, &width, out)) return false;
    mlp_sizes_shown(weights, row, width, out);
    attention_shown(weights, row, width, out);
    if (role_find(weights, row, ROLE_UP, 0, ".weight", &tensor))
        add(out, ", \"mlp_bias\": %s", role_find(weights, row, ROLE_UP, 0, ".bias", &tensor) ? "true" : "false");
    if (row->block != BLOCK_ATTENTION) state_space_shown(weights, row, width, out);
    if (!role_find(weights, row, ROLE_OUTPUT, 0, ".weight", &tensor) &&
        !tensor_find(weights, row->output_alias, 0, ".weight", &tensor))
        add(out, ", \"tie_word_embeddings\": true");
    add(out, "}");
    return true;
}

/* ---- The choice ---- */

/* The text of all configurations together, for the architecture of this row. `named`: a configuration names the
 * architecture. */
static enum status text_as(const struct weights *weights, const struct said *said, const struct architecture *row,
                           bool named, char **out, size_t *size, struct error *error)
{
    struct said all = {.count = 0};
    struct text tensors;
    char type[NAME_SIZE];
    (void)snprintf(type, sizeof type, "{\"model_type\": \"%s\"}", row->model_type);
    if (!named) said_add(&all, "the architecture", type, strlen(type));
    for (int i = 0; i < said->count; i++) said_add(&all, said->texts[i].name, said->texts[i].text, said->texts[i].size);
    if (shown(weights, row, &tensors)) said_add(&all, "the tensors", tensors.bytes, tensors.used);
    return config_text_merge(all.texts, all.count, out, size, error);
}

static const char *said_name(const struct said *said)
{
    for (int i = 0; i < said->count; i++)
        if (strcmp(said->texts[i].name, "config.json") == 0) return said->texts[i].name;
    return said->texts[0].name;
}

static enum status fits(const struct weights *weights, const struct said *said, const struct architecture *row,
                        struct error *error)
{
    struct model_config config;
    char *text = NULL;
    size_t size = 0;
    enum status status = text_as(weights, said, row, false, &text, &size, error);
    if (status == STATUS_OK) status = config_parse(said_name(said), text, size, &config, error);
    memory_free(text);
    return status == STATUS_OK ? model_fits(weights, &config, error) : status;
}

/* "GPTNeoXForCausalLM" is "gpt_neox". */
static bool class_is(const char *class_name, const char *model_type)
{
    size_t at = 0;
    for (const char *letter = model_type; *letter != '\0'; letter++) {
        if (*letter == '_') continue;
        if (tolower((unsigned char)class_name[at]) != *letter) return false;
        at++;
    }
    return strncmp(class_name + at, "For", 3) == 0 || strncmp(class_name + at, "LM", 2) == 0 ||
           strcmp(class_name + at, "Model") == 0;
}

/* The architecture that a configuration names and that `row` is not; NULL: there is none. */
static const char *other_name(const struct hints *hints, const struct architecture *row)
{
    if (hints->model_type[0] != '\0') return hints->model_type;
    return hints->class_name[0] != '\0' && !class_is(hints->class_name, row->model_type) ? hints->class_name : NULL;
}

static bool hinted(const struct hints *hints, const struct architecture *row)
{
    if (hints->class_name[0] != '\0' && class_is(hints->class_name, row->model_type)) return true;
    if (hints->no_rope_layers) return row->no_rope_interval > 0;
    return hints->window && row->window == WINDOW_ALWAYS;
}

/* What is found when every row is tried. */
struct trial {
    const struct architecture *first, *told; /* that fit: the first, and the first that the hints are for */
    const struct architecture *alike;        /* has such tensors, but does not fit, for this reason */
    struct error reason;
};

static enum status trial_row(const struct weights *weights, const struct said *said, const struct hints *hints,
                             const struct architecture *row, struct trial *trial, struct error *error)
{
    struct text tensors;
    struct error reason;
    if (!shown(weights, row, &tensors)) return STATUS_OK;
    const enum status status = fits(weights, said, row, &reason);
    if (status == STATUS_NO_MEMORY || status == STATUS_MALFORMED) {
        *error = reason;
        return status;
    }
    if (status == STATUS_OK) {
        if (trial->first == NULL) trial->first = row;
        if (trial->told == NULL && hinted(hints, row)) trial->told = row;
    } else if (trial->alike == NULL || hinted(hints, row)) {
        trial->alike = row;
        trial->reason = reason;
    }
    return STATUS_OK;
}

static enum status choose(const struct weights *weights, const struct said *said, const struct hints *hints,
                          const struct architecture **out, struct error *error)
{
    struct trial trial = {.first = NULL};
    const struct architecture *row;
    char supported[256];
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && (row = architecture_at(i)) != NULL; i++)
        status = trial_row(weights, said, hints, row, &trial, error);
    if (status != STATUS_OK) return status;
    *out = trial.told != NULL ? trial.told : trial.first;
    const struct architecture *nearest = *out != NULL ? *out : trial.alike;
    if (nearest == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s: architecture \"%.40s\" is not supported; supported are %s",
                         said_name(said), hints->model_type, architecture_list(supported, sizeof supported));
    /* An unknown name may stand for other equations over the same tensors; only its owner can say that it does not. */
    const char *other = other_name(hints, nearest);
    if (other != NULL)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: architecture \"%.40s\" is not supported; its tensors are named as those of %s: if it computes the"
            " same, "
            "give {\"model_type\": \"%s\"} as source.config",
            said_name(said), other, nearest->model_type, nearest->model_type);
    if (*out != NULL) return STATUS_OK;
    return error_set(error, trial.reason.status,
                     "no architecture is named; the tensors are named as those of %s, but %.300s", nearest->model_type,
                     trial.reason.detail);
}

/* The name is for messages, lent from `said`. */
static enum status complete(const struct weights *weights, struct said *said, char **out, size_t *size,
                            struct error *error)
{
    struct hints hints;
    enum status status = said_read(weights, said, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(
            error, STATUS_INVALID,
            "config.json is not beside the weights: put it there, or give it as source.config when registering");
    if (status == STATUS_OK) status = hints_read(said, &hints, error);
    if (status != STATUS_OK) return status;
    const struct architecture *row = architecture_find(hints.model_type);
    const bool named = row != NULL;
    if (!named && (status = choose(weights, said, &hints, &row, error)) != STATUS_OK) return status;
    return text_as(weights, said, row, named, out, size, error);
}

enum status recognise_text(const struct weights *weights, char **out, size_t *size, struct error *error)
{
    struct said said;
    *out = NULL;
    *size = 0;
    const enum status status = complete(weights, &said, out, size, error);
    memory_free(said.file);
    return status;
}

enum status recognise_config(const struct weights *weights, struct model_config *out, struct error *error)
{
    struct said said;
    char *text = NULL;
    size_t size = 0;
    enum status status = complete(weights, &said, &text, &size, error);
    if (status == STATUS_OK) status = config_parse(said_name(&said), text, size, out, error);
    memory_free(text);
    memory_free(said.file);
    return status;
}
