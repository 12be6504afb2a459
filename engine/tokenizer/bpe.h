/* bpe.h: byte pair encoding (Sennrich et al., ACL 2016): the characters of a word become ids, then again and again the
 * neighbours whose merge has the lowest rank become one, the leftmost first. O(n log n). */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "tokenizer/bpe_cache.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

enum { BPE_COMMON = 0x300 };       /* characters below have their ids in a table */
enum { BPE_WORD_LIMIT = 1 << 24 }; /* characters of a word that nothing splits */

/* Caller's memory, filled by bpe_load; then it does not change. */
struct bpe {
    struct vocabulary vocabulary;
    struct pair_map merges; /* ids -> rank, id of the result */
    /* characters that stand side by side in the result of a merge: only these can ever join */
    struct pair_map neighbours;
    uint64_t ascii_neighbours[128][2]; /* bits: the same for ASCII */
    int32_t common[BPE_COMMON];        /* id of a character, -1 */
    int32_t fallback[256];             /* id of "<0xHH>", -1 */
    uint16_t alphabet[256];            /* stand-in of each byte */
    bool whole_alphabet;               /* every stand-in is in the vocabulary */
    bool byte_fallback, fuse_unknown, ignore_merges;
    int64_t unknown; /* -1: none; unknown characters are left out then, as the tokenizers library does */
};

void bpe_reset(struct bpe *bpe); /* releases; {0} is fine */

/* True when no merge can ever reach across the border between two neighbouring characters, so that text cut there
 * encodes the same. Both must have ids of their own: what becomes an unknown or a byte token does not end a run of
 * unknowns. */
bool bpe_splits(const struct bpe *bpe, uint32_t left, uint32_t right);

/* Working memory of one encoding thread at a time. Start with {0}. */
struct bpe_scratch {
    struct bpe_cache cache;
    struct text mapped;
    uint32_t *ids;
    int64_t ids_capacity;
    struct bpe_link *links;
    int64_t links_capacity;
    struct bpe_candidate *heap;
    int64_t heap_capacity;
};
void bpe_scratch_reset(struct bpe_scratch *scratch);

/* Appends the ids of one piece of text (never empty, valid UTF-8; with `raw_bytes` any bytes, which stand for their
 * stand-ins). STATUS_TOO_LARGE (over BPE_WORD_LIMIT characters without a place to split), STATUS_NO_MEMORY. */
MUST_CHECK enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t bytes,
                                  bool raw_bytes, struct token_list *out, struct error *error);

/* Appends ids to a list. */
MUST_CHECK enum status bpe_append(struct token_list *out, const uint32_t *ids, int64_t count, struct error *error);

#endif
