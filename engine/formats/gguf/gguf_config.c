#include "formats/gguf/gguf_config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 4096, KEY_SIZE = 128, DIVISORS_MAX = 512, LENGTH_MAX = 1 << 24 };

struct text {
    char bytes[TEXT_SIZE]; /* large enough for the few keys below */
    size_t used;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(text->bytes + text->used, TEXT_SIZE - text->used, format, arguments);
    va_end(arguments);
    text->used += (size_t)size;
    if (text->used >= TEXT_SIZE) text->used = TEXT_SIZE - 1;
}

/* "ARCHITECTURE.rest". */
static const char *key_of(const struct gguf *file, const char *rest, char key[KEY_SIZE])
{
    (void)snprintf(key, KEY_SIZE, "%.60s.%s", gguf_text(file, "general.architecture"), rest);
    return key;
}

bool gguf_config_integer(const struct gguf *file, const char *rest, int64_t *out)
{
    char key[KEY_SIZE];
    return gguf_integer(file, key_of(file, rest, key), out);
}

static int64_t integer(const struct gguf *file, const char *rest)
{
    int64_t value = 0;
    return gguf_config_integer(file, rest, &value) ? value : 0;
}

/* Finds a tensor in any of the files and sets *in to that file; NULL: there is none. */
static const struct gguf_tensor *find(struct gguf *const *files, int count, const char *name, const struct gguf **in)
{
    const struct gguf_tensor *found = NULL;
    for (int i = 0; i < count && found == NULL; i++)
        if ((found = gguf_find(files[i], name)) != NULL) *in = files[i];
    return found;
}

static double number(const struct gguf *file, const char *rest)
{
    char key[KEY_SIZE];
    double value = 0;
    return gguf_number(file, key_of(file, rest, key), &value) ? value : 0;
}

int64_t gguf_config_head_rows(const struct gguf *file)
{
    const int64_t length = integer(file, "attention.key_length"), heads = integer(file, "attention.head_count");
    const int64_t width = integer(file, "embedding_length");
    return length > 0 ? length : heads > 0 && width % heads == 0 ? width / heads : 0;
}

/* Metadata holds floats where config.json has decimals. Writes the shortest decimal that gives the same float. */
static void add_number(struct text *text, const char *key, double value)
{
    char decimal[40];
    if (!(value > 0)) return;
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(decimal, sizeof decimal, "%.*g", digits, value);
        if (strtof(decimal, NULL) == (float)value) break;
    }
    add(text, ", \"%s\": %s", key, decimal);
}

static void add_integer(struct text *text, const char *key, int64_t value)
{
    if (value > 0) add(text, ", \"%s\": %lld", key, (long long)value);
}

static void add_token(const struct gguf *file, struct text *text, const char *name, const char *key)
{
    int64_t id;
    if (gguf_integer(file, key, &id) && id >= 0 && id <= INT32_MAX) add(text, ", \"%s\": %lld", name, (long long)id);
}

/* A file that names no padding token has none, whatever the default of its architecture in a config.json. */
static void add_padding(const struct gguf *file, struct text *text)
{
    static const char key[] = "tokenizer.ggml.padding_token_id";
    int64_t id;
    if (gguf_integer(file, key, &id))
        add_token(file, text, "pad_token_id", key);
    else
        add(text, ", \"pad_token_id\": null");
}

/* Divisor of frequency j under llama3's scaling. */
static double llama3_divisor(double theta, int64_t j, int64_t count, double factor, double length)
{
    const double frequency = pow(theta, -(double)j / (double)count), turns = length * frequency / 6.283185307179586;
    const double share =
        fmin(1.0, fmax(0.0, (turns - 1) / 3)); /* low_freq_factor 1, high_freq_factor 4 in every published model */
    return 1 / ((1 - share) / factor + share);
}

/* GGUF stores the divisor of each frequency under llama3 scaling, not the parameters of the scaling. The factor is the
 * largest divisor; the original length is the one of those in use that reproduces all divisors. */
static enum status add_divisors(const struct gguf *file, const struct gguf_tensor *tensor, double theta,
                                struct text *text, struct error *error)
{
    float divisors[DIVISORS_MAX];
    double largest = 1;
    enum status status;
    if (!(theta > 0)) theta = 10000;
    if (tensor->rank != 1 || tensor->elements > DIVISORS_MAX)
        return error_set(error, STATUS_INVALID, "%s: \"%s\" has an impossible shape", file_name(gguf_file(file)),
                         tensor->name);
    if ((status = gguf_read_f32(file, tensor, 0, tensor->elements, divisors, error)) != STATUS_OK) return status;
    for (int64_t j = 0; j < tensor->elements; j++) largest = fmax(largest, (double)divisors[j]);
    for (double length = 1; length <= LENGTH_MAX; length *= 2) {
        bool same = true;
        for (int64_t j = 0; j < tensor->elements && same; j++) {
            const double expected = llama3_divisor(theta, j, tensor->elements, largest, length);
            same = fabs((double)divisors[j] - expected) <= 1e-4 * expected;
        }
        if (!same) continue;
        if (largest > 1)
            add(text,
                ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.9g, \"low_freq_factor\": 1.0,"
                " \"high_freq_factor\": 4.0, "
                "\"original_max_position_embeddings\": %.0f}",
                largest, length);
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: \"%s\" scales rotary frequencies in no way that deltaq knows; register the checkpoint as safetensors",
        file_name(gguf_file(file)), tensor->name);
}

