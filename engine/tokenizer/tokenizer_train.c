/* Each distinct word is kept once, with its count. A heap gives the most frequent pair. Counts in the heap may be out
 * of date: too high, never too low; they are corrected when they come to the top. A merge touches only the words in
 * which its pair has ever occurred. */
#include "tokenizer/tokenizer_train.h"
#include "base/array.h"

#include "base/utf8.h"
#include "files/file_writer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTE = 1, FIRST_MERGE = 257, SIZE_LIMIT = 1 << 20, CHUNK = 1 << 20, LEAST_COUNT = 2 };

static const char end_of_text[] = "<|endoftext|>";
static const char splitting[] =
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}";

struct tokenizer_trainer {
    struct vocabulary words; /* their ids index `counts` */
    int64_t *counts;
    int64_t counts_capacity;
    int64_t bytes, bytes_left_out; /* of all words; of those that are too long */
    struct pretokenizer *pretokenizer;
    struct pattern_scratch *scratch;
    struct pretokenizer_pieces pieces;
};

struct pair {
    uint32_t left, right;
    int64_t count;
    uint32_t *words; /* words in which it occurred */
    int64_t words_count, words_capacity;
};

struct candidate {
    int64_t count;
    uint32_t left, right, pair;
};

struct learning {
    const struct tokenizer_trainer *trainer;
    uint32_t *symbols; /* of all words, one after the other */
    int64_t *starts;   /* of each word in `symbols` */
    int32_t *lengths;
    struct pair_map map; /* (left, right) -> index in pairs */
    struct pair *pairs;
    int64_t pairs_count, pairs_capacity;
    struct candidate *heap;
    int64_t heap_count, heap_capacity;
    struct text contents; /* of the tokens: stand-ins */
    uint32_t *ends;       /* of each token in `contents` */
    struct text merges;   /* JSON */
    int64_t tokens;
};

void tokenizer_train_free(struct tokenizer_trainer *trainer)
{
    if (trainer == NULL) return;
    vocabulary_reset(&trainer->words);
    free(trainer->counts);
    pretokenizer_free(trainer->pretokenizer);
    pattern_scratch_free(trainer->scratch);
    pretokenizer_pieces_reset(&trainer->pieces);
    free(trainer);
}

