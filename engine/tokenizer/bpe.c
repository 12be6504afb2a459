#include "tokenizer/bpe.h"

#include "base/array.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 32, SPLIT_FROM = 48 }; /* ids of a word merged without the heap; bytes of a piece worth splitting */

struct bpe_link {
    int32_t previous, next; /* -1: none; next -2: merged away */
};

struct bpe_candidate {
    uint32_t rank, position, id;
};

void bpe_reset(struct bpe *bpe)
{
    vocabulary_reset(&bpe->vocabulary);
    pair_map_reset(&bpe->merges);
    pair_map_reset(&bpe->neighbours);
}

void bpe_scratch_reset(struct bpe_scratch *scratch)
{
    bpe_cache_reset(&scratch->cache);
    text_free(&scratch->mapped);
    free(scratch->ids);
    free(scratch->links);
    free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}

enum status bpe_append(struct token_list *out, const uint32_t *ids, int64_t count, struct error *error)
{
    enum status status = array_grow(&out->ids, out->count + count, &out->capacity, sizeof *out->ids, error);
    if (status != STATUS_OK) return status;
    if (count > 0) memcpy(out->ids + out->count, ids, (size_t)count * sizeof *ids);
    out->count += count;
    return STATUS_OK;
}

/* The id of a character, or -1. */
static int64_t id_of_character(const struct bpe *bpe, uint32_t character)
{
    char text[4];
    if (character < BPE_COMMON) return bpe->common[character];
    return vocabulary_find(&bpe->vocabulary, text, utf8_encode(character, text));
}

bool bpe_splits(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    if (bpe->ignore_merges) return false;
    if (left < 128 && right < 128) {
        if (bpe->ascii_neighbours[left][right >> 6] >> (right & 63) & 1) return false;
    } else if (pair_map_find(&bpe->neighbours, left, right) != NULL) {
        return false;
    }
    return id_of_character(bpe, left) >= 0 && id_of_character(bpe, right) >= 0;
}

/* ---- the first ids of a word ---- */

/* Ids of the bytes of a character that has no id of its own; 0 when one of the bytes has none. */
static int byte_tokens(const struct bpe *bpe, const char *character, size_t width, uint32_t *ids)
{
    for (size_t i = 0; i < width; i++) {
        int32_t id = bpe->fallback[(uint8_t)character[i]];
        if (!bpe->byte_fallback || id < 0) return 0;
        ids[i] = (uint32_t)id;
    }
    return (int)width;
}

/* Fills ids [at least bytes]; returns their number. An unknown token is written before the next known character: byte
 * tokens in between do not end it (the order of the tokenizers library). */
static int64_t first_ids(const struct bpe *bpe, const char *text, size_t bytes, uint32_t *ids)
{
    int64_t count = 0;
    bool waiting = false;
    for (size_t i = 0, width; i < bytes; i += width) {
        width = utf8_width(text[i]);
        int64_t id = width <= 2 ? id_of_character(bpe, utf8_decode(text + i))
                                : vocabulary_find(&bpe->vocabulary, text + i, width);
        int tokens = id < 0 ? byte_tokens(bpe, text + i, width, ids + count) : 0;
        if (id < 0 && tokens == 0 && bpe->unknown >= 0) {
            if (waiting && !bpe->fuse_unknown) ids[count++] = (uint32_t)bpe->unknown;
            waiting = true;
        }
        if (id >= 0 && waiting) {
            ids[count++] = (uint32_t)bpe->unknown;
            waiting = false;
        }
        if (id >= 0) ids[count++] = (uint32_t)id;
        count += tokens;
    }
    if (waiting) ids[count++] = (uint32_t)bpe->unknown;
    return count;
}

/* ---- merging ---- */

/* For few ids: searches all pairs for the best one before each merge. */
static int64_t merge_short(const struct bpe *bpe, uint32_t *ids, int64_t count)
{
    const struct pair_map_slot *pairs[SHORT];
    for (int64_t i = 0; i + 1 < count; i++) pairs[i] = pair_map_find(&bpe->merges, ids[i], ids[i + 1]);
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i + 1 < count; i++) {
            if (pairs[i] != NULL && (best < 0 || pairs[i]->rank < pairs[best]->rank)) best = i;
        }
        if (best < 0) return count;
        ids[best] = pairs[best]->id;
        for (int64_t i = best + 1; i + 1 < count; i++) {
            ids[i] = ids[i + 1];
            pairs[i] = i + 2 < count ? pairs[i + 1] : NULL;
        }
        count--;
        if (best > 0) pairs[best - 1] = pair_map_find(&bpe->merges, ids[best - 1], ids[best]);
        if (best + 1 < count) pairs[best] = pair_map_find(&bpe->merges, ids[best], ids[best + 1]);
    }
}

