#include "tokenizer/tokenizer_gguf_merges.h"

#include "base/array.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_MAX = 1024 }; /* longest piece whose cuts are searched; published ones have up to 64 */

/* ---- as listed ---- */

static enum status split_listed(const char *name, struct tokenizer_gguf_span line, struct tokenizer_gguf_merge *out,
                                struct error *error)
{
    const char *space = line.size > 1 ? memchr(line.bytes + 1, ' ', line.size - 1) : NULL;
    if (space == NULL || space + 1 == line.bytes + line.size)
        return error_set(error, STATUS_CORRUPT, "%s: a merge is not two tokens and one space", name);
    out->left = (struct tokenizer_gguf_span){line.bytes, (size_t)(space - line.bytes)};
    out->right = (struct tokenizer_gguf_span){space + 1, line.size - out->left.size - 1};
    return STATUS_OK;
}

static enum status listed(const struct gguf *file, const struct gguf_array *array, struct tokenizer_gguf_merge **out,
                          char **held, struct error *error)
{
    const char *name = file_name(gguf_file(file));
    struct tokenizer_gguf_span *lines = NULL;
    enum status status = gguf_array_read(file, array, TOKENIZER_FILE_LIMIT, held, error);
    if (status == STATUS_OK) status = tokenizer_gguf_spans(name, *held, array, &lines, error);
    if (status == STATUS_OK) status = memory_new(array->count, sizeof **out, "merges", out, error);
    for (int64_t i = 0; status == STATUS_OK && i < array->count; i++)
        status = split_listed(name, lines[i], &(*out)[i], error);
    memory_free(lines);
    return status;
}

/* ---- by score ---- */

struct cut {
    int64_t piece, left, right; /* ids */
    double score;
};

struct cuts {
    const struct tokenizer_gguf_span *tokens;
    struct vocabulary vocabulary;
    struct cut *items;
    int64_t count, capacity;
};

/* Gives the order of a stable sort by score of a list in the order of pieces. */
static int by_score(const void *a, const void *b)
{
    const struct cut *first = a, *second = b;
    if (first->score != second->score) return first->score > second->score ? -1 : 1;
    if (first->piece != second->piece) return first->piece < second->piece ? -1 : 1;
    if (first->left != second->left) return first->left < second->left ? -1 : 1;
    return first->right < second->right ? -1 : first->right > second->right;
}

static enum status add_cuts(struct cuts *cuts, int64_t piece, double score, struct error *error)
{
    const struct tokenizer_gguf_span token = cuts->tokens[piece];
    if (token.size > PIECE_MAX) return STATUS_OK;
    for (size_t at = token.size > 0 ? utf8_width(token.bytes[0]) : 0; at < token.size;
         at += utf8_width(token.bytes[at])) {
        const int64_t left = vocabulary_find(&cuts->vocabulary, token.bytes, at);
        const int64_t right = left < 0 ? -1 : vocabulary_find(&cuts->vocabulary, token.bytes + at, token.size - at);
        if (right < 0) continue;
        const enum status status =
            array_grow(&cuts->items, cuts->count + 1, &cuts->capacity, sizeof *cuts->items, error);
        if (status != STATUS_OK) return status;
        cuts->items[cuts->count++] = (struct cut){piece, left, right, score};
    }
    return STATUS_OK;
}

static enum status find_cuts(struct cuts *cuts, const char *name, const char *scores, int64_t count,
                             struct error *error)
{
    enum status status = vocabulary_init(&cuts->vocabulary, error);
    for (int64_t i = 0; status == STATUS_OK && i < count; i++)
        status = vocabulary_add(&cuts->vocabulary, cuts->tokens[i].bytes, cuts->tokens[i].size, (uint32_t)i, error);
    for (int64_t i = 0; status == STATUS_OK && i < count; i++) {
        float score;
        memcpy(&score, scores + i * (int64_t)sizeof score, sizeof score);
        if (!isfinite(score)) return error_set(error, STATUS_CORRUPT, "%s: the score of a token is no number", name);
        status = add_cuts(cuts, i, (double)score, error);
    }
    if (status == STATUS_OK && cuts->count > 0) qsort(cuts->items, (size_t)cuts->count, sizeof *cuts->items, by_score);
    return status;
}

enum status tokenizer_gguf_merges_by_scores(const char *name, const struct tokenizer_gguf_span *tokens,
                                            const char *scores, int64_t count, struct tokenizer_gguf_merge **out,
                                            int64_t *merges, struct error *error)
{
    struct cuts cuts = {.tokens = tokens};
    *out = NULL;
    enum status status = find_cuts(&cuts, name, scores, count, error);
    if (status == STATUS_OK) status = memory_new(cuts.count, sizeof **out, "merges", out, error);
    for (int64_t i = 0; status == STATUS_OK && i < cuts.count; i++)
        (*out)[i] = (struct tokenizer_gguf_merge){tokens[cuts.items[i].left], tokens[cuts.items[i].right]};
    *merges = cuts.count;
    vocabulary_reset(&cuts.vocabulary);
    free(cuts.items);
    return status;
}

static enum status by_scores(const struct gguf *file, const struct tokenizer_gguf_span *tokens, int64_t count,
                             struct tokenizer_gguf_merge **out, int64_t *merges, struct error *error)
{
    const char *name = file_name(gguf_file(file));
    struct gguf_array array;
    char *scores = NULL;
    if (!gguf_array(file, "tokenizer.ggml.scores", &array) || array.items != GGUF_ITEMS_F32 || array.count != count)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s has neither merges nor scores of its tokens; put the model's tokenizer.json beside the file", name);
    enum status status = gguf_array_read(file, &array, TOKENIZER_FILE_LIMIT, &scores, error);
    if (status == STATUS_OK) status = tokenizer_gguf_merges_by_scores(name, tokens, scores, count, out, merges, error);
    memory_free(scores);
    return status;
}

enum status tokenizer_gguf_merges(const struct gguf *file, const struct tokenizer_gguf_span *tokens, int64_t count,
                                  bool scored, struct tokenizer_gguf_merge **out, int64_t *merges, char **held,
                                  struct error *error)
{
    struct gguf_array array;
    *out = NULL;
    *held = NULL;
    *merges = 0;
    if (gguf_array(file, "tokenizer.ggml.merges", &array) && array.items == GGUF_ITEMS_TEXT) {
        *merges = array.count;
        return listed(file, &array, out, held, error);
    }
    if (scored) return by_scores(file, tokens, count, out, merges, error);
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s has no merges (tokenizer.ggml.merges); put the model's tokenizer.json beside the file",
                     file_name(gguf_file(file)));
}