static enum status add_scaling(struct gguf *const *files, int count, struct text *text, struct error *error)
{
    char key[KEY_SIZE];
    const struct gguf *file = files[0], *in = NULL;
    const char *type = gguf_text(file, key_of(file, "rope.scaling.type", key));
    const struct gguf_tensor *divisors = find(files, count, GGUF_CONFIG_ROPE_TENSOR, &in);
    if (divisors != NULL) return add_divisors(in, divisors, number(file, "rope.freq_base"), text, error);
    double factor = number(file, "rope.scaling.factor");
    if (type == NULL && !(factor > 0)) factor = number(file, "rope.scale_linear");
    if (type == NULL && !(factor > 0)) return STATUS_OK;
    if (type != NULL && strcmp(type, "none") == 0) return STATUS_OK;
    if (type != NULL && strcmp(type, "linear") != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope scaling \"%.40s\" is not supported; supported are none, linear, llama3",
                         file_name(gguf_file(file)), type);
    add(text, ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %.9g}", factor);
    return STATUS_OK;
}

/* olmoe does not normalize the weights of a token's experts; llama.cpp's olmoe knows no other way. */
static void add_experts(const struct gguf *file, struct text *text)
{
    add_integer(text, "num_experts", integer(file, "expert_count"));
    add_integer(text, "num_experts_per_tok", integer(file, "expert_used_count"));
    add(text, ", \"norm_topk_prob\": false");
    add_number(text, "clip_qkv", number(file, "attention.clamp_kqv"));
}

/* llama.cpp stores OLMo 3 as olmo2 with a window and, for each layer, whether it has that window. olmo2 has none here,
 * so the window would be dropped without a word. Of the architectures that are read, those below have one. */
static enum status check_window(const struct gguf *file, const char *architecture, int64_t window, struct error *error)
{
    static const char *const windowed[] = {"llama", "qwen2", "qwen3", "smollm3"};
    struct gguf_array pattern;
    char key[KEY_SIZE];
    for (size_t i = 0; i < sizeof windowed / sizeof windowed[0]; i++)
        if (strcmp(windowed[i], architecture) == 0) return STATUS_OK;
    if (window <= 0 && !gguf_array(file, key_of(file, "attention.sliding_window_pattern", key), &pattern))
        return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: has layers with a sliding window, which deltaq does not read for %.40s; a GGUF file of OLMo 3, "
        "which is stored as olmo2, is not supported",
        file_name(gguf_file(file)), architecture);
}

enum status gguf_config_text(struct gguf *const *files, int count, char **out, struct error *error)
{
    struct text text = {.used = 0};
    const struct gguf *file = files[0], *in = NULL;
    const char *architecture = gguf_text(file, "general.architecture");
    const bool experts = strcmp(architecture, "olmoe") == 0;
    const int64_t head = gguf_config_head_rows(file), rotary = integer(file, "rope.dimension_count");
    const int64_t window = integer(file, "attention.sliding_window");
    const struct gguf_tensor *embedding = find(files, count, "token_embd.weight", &in);
    *out = NULL;
    if (integer(file, "expert_count") > 0 && !experts)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: a mixture of experts is read from GGUF only of olmoe, not of %.40s; register it as safetensors",
            file_name(gguf_file(file)), architecture);
    enum status status = check_window(file, architecture, window, error);
    if (status != STATUS_OK) return status;
    /* Mistral's models are stored as llama with a sliding window, which Llama does not have. */
    add(&text, "{\"model_type\": \"%.40s\"",
        window > 0 && strcmp(architecture, "llama") == 0 ? "mistral" : architecture);
    add_integer(&text, "vocab_size", embedding != NULL ? embedding->shape[0] : 0);
    add_integer(&text, "hidden_size", integer(file, "embedding_length"));
    add_integer(&text, "intermediate_size", integer(file, "feed_forward_length"));
    add_integer(&text, "num_hidden_layers", integer(file, "block_count"));
    add_integer(&text, "num_attention_heads", integer(file, "attention.head_count"));
    add_integer(&text, "num_key_value_heads", integer(file, "attention.head_count_kv"));
    add_integer(&text, "head_dim", head);
    add_integer(&text, "max_position_embeddings", integer(file, "context_length"));
    add_number(&text, "rms_norm_eps", number(file, "attention.layer_norm_rms_epsilon"));
    add_number(&text, "rope_theta", number(file, "rope.freq_base"));
    if (rotary > 0 && head > 0 && rotary != head)
        add_number(&text, "partial_rotary_factor", (double)rotary / (double)head);
    if (window > 0) add(&text, ", \"sliding_window\": %lld, \"use_sliding_window\": true", (long long)window);
    add(&text, ", \"tie_word_embeddings\": %s", find(files, count, "output.weight", &in) != NULL ? "false" : "true");
    if (experts) add_experts(file, &text);
    add_token(file, &text, "bos_token_id", "tokenizer.ggml.bos_token_id");
    add_token(file, &text, "eos_token_id", "tokenizer.ggml.eos_token_id");
    add_padding(file, &text);
    if ((status = add_scaling(files, count, &text, error)) != STATUS_OK) return status;
    add(&text, "}");
    *out = strdup(text.bytes);
    return *out != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "cannot allocate a configuration");
}