static bool before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static void sift_down(struct bpe_candidate *heap, int64_t count, int64_t at)
{
    struct bpe_candidate moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void sift_up(struct bpe_candidate *heap, int64_t at)
{
    struct bpe_candidate moved = heap[at];
    for (int64_t parent; at > 0 && before(&moved, &heap[parent = (at - 1) / 2]); at = parent) heap[at] = heap[parent];
    heap[at] = moved;
}

static int64_t push(const struct bpe *bpe, struct bpe_scratch *scratch, int64_t heaped, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return heaped;
    const struct pair_map_slot *pair = pair_map_find(&bpe->merges, scratch->ids[left], scratch->ids[right]);
    if (pair == NULL) return heaped;
    scratch->heap[heaped] = (struct bpe_candidate){.rank = pair->rank, .position = (uint32_t)left, .id = pair->id};
    sift_up(scratch->heap, heaped);
    return heaped + 1;
}

static void merge_at(struct bpe_scratch *scratch, int32_t at, uint32_t id)
{
    struct bpe_link *links = scratch->links;
    int32_t gone = links[at].next, after = links[gone].next;
    scratch->ids[at] = id;
    links[at].next = after;
    if (after >= 0) links[after].previous = at;
    links[gone].next = -2;
}

/* Merges with a heap of candidates. A candidate may be stale; comparing the id that it would make shows that. Every
 * merge takes one candidate out and puts at most two in, so count * 2 entries are enough. */
static enum status merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, int64_t *count, struct error *error)
{
    enum status status;
    int64_t total = *count, heaped = 0, kept = 0;
    if ((status = array_grow(&scratch->links, total, &scratch->links_capacity, sizeof *scratch->links, error)) !=
        STATUS_OK)
        return status;
    if ((status = array_grow(&scratch->heap, 2 * total, &scratch->heap_capacity, sizeof *scratch->heap, error)) !=
        STATUS_OK)
        return status;
    struct bpe_link *links = scratch->links;
    for (int32_t i = 0; i < total; i++)
        links[i] = (struct bpe_link){.previous = i - 1, .next = i + 1 < total ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < total; i++) heaped = push(bpe, scratch, heaped, i, i + 1);
    while (heaped > 0) {
        struct bpe_candidate top = scratch->heap[0];
        scratch->heap[0] = scratch->heap[--heaped];
        if (heaped > 0) sift_down(scratch->heap, heaped, 0);
        int32_t at = (int32_t)top.position;
        if (links[at].next < 0) continue;
        const struct pair_map_slot *pair = pair_map_find(&bpe->merges, scratch->ids[at], scratch->ids[links[at].next]);
        if (pair == NULL || pair->id != top.id) continue;
        merge_at(scratch, at, top.id);
        heaped = push(bpe, scratch, heaped, links[at].previous, at);
        heaped = push(bpe, scratch, heaped, at, links[at].next);
    }
    for (int64_t i = 0; i < total; i++) {
        if (links[i].next != -2) scratch->ids[kept++] = scratch->ids[i];
    }
    *count = kept;
    return STATUS_OK;
}

/* ---- words and pieces ---- */

static enum status encode_word(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t bytes,
                               bool raw_bytes, struct token_list *out, struct error *error)
{
    enum status status;
    int64_t count = 0, whole;
    if (bytes > BPE_WORD_LIMIT)
        return error_set(error, STATUS_TOO_LARGE,
                         "text has %zu bytes without a place where the tokenizer splits, at most %d are done", bytes,
                         BPE_WORD_LIMIT);
    if (raw_bytes && bpe->ignore_merges) {
        scratch->mapped.size = 0;
        if ((status = byte_alphabet_append(&scratch->mapped, text, bytes, error)) != STATUS_OK) return status;
        text = scratch->mapped.bytes;
        bytes = scratch->mapped.size;
        raw_bytes = false;
    }
    if (bpe->ignore_merges && (whole = vocabulary_find(&bpe->vocabulary, text, bytes)) >= 0) {
        uint32_t id = (uint32_t)whole;
        return bpe_append(out, &id, 1, error);
    }
    if ((status = array_grow(&scratch->ids, (int64_t)bytes, &scratch->ids_capacity, sizeof *scratch->ids, error)) !=
        STATUS_OK)
        return status;
    if (raw_bytes) {
        for (size_t i = 0; i < bytes; i++)
            scratch->ids[count++] = (uint32_t)bpe->common[bpe->alphabet[(uint8_t)text[i]]];
    } else {
        count = first_ids(bpe, text, bytes, scratch->ids);
    }
    if (count <= SHORT) {
        count = merge_short(bpe, scratch->ids, count);
    } else if ((status = merge_long(bpe, scratch, &count, error)) != STATUS_OK) {
        return status;
    }
    return bpe_append(out, scratch->ids, count, error);
}

static void keep(struct bpe_scratch *scratch, uint64_t hash, const char *text, size_t bytes,
                 const struct token_list *out, int64_t start)
{
    const uint32_t *ids = out->count > start ? out->ids + start : NULL;
    bpe_cache_put(&scratch->cache, hash, text, bytes, ids, out->count - start);
}

static enum status encode_cached(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t bytes,
                                 bool raw_bytes, struct token_list *out, struct error *error)
{
    if (bytes > BPE_CACHE_WORD) return encode_word(bpe, scratch, text, bytes, raw_bytes, out, error);
    int64_t count, start = out->count;
    uint64_t hash = vocabulary_hash(bpe->vocabulary.seed, text, bytes);
    const uint32_t *ids = bpe_cache_find(&scratch->cache, hash, text, bytes, &count);
    if (ids != NULL) return bpe_append(out, ids, count, error);
    enum status status = encode_word(bpe, scratch, text, bytes, raw_bytes, out, error);
    if (status == STATUS_OK) keep(scratch, hash, text, bytes, out, start);
    return status;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t bytes,
                       bool raw_bytes, struct token_list *out, struct error *error)
{
    size_t start = 0;
    if (bytes < SPLIT_FROM || bpe->ignore_merges)
        return encode_cached(bpe, scratch, text, bytes, raw_bytes, out, error);
    uint32_t left = 0;
    for (size_t i = 0, width; i < bytes; i += width) {
        uint32_t right = raw_bytes ? bpe->alphabet[(uint8_t)text[i]] : utf8_decode(text + i);
        width = raw_bytes ? 1 : utf8_width(text[i]);
        if (i > start && bpe_splits(bpe, left, right)) {
            enum status status = encode_cached(bpe, scratch, text + start, i - start, raw_bytes, out, error);
            if (status != STATUS_OK) return status;
            start = i;
        }
        left = right;
    }
    return encode_cached(bpe, scratch, text + start, bytes - start, raw_bytes, out, error);
}
