/* Containers of weights, tokenizers and datasets: read, and written. */
#include "faults.h"
#include "scenario.h"

#include "base/memory.h"
#include "dataset/dataset.h"
#include "engine/formats/pytorch/archive.h"
#include "engine/formats/pytorch/pickles.h"
#include "engine/jobs/tiny_model.h"
#include "engine/tokenizer/tokenizers.h"
#include "formats/gguf/gguf_writer.h"
#include "model/model.h"
#include "tokenizer/tokenizer_gguf_writer.h"
#include "tokenizer/tokenizer_stream.h"
#include "tokenizer/tokenizer_train.h"
#include "weights/weights.h"

#define READS  (1U << FAULT_MEMORY | 1U << FAULT_READING)
#define WRITES (READS | 1U << FAULT_WRITING | 1U << FAULT_FULL)

static const char words[] =
    "the cat sat on the mat, and the cat sat still. 12 cats\nsat 12 times on 12 mats \xc3\xa9.\n";

/* ---- weights ---- */

static const char two_rows[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 20, \"hidden_size\": 32, \"num_attention_heads\": 2,"
    " \"num_hidden_layers\": 1, \"intermediate_size\": 32, \"max_position_embeddings\": 24}";

static struct scratch checkpoint; /* of this process */

static void prepare_checkpoint(struct room *room)
{
    scenario_require(setenv("TMPDIR", room->inputs, 1) == 0, "TMPDIR", NULL);
    tiny_write(&checkpoint, two_rows, (struct tiny_change){0});
}

static enum status read_weights(const char *path, struct checksum *sum, struct error *error)
{
    struct weights *weights = NULL;
    float values[64];
    enum status status = weights_open(path, &weights, error);
    for (int64_t i = 0; status == STATUS_OK && i < weights_count(weights); i++) {
        struct weights_tensor tensor;
        weights_tensor(weights, i, &tensor);
        checksum_add(sum, tensor.name, strlen(tensor.name));
        const int64_t count = tensor.elements < 64 ? tensor.elements : 64;
        status = weights_read_f32(weights, i, tensor.elements - count, count, values, error);
        if (status == STATUS_OK) checksum_add(sum, values, (size_t)count * sizeof *values);
    }
    if (status == STATUS_OK) status = weights_check_unchanged(weights, error);
    weights_close(weights);
    return status;
}

static enum status run_safetensors(const struct room *room, struct checksum *sum, struct error *error)
{
    (void)room;
    return read_weights(checkpoint.directory, sum, error);
}

static enum status run_model(const struct room *room, struct checksum *sum, struct error *error)
{
    struct model *model = NULL;
    (void)room;
    const enum status status = model_open(checkpoint.directory, &model, error);
    if (status == STATUS_OK) checksum_add(sum, &model->config.hidden_size, sizeof model->config.hidden_size);
    model_close(model);
    return status;
}

/* The one file as a shard, with an index. */
static void prepare_shards(struct room *room)
{
    char from[SCENARIO_PATH], to[SCENARIO_PATH];
    struct weights *weights = NULL;
    struct error error;
    struct buffer text = {0};
    prepare_checkpoint(room);
    scenario_require(weights_open(checkpoint.directory, &weights, &error) == STATUS_OK, "weights", &error);
    buffer_puts(&text, "{\"metadata\": {}, \"weight_map\": {");
    for (int64_t i = 0; i < weights_count(weights); i++) {
        struct weights_tensor tensor;
        weights_tensor(weights, i, &tensor);
        buffer_printf(&text, "%s\"%s\": \"model-00001-of-00001.safetensors\"", i > 0 ? ", " : "", tensor.name);
    }
    buffer_puts(&text, "}}");
    weights_close(weights);
    (void)scenario_path(from, checkpoint.directory, "model.safetensors");
    (void)scenario_path(to, checkpoint.directory, "model-00001-of-00001.safetensors");
    scenario_require(rename(from, to) == 0, "shard", NULL);
    scenario_write(checkpoint.directory, "model.safetensors.index.json", text.bytes, text.length);
    buffer_reset(&text);
}

static void prepare_pickle(struct room *room)
{
    static const char pickle[] = DICT_OF(TENSOR);
    struct archive *archive = calloc(1, sizeof *archive);
    scenario_require(archive != NULL, "archive", NULL);
    archive_of_pickle(archive, pickle, sizeof pickle - 1);
    scenario_write(room->inputs, "model.pt", archive->bytes, archive->size);
    free(archive);
}

static enum status run_pickle(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    return read_weights(scenario_path(path, room->inputs, "model.pt"), sum, error);
}

static enum status write_safetensors(const char *path, struct checksum *sum, struct error *error)
{
    static const int64_t shape[2] = {4, 16};
    static const struct safetensors_entry entries[] = {{"a", DTYPE_F32, 2, shape}, {"b", DTYPE_BF16, 2, shape}};
    float values[64];
    struct safetensors_writer *writer = NULL;
    for (int i = 0; i < 64; i++) values[i] = (float)i;
    enum status status = safetensors_writer_open(path, entries, 2, &writer, error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) status = safetensors_writer_f32(writer, i, values, 64, error);
    if (status == STATUS_OK) status = safetensors_writer_commit(writer, error);
    safetensors_writer_close(writer);
    if (status == STATUS_OK) scenario_add_file(sum, path);
    return status;
}

static enum status run_write_safetensors(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    return write_safetensors(scenario_path(path, room->outputs, "model.safetensors"), sum, error);
}

/* ---- tokenizers ---- */

static char json[4096];

static void prepare_letters(struct room *room)
{
    (void)tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(13, "<s>"), NULL, TOKENIZERS_BYTE_LEVEL, NULL, NULL,
                          TOKENIZERS_LETTERS);
    scenario_write(room->inputs, "tokenizer.json", json, strlen(json));
}

