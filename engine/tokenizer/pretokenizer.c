#include "tokenizer/pretokenizer.h"

#include "base/array.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pretokenizer_steps.h"

#include <stdlib.h>
#include <string.h>

void pretokenizer_free(struct pretokenizer *pretokenizer)
{
    if (pretokenizer == NULL) return;
    for (int i = 0; i < PRETOKENIZER_STEPS; i++) {
        pattern_free(pretokenizer->steps[i].pattern);
        text_free(&pretokenizer->steps[i].replacement);
    }
    free(pretokenizer);
}

bool pretokenizer_raw_bytes(const struct pretokenizer *pretokenizer)
{
    return pretokenizer->raw_bytes;
}

struct pretokenizer_border pretokenizer_border(const struct pretokenizer *pretokenizer)
{
    struct pretokenizer_border border = {.harmless = true};
    for (int i = 0; i < pretokenizer->count; i++) {
        border.harmless = border.harmless && pretokenizer->steps[i].border.harmless;
        border.separates = border.separates || pretokenizer->steps[i].border.separates;
    }
    return border;
}

void pretokenizer_pieces_reset(struct pretokenizer_pieces *pieces)
{
    free(pieces->items);
    free(pieces->spare);
    text_free(&pieces->own);
    text_free(&pieces->other);
    *pieces = (struct pretokenizer_pieces){0};
}

/* ---- splitting ---- */

/* Collects the parts of one piece in `spare`, from `base` on, with the behaviours of the tokenizers library. */
struct collector {
    struct pretokenizer_pieces *pieces;
    int64_t base, count;
    enum pretokenizer_behavior behavior;
    bool previous; /* whether the latest part matched */
    bool holding;  /* merged with next: a match waits for the text behind it */
    struct pretokenizer_piece held;
};

static enum status push(struct collector *collector, struct pretokenizer_piece piece, struct error *error)
{
    struct pretokenizer_pieces *pieces = collector->pieces;
    enum status status =
        array_grow(&pieces->spare, collector->count + 1, &pieces->spare_capacity, sizeof *pieces->spare, error);
    if (status == STATUS_OK) pieces->spare[collector->count++] = piece;
    return status;
}

static enum status collect(struct collector *collector, size_t start, size_t end, bool match, struct error *error)
{
    struct pretokenizer_piece piece = {.start = (uint32_t)start, .end = (uint32_t)end};
    bool previous = collector->previous, any = collector->count > collector->base;
    enum status status = STATUS_OK;
    collector->previous = match;
    switch (collector->behavior) {
    case PRETOKENIZER_REMOVED:
        return match ? STATUS_OK : push(collector, piece, error);
    case PRETOKENIZER_ISOLATED:
        return push(collector, piece, error);
    case PRETOKENIZER_MERGED_WITH_PREVIOUS:
        if (!match || previous || !any) return push(collector, piece, error);
        collector->pieces->spare[collector->count - 1].end = piece.end;
        return STATUS_OK;
    case PRETOKENIZER_CONTIGUOUS:
        if (match != previous || !any) return push(collector, piece, error);
        collector->pieces->spare[collector->count - 1].end = piece.end;
        return STATUS_OK;
    case PRETOKENIZER_MERGED_WITH_NEXT:
        if (collector->holding && match) status = push(collector, collector->held, error);
        if (collector->holding && !match) piece.start = collector->held.start;
        collector->holding = match;
        collector->held = piece;
        return match || status != STATUS_OK ? status : push(collector, piece, error);
    }
    return STATUS_OK;
}

static enum status split_piece(const struct pretokenizer_step *step, struct pattern_scratch *scratch,
                               struct collector *collector, struct pretokenizer_piece piece, struct error *error)
{
    struct pattern_search search = {.text = collector->pieces->text + piece.start, .bytes = piece.end - piece.start};
    size_t done = 0;
    bool found;
    enum status status;
    collector->base = collector->count;
    collector->previous = collector->holding = false;
    while ((status = pattern_next(step->pattern, scratch, &search, &found, error)) == STATUS_OK && found) {
        if (done != search.start)
            status = collect(collector, piece.start + done, piece.start + search.start, step->invert, error);
        if (status != STATUS_OK) return status;
        status = collect(collector, piece.start + search.start, piece.start + search.end, !step->invert, error);
        if (status != STATUS_OK) return status;
        done = search.end;
    }
    if (status == STATUS_OK && done != search.bytes)
        status = collect(collector, piece.start + done, piece.end, step->invert, error);
    if (status == STATUS_OK && collector->holding) status = push(collector, collector->held, error);
    return status;
}

static void swap_items(struct pretokenizer_pieces *pieces, int64_t count)
{
    struct pretokenizer_piece *items = pieces->items;
    int64_t capacity = pieces->capacity;
    pieces->items = pieces->spare;
    pieces->capacity = pieces->spare_capacity;
    pieces->spare = items;
    pieces->spare_capacity = capacity;
    pieces->count = 0;
    for (int64_t i = 0; i < count; i++) { /* removes the empty parts of empty matches */
        if (pieces->items[i].end > pieces->items[i].start) pieces->items[pieces->count++] = pieces->items[i];
    }
}