enum status tokenizer_train_new(struct tokenizer_trainer **out, struct error *error)
{
    struct part_document document = {.name = "trainer", .json = splitting, .bytes = sizeof splitting - 1};
    struct json_reader_text span = {.bytes = splitting, .size = sizeof splitting - 1};
    struct tokenizer_trainer *trainer = calloc(1, sizeof *trainer);
    *out = NULL;
    if (trainer == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to train a tokenizer");
    enum status status = vocabulary_init(&trainer->words, error);
    if (status == STATUS_OK) status = pretokenizer_load(&document, span, true, &trainer->pretokenizer, error);
    if (status == STATUS_OK) status = pattern_scratch_new(&trainer->scratch, error);
    if (status == STATUS_OK)
        *out = trainer;
    else
        tokenizer_train_free(trainer);
    return status;
}

/* ---- counting words ---- */

static enum status count_word(struct tokenizer_trainer *trainer, const char *word, size_t bytes, struct error *error)
{
    trainer->bytes += (int64_t)bytes;
    if (bytes > TOKENIZER_TRAIN_WORD) {
        trainer->bytes_left_out += (int64_t)bytes;
        return STATUS_OK;
    }
    int64_t id = vocabulary_find(&trainer->words, word, bytes);
    if (id < 0) {
        id = trainer->words.count;
        enum status status =
            array_grow(&trainer->counts, id + 1, &trainer->counts_capacity, sizeof *trainer->counts, error);
        if (status == STATUS_OK) status = vocabulary_add(&trainer->words, word, bytes, (uint32_t)id, error);
        if (status != STATUS_OK) return status;
        trainer->counts[id] = 0;
    }
    trainer->counts[id]++;
    return STATUS_OK;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum status tokenizer_train_add(struct tokenizer_trainer *trainer, const char *text, size_t bytes, struct error *error)
{
    size_t valid = utf8_check(text, bytes);
    if (valid != bytes) return error_set(error, STATUS_MALFORMED, "text is not UTF-8 at byte %zu", valid);
    while (bytes > 0) {
        size_t end = bytes < CHUNK ? bytes : CHUNK; /* the pattern always splits between a letter and a space */
        while (end < bytes && !(text[end] == ' ' && is_letter(text[end - 1]))) end++;
        enum status status =
            pretokenizer_apply(trainer->pretokenizer, trainer->scratch, text, end, true, &trainer->pieces, error);
        for (int64_t i = 0; status == STATUS_OK && i < trainer->pieces.count; i++) {
            struct pretokenizer_piece piece = trainer->pieces.items[i];
            status = count_word(trainer, text + piece.start, piece.end - piece.start, error);
        }
        if (status != STATUS_OK) return status;
        text += end;
        bytes -= end;
    }
    return STATUS_OK;
}

double tokenizer_train_left_out(const struct tokenizer_trainer *trainer)
{
    return trainer->bytes > 0 ? (double)trainer->bytes_left_out / (double)trainer->bytes : 0;
}

/* ---- learning ---- */

static bool better(const struct candidate *a, const struct candidate *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static enum status push(struct learning *learning, uint32_t index, struct error *error)
{
    const struct pair *pair = &learning->pairs[index];
    struct candidate moved = {.count = pair->count, .left = pair->left, .right = pair->right, .pair = index};
    enum status status =
        array_grow(&learning->heap, learning->heap_count + 1, &learning->heap_capacity, sizeof *learning->heap, error);
    if (status != STATUS_OK) return status;
    int64_t at = learning->heap_count++;
    for (int64_t parent; at > 0 && better(&moved, &learning->heap[parent = (at - 1) / 2]); at = parent)
        learning->heap[at] = learning->heap[parent];
    learning->heap[at] = moved;
    return STATUS_OK;
}

static struct candidate pop(struct learning *learning)
{
    struct candidate *heap = learning->heap, top = heap[0], moved = heap[--learning->heap_count];
    int64_t at = 0, count = learning->heap_count;
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && better(&heap[child + 1], &heap[child])) child++;
        if (!better(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    if (count > 0) heap[at] = moved;
    return top;
}

/* Adds `change` to the count of a pair that occurs in `word`. */
static enum status count_pair(struct learning *learning, uint32_t left, uint32_t right, int64_t change, uint32_t word,
                              struct error *error)
{
    const struct pair_map_slot *slot = pair_map_find(&learning->map, left, right);
    enum status status = STATUS_OK;
    int64_t index = slot != NULL ? (int64_t)slot->id : learning->pairs_count;
    if (slot == NULL) {
        status = array_grow(&learning->pairs, index + 1, &learning->pairs_capacity, sizeof *learning->pairs, error);
        if (status == STATUS_OK) status = pair_map_put(&learning->map, left, right, 0, (uint32_t)index, error);
        if (status != STATUS_OK) return status;
        learning->pairs[learning->pairs_count++] = (struct pair){.left = left, .right = right};
    }
    struct pair *pair = &learning->pairs[index];
    pair->count += change;
    if (change < 0 || (pair->words_count > 0 && pair->words[pair->words_count - 1] == word)) return STATUS_OK;
    status = array_grow(&pair->words, pair->words_count + 1, &pair->words_capacity, sizeof *pair->words, error);
    if (status == STATUS_OK) pair->words[pair->words_count++] = word;
    return status;
}

static enum status count_all(struct learning *learning, struct error *error)
{
    const struct vocabulary *words = &learning->trainer->words;
    enum status status = STATUS_OK;
    int64_t at = 0;
    for (int64_t word = 0; status == STATUS_OK && word < words->count; word++) {
        size_t size;
        const char *text = vocabulary_content(words, word, &size);
        learning->starts[word] = at;
        learning->lengths[word] = (int32_t)size;
        for (size_t i = 0; i < size; i++) learning->symbols[at + (int64_t)i] = FIRST_BYTE + (uint8_t)text[i];
        for (size_t i = 0; status == STATUS_OK && i + 1 < size; i++)
            status = count_pair(learning, learning->symbols[at + (int64_t)i], learning->symbols[at + (int64_t)i + 1],
                                learning->trainer->counts[word], (uint32_t)word, error);
        at += (int64_t)size;
    }
    for (int64_t i = 0; status == STATUS_OK && i < learning->pairs_count; i++)
        status = push(learning, (uint32_t)i, error);
    return status;
}

/* Replaces the pair by `made` in one word. Runs (a a a) merge from the left, as encoding does. */
static enum status merge_word(struct learning *learning, uint32_t word, uint32_t left, uint32_t right, uint32_t made,
                              struct error *error)
{
    uint32_t *symbols = learning->symbols + learning->starts[word];
    int32_t length = learning->lengths[word], kept = 0;
    int64_t count = learning->trainer->counts[word];
    enum status status = STATUS_OK;
    for (int32_t i = 0; status == STATUS_OK && i < length; i++) {
        if (i + 1 == length || symbols[i] != left || symbols[i + 1] != right) {
            symbols[kept++] = symbols[i];
            continue;
        }
        if (kept > 0) {
            status = count_pair(learning, symbols[kept - 1], left, -count, word, error);
            if (status == STATUS_OK) status = count_pair(learning, symbols[kept - 1], made, count, word, error);
        }
        if (status == STATUS_OK && i + 2 < length) {
            status = count_pair(learning, right, symbols[i + 2], -count, word, error);
            if (status == STATUS_OK) status = count_pair(learning, made, symbols[i + 2], count, word, error);
        }
        symbols[kept++] = made;
        i++;
    }
    learning->lengths[word] = kept;
    return status;
}

static enum status append_quoted(struct text *out, const char *bytes, size_t size, struct error *error)
{
    enum status status = text_append(out, "\"", 1, error);
    for (size_t i = 0; status == STATUS_OK && i < size; i++) {
        if (bytes[i] == '"' || bytes[i] == '\\') status = text_append(out, "\\", 1, error);
        if (status == STATUS_OK) status = text_append(out, bytes + i, 1, error);
    }
    return status == STATUS_OK ? text_append(out, "\"", 1, error) : status;
}

static enum status append_token(const struct learning *learning, struct text *out, int64_t id, struct error *error)
{
    size_t start = id > 0 ? learning->ends[id - 1] : 0;
    return append_quoted(out, learning->contents.bytes + start, learning->ends[id] - start, error);
}

/* Appends the new token and the line of its merge. */
static enum status add_token(struct learning *learning, uint32_t left, uint32_t right, struct error *error)
{
    uint32_t halves[] = {left, right};
    struct text *merges = &learning->merges, *contents = &learning->contents;
    enum status status = text_append(merges, learning->tokens > FIRST_MERGE ? ",\n[" : "\n[",
                                     learning->tokens > FIRST_MERGE ? 3 : 2, error);
    for (int i = 0; status == STATUS_OK && i < 2; i++) {
        size_t start = learning->ends[halves[i] - 1], size = learning->ends[halves[i]] - start;
        if ((status = text_reserve(contents, size, error)) == STATUS_OK)
            status = text_append(contents, contents->bytes + start, size, error);
        if (status == STATUS_OK && i == 1) status = text_append(merges, ",", 1, error);
        if (status == STATUS_OK) status = append_token(learning, merges, halves[i], error);
    }
    learning->ends[learning->tokens++] = (uint32_t)contents->size;
    return status == STATUS_OK ? text_append(merges, "]", 1, error) : status;
}

static enum status merge_pair(struct learning *learning, uint32_t index, struct error *error)
{
    struct pair *pair = &learning->pairs[index];
    uint32_t left = pair->left, right = pair->right, made = (uint32_t)learning->tokens, *words = pair->words;
    int64_t count = pair->words_count, before = learning->pairs_count;
    enum status status = add_token(learning, left, right, error);
    pair->words = NULL;
    pair->words_count = pair->words_capacity = 0;
    pair->count = 0;
    for (int64_t i = 0; status == STATUS_OK && i < count; i++)
        status = merge_word(learning, words[i], left, right, made, error);
    learning->pairs[index].count = 0; /* runs of one symbol may have left another number */
    free(words);
    for (int64_t i = before; status == STATUS_OK && i < learning->pairs_count; i++)
        status = push(learning, (uint32_t)i, error);
    return status;
}

static enum status learn(struct learning *learning, int64_t vocabulary_size, struct error *error)
{
    enum status status = count_all(learning, error);
    while (status == STATUS_OK && learning->tokens < vocabulary_size && learning->heap_count > 0) {
        struct candidate top = pop(learning);
        int64_t count = learning->pairs[top.pair].count;
        if (count < LEAST_COUNT) continue;
        status = count == top.count ? merge_pair(learning, top.pair, error) : push(learning, top.pair, error);
    }
    return status;
}

/* ---- the file ---- */

static enum status render(const struct learning *learning, struct text *out, struct error *error)
{
    static const char head[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":0,\"content\":"
        "\"<|endoftext|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
        "\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":";
    static const char middle[] =
        ",\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
        "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
        "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
        "\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{";
    enum status status = text_append(out, head, sizeof head - 1, error);
    if (status == STATUS_OK) status = text_append(out, splitting, sizeof splitting - 1, error);
    if (status == STATUS_OK) status = text_append(out, middle, sizeof middle - 1, error);
    for (int64_t id = 0; status == STATUS_OK && id < learning->tokens; id++) {
        status = text_append(out, id > 0 ? ",\n" : "\n", id > 0 ? 2 : 1, error);
        if (status == STATUS_OK) status = append_token(learning, out, id, error);
        if (status == STATUS_OK) status = text_format(out, error, ":%lld", (long long)id);
    }
    if (status == STATUS_OK) status = text_append(out, "},\"merges\":[", 12, error);
    if (status == STATUS_OK) status = text_append(out, learning->merges.bytes, learning->merges.size, error);
    return status == STATUS_OK ? text_append(out, "]}}\n", 4, error) : status;
}

static void learning_reset(struct learning *learning)
{
    for (int64_t i = 0; i < learning->pairs_count; i++) free(learning->pairs[i].words);
    free(learning->pairs);
    free(learning->symbols);
    free(learning->starts);
    free(learning->lengths);
    free(learning->heap);
    free(learning->ends);
    pair_map_reset(&learning->map);
    text_free(&learning->contents);
    text_free(&learning->merges);
}

static enum status begin(struct learning *learning, int64_t vocabulary_size, struct error *error)
{
    const struct vocabulary *words = &learning->trainer->words;
    size_t count = (size_t)words->count + 1;
    learning->symbols = malloc((words->contents.size + 1) * sizeof *learning->symbols);
    learning->starts = malloc(count * sizeof *learning->starts);
    learning->lengths = malloc(count * sizeof *learning->lengths);
    learning->ends = malloc((size_t)vocabulary_size * sizeof *learning->ends);
    if (learning->symbols == NULL || learning->starts == NULL || learning->lengths == NULL || learning->ends == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory to learn a vocabulary");
    enum status status = text_append(&learning->contents, end_of_text, sizeof end_of_text - 1, error);
    learning->ends[learning->tokens++] = (uint32_t)learning->contents.size;
    for (unsigned byte = 0; status == STATUS_OK && byte < 256; byte++) {
        char c = (char)byte;
        status = byte_alphabet_append(&learning->contents, &c, 1, error);
        learning->ends[learning->tokens++] = (uint32_t)learning->contents.size;
    }
    return status;
}

enum status tokenizer_train_write(struct tokenizer_trainer *trainer, int64_t vocabulary_size, const char *path,
                                  struct error *error)
{
    struct learning learning = {.trainer = trainer, .map = {.seed = trainer->words.seed}};
    struct text json = {0};
    if (vocabulary_size < FIRST_MERGE || vocabulary_size > SIZE_LIMIT)
        return error_set(error, STATUS_INVALID, "vocabulary_size is %lld, %d to %d are done",
                         (long long)vocabulary_size, FIRST_MERGE, SIZE_LIMIT);
    enum status status = begin(&learning, vocabulary_size, error);
    if (status == STATUS_OK) status = learn(&learning, vocabulary_size, error);
    if (status == STATUS_OK) status = text_append(&learning.merges, "", 0, error);
    if (status == STATUS_OK) status = render(&learning, &json, error);
    if (status == STATUS_OK) status = file_writer_put(path, json.bytes, json.size, error);
    text_free(&json);
    learning_reset(&learning);
    return status;
}