static void prepare_sentencepiece(struct room *room)
{
    (void)tokenizers_json(json, sizeof json, TOKENIZERS_ADDED(1, "<s>"), TOKENIZERS_DUMMY_PREFIX, NULL, TOKENIZERS_BOS,
                          TOKENIZERS_UNFUSE, TOKENIZERS_BYTE_FALLBACK);
    scenario_write(room->inputs, "tokenizer.json", json, strlen(json));
}

static enum status use_tokenizer(const struct tokenizer *tokenizer, struct checksum *sum, struct error *error)
{
    static const char text[] = "ab 12ab^^^^<s>aab ab";
    struct token_list list = {0};
    struct tokenizer_stream *stream = NULL;
    char *decoded = NULL;
    size_t bytes = 0;
    enum status status = tokenizer_encode(tokenizer, text, sizeof text - 1, true, &list, error);
    if (status == STATUS_OK) status = tokenizer_stream_open(tokenizer, &stream, error);
    if (status == STATUS_OK) status = tokenizer_stream_feed(stream, text, 9, &list, error);
    if (status == STATUS_OK) status = tokenizer_stream_end(stream, &list, error);
    if (status == STATUS_OK) status = tokenizer_decode(tokenizer, list.ids, list.count, false, &decoded, &bytes, error);
    if (status == STATUS_OK) checksum_add(sum, list.ids, (size_t)list.count * sizeof *list.ids);
    if (status == STATUS_OK) checksum_add(sum, decoded, bytes);
    memory_free(decoded);
    tokenizer_stream_close(stream);
    tokenizer_list_free(&list);
    return status;
}

static enum status run_tokenizer(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_open(scenario_path(path, room->inputs, "tokenizer.json"), &tokenizer, error);
    if (status == STATUS_OK) status = use_tokenizer(tokenizer, sum, error);
    if (status == STATUS_OK)
        status = tokenizer_write(tokenizer, scenario_path(path, room->outputs, "tokenizer.json"), error);
    tokenizer_close(tokenizer);
    if (status == STATUS_OK) scenario_add_file(sum, path);
    return status;
}

static enum status run_train_tokenizer(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    struct tokenizer_trainer *trainer = NULL;
    (void)scenario_path(path, room->outputs, "tokenizer.json");
    enum status status = tokenizer_train_new(&trainer, error);
    if (status == STATUS_OK) status = tokenizer_train_add(trainer, words, sizeof words - 1, error);
    if (status == STATUS_OK) status = tokenizer_train_write(trainer, 270, path, error);
    tokenizer_train_free(trainer);
    if (status == STATUS_OK) scenario_add_file(sum, path);
    return status;
}

/* A learned tokenizer in a GGUF file's metadata, and back. */
static void prepare_learned(struct room *room)
{
    char path[SCENARIO_PATH];
    struct error error;
    struct tokenizer_trainer *trainer = NULL;
    scenario_require(tokenizer_train_new(&trainer, &error) == STATUS_OK &&
                         tokenizer_train_add(trainer, words, sizeof words - 1, &error) == STATUS_OK &&
                         tokenizer_train_write(trainer, 262, scenario_path(path, room->inputs, "tokenizer.json"),
                                               &error) == STATUS_OK,
                     "tokenizer", &error);
    tokenizer_train_free(trainer);
}