static enum status split_all(const struct pretokenizer_step *step, struct pattern_scratch *scratch,
                             struct pretokenizer_pieces *pieces, struct error *error)
{
    struct collector collector = {.pieces = pieces, .behavior = step->behavior};
    enum status status = STATUS_OK;
    for (int64_t i = 0; status == STATUS_OK && i < pieces->count; i++)
        status = split_piece(step, scratch, &collector, pieces->items[i], error);
    if (status == STATUS_OK) swap_items(pieces, collector.count);
    return status;
}

/* ---- rewriting: each appends one piece's new text to `out` ---- */

static enum status rewrite_prefix_space(const char *piece, size_t bytes, struct text *out, struct error *error)
{
    enum status status = piece[0] == ' ' ? STATUS_OK : text_append(out, " ", 1, error);
    return status == STATUS_OK ? text_append(out, piece, bytes, error) : status;
}

static enum status rewrite_metaspace(const struct pretokenizer_step *step, bool first, const char *piece, size_t bytes,
                                     struct text *out, struct error *error)
{
    const struct text *mark = &step->replacement;
    bool marked = piece[0] == ' ' || (bytes >= mark->size && memcmp(piece, mark->bytes, mark->size) == 0);
    bool wanted = step->prepend == PRETOKENIZER_ALWAYS || (step->prepend == PRETOKENIZER_FIRST && first);
    enum status status = wanted && !marked ? text_append(out, mark->bytes, mark->size, error) : STATUS_OK;
    size_t done = 0;
    for (const char *space; status == STATUS_OK && (space = memchr(piece + done, ' ', bytes - done)) != NULL;) {
        size_t at = (size_t)(space - piece);
        status = text_append(out, piece + done, at - done, error);
        if (status == STATUS_OK) status = text_append(out, mark->bytes, mark->size, error);
        done = at + 1;
    }
    return status == STATUS_OK ? text_append(out, piece + done, bytes - done, error) : status;
}

static enum status rewrite_all(const struct pretokenizer_step *step, bool at_start, struct pretokenizer_pieces *pieces,
                               struct error *error)
{
    struct text *out = &pieces->other;
    out->size = 0;
    for (int64_t i = 0; i < pieces->count; i++) {
        enum status status = STATUS_OK;
        struct pretokenizer_piece *piece = &pieces->items[i];
        const char *text = pieces->text + piece->start;
        size_t bytes = piece->end - piece->start, start = out->size;
        if (step->kind == PRETOKENIZER_PREFIX_SPACE) status = rewrite_prefix_space(text, bytes, out, error);
        if (step->kind == PRETOKENIZER_METASPACE)
            status = rewrite_metaspace(step, at_start && i == 0, text, bytes, out, error);
        if (step->kind == PRETOKENIZER_BYTES) status = byte_alphabet_append(out, text, bytes, error);
        if (status != STATUS_OK) return status;
        if (out->size > UINT32_MAX) return error_set(error, STATUS_TOO_LARGE, "text is too large for the tokenizer");
        *piece = (struct pretokenizer_piece){.start = (uint32_t)start, .end = (uint32_t)out->size};
    }
    struct text swapped = pieces->own;
    pieces->own = pieces->other;
    pieces->other = swapped;
    pieces->text = pieces->own.bytes;
    return STATUS_OK;
}

enum status pretokenizer_apply(const struct pretokenizer *pretokenizer, struct pattern_scratch *scratch,
                               const char *text, size_t bytes, bool at_start, struct pretokenizer_pieces *out,
                               struct error *error)
{
    enum status status = STATUS_OK;
    out->count = 0;
    out->text = text;
    if (bytes == 0) return STATUS_OK;
    if (bytes > UINT32_MAX) return error_set(error, STATUS_TOO_LARGE, "text is too large for the tokenizer");
    if ((status = array_grow(&out->items, 1, &out->capacity, sizeof *out->items, error)) != STATUS_OK) return status;
    out->items[out->count++] = (struct pretokenizer_piece){.start = 0, .end = (uint32_t)bytes};
    for (int i = 0; status == STATUS_OK && i < pretokenizer->count; i++) {
        const struct pretokenizer_step *step = &pretokenizer->steps[i];
        at_start = at_start && out->count > 0 && out->items[0].start == 0; /* not behind what a step removed */
        status = step->kind == PRETOKENIZER_SPLIT ? split_all(step, scratch, out, error)
                                                  : rewrite_all(step, at_start, out, error);
    }
    return status;
}

/* When an expression matches every character there is nothing between its matches. Isolating the matches and removing
 * the text between them are then the same. */
static bool isolates(const struct pretokenizer_step *step)
{
    const bool kept = step->behavior == PRETOKENIZER_REMOVED && step->invert;
    return step->kind == PRETOKENIZER_SPLIT && step->border.separates &&
           (kept || step->behavior == PRETOKENIZER_ISOLATED);
}

bool pretokenizer_same(const struct pretokenizer *a, const struct pretokenizer *b)
{
    bool same = a->count == b->count && a->raw_bytes == b->raw_bytes;
    for (int i = 0; i < a->count && same; i++) {
        const struct pretokenizer_step *one = &a->steps[i], *other = &b->steps[i];
        const bool alike = one->behavior == other->behavior && one->invert == other->invert;
        same = one->kind == other->kind && (alike || (isolates(one) && isolates(other))) &&
               one->prepend == other->prepend && pattern_same(one->pattern, other->pattern) &&
               text_same(&one->replacement, &other->replacement);
    }
    return same;
}