static enum status run_gguf_tokenizer(const struct room *room, struct checksum *sum, struct error *error)
{
    static const int64_t shape[1] = {32};
    static const struct safetensors_entry entry = {"a", DTYPE_F32, 1, shape};
    static const float values[32] = {1};
    char path[SCENARIO_PATH];
    struct tokenizer *tokenizer = NULL, *back = NULL;
    struct gguf_metadata metadata = {0};
    struct gguf_writer *writer = NULL;
    enum status status = tokenizer_open(scenario_path(path, room->inputs, "tokenizer.json"), &tokenizer, error);
    (void)scenario_path(path, room->outputs, "model.gguf");
    if (status == STATUS_OK) status = tokenizer_gguf_write(tokenizer, 262, &metadata, error);
    if (status == STATUS_OK) status = gguf_writer_open(path, &metadata, &entry, 1, false, &writer, error);
    if (status == STATUS_OK) status = gguf_writer_bytes(writer, 0, values, sizeof values, error);
    if (status == STATUS_OK) status = gguf_writer_commit(writer, error);
    gguf_writer_close(writer);
    gguf_metadata_reset(&metadata);
    tokenizer_close(tokenizer);
    if (status == STATUS_OK) status = tokenizer_open(path, &back, error);
    if (status == STATUS_OK) status = use_tokenizer(back, sum, error);
    tokenizer_close(back);
    return status;
}

/* ---- datasets ---- */

static void prepare_texts(struct room *room)
{
    static const char lines[] =
        "{\"text\": \"ab ab ab ab ab ab ab ab ab ab ab ab\"}\n{\"text\": \"12 12 ab\", \"x\": [1]}\n";
    uint16_t tokens[64];
    prepare_letters(room);
    for (int i = 0; i < 64; i++) tokens[i] = (uint16_t)i;
    scenario_write(room->inputs, "a.txt", "ab ab 12 ab ab 12 ab ab 12", 26);
    scenario_write(room->inputs, "a.jsonl", lines, sizeof lines - 1);
    scenario_write(room->inputs, "a.bin", tokens, sizeof tokens);
}

static enum status run_dataset(const struct room *room, const char *name, enum dataset_format format,
                               struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH], file[SCENARIO_PATH];
    struct tokenizer *tokenizer = NULL;
    struct sequences sequences = {0};
    struct dataset_files files = {0};
    uint32_t *tokens = NULL;
    int64_t count = 0;
    const struct dataset_source source = {
        .format = format, .path = scenario_path(file, room->inputs, name), .dtype = DTYPE_U16};
    const struct dataset_use use = {.packing = DATASET_BLOCKS, .sequence_length = 4};
    enum status status = tokenizer_open(scenario_path(path, room->inputs, "tokenizer.json"), &tokenizer, error);
    if (status == STATUS_OK) status = dataset_look(&source, error);
    if (status == STATUS_OK) status = dataset_files_list(&source, &files, error);
    if (status == STATUS_OK) status = dataset_load(&source, &use, tokenizer, NULL, &sequences, error);
    if (status == STATUS_OK) status = dataset_load_tokens(&source, tokenizer, 1000, NULL, &tokens, &count, error);
    if (status == STATUS_OK) {
        checksum_add(sum, sequences.tokens, (size_t)sequences.starts[sequences.count] * sizeof *sequences.tokens);
        checksum_add(sum, tokens, (size_t)count * sizeof *tokens);
        checksum_add(sum, &files.count, sizeof files.count);
    }
    memory_free(tokens);
    dataset_files_free(&files);
    dataset_sequences_free(&sequences);
    tokenizer_close(tokenizer);
    return status;
}

static enum status run_text(const struct room *room, struct checksum *sum, struct error *error)
{
    return run_dataset(room, "a.txt", DATASET_TEXT, sum, error);
}

static enum status run_jsonl(const struct room *room, struct checksum *sum, struct error *error)
{
    return run_dataset(room, "a.jsonl", DATASET_JSONL, sum, error);
}

static enum status run_tokens(const struct room *room, struct checksum *sum, struct error *error)
{
    return run_dataset(room, "a.bin", DATASET_TOKENS, sum, error);
}

const struct scenario scenarios_of_files[] = {
    {"weights safetensors", READS, prepare_checkpoint, run_safetensors, NULL, 0},
    {"weights shards", READS, prepare_shards, run_safetensors, NULL, 0},
    {"weights pickle", READS, prepare_pickle, run_pickle, NULL, 0},
    {"weights model", READS, prepare_checkpoint, run_model, NULL, 0},
    {"weights write", WRITES, NULL, run_write_safetensors, NULL, 0},
    {"tokenizer byte level", WRITES, prepare_letters, run_tokenizer, NULL, 0},
    {"tokenizer sentencepiece", WRITES, prepare_sentencepiece, run_tokenizer, NULL, 0},
    {"tokenizer train", WRITES, NULL, run_train_tokenizer, NULL, 0},
    {"tokenizer gguf", WRITES, prepare_learned, run_gguf_tokenizer, NULL, 0},
    {"dataset text", READS, prepare_texts, run_text, NULL, 0},
    {"dataset jsonl", READS, prepare_texts, run_jsonl, NULL, 0},
    {"dataset tokens", READS, prepare_texts, run_tokens, NULL, 0},
    {0},
};
