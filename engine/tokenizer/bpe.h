/* bpe.h: byte pair encoding (Sennrich et al., ACL 2016): the characters of a word become ids; then the neighbouring
 * pair whose merge has the lowest rank is merged, the leftmost first, until no merge applies. O(n log n). */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "tokenizer/bpe_cache.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

enum { BPE_COMMON = 0x300 };       /* ids of characters below this are in a table */
enum { BPE_WORD_LIMIT = 1 << 24 }; /* most characters of a word without a place to split */

/* Caller's memory, filled by bpe_load; then it does not change. */
struct bpe {
    struct vocabulary vocabulary;
    struct pair_map merges; /* ids -> rank, id of the result */
    /* pairs of characters at the border of some merge: only these can ever be joined */
    struct pair_map neighbours;
    uint64_t ascii_neighbours[128][2]; /* bits: the same for ASCII */
    int32_t common[BPE_COMMON];        /* id of a character; -1: none */
    int32_t fallback[256];             /* id of "<0xHH>"; -1: none */
    uint16_t alphabet[256];            /* stand-in of each byte */
    bool whole_alphabet;               /* every stand-in is in the vocabulary */
    bool byte_fallback, fuse_unknown, ignore_merges;
    int64_t unknown; /* -1: none; unknown characters are then dropped, as in the tokenizers library */
};

void bpe_reset(struct bpe *bpe); /* releases; {0} is fine */

/* True when no merge can join two neighbouring characters across their border, so that text cut there encodes the same.
 * Both characters must have ids of their own, because an unknown character or a byte token does not end a run of
 * unknowns. */
bool bpe_splits(const struct bpe *bpe, uint32_t left, uint32_t right);

/* Working memory of one encoding; not shared by threads. Start with {0}. */
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

/* Appends the ids of one piece of text. It is never empty and valid UTF-8; with `raw_bytes` it may be any bytes, which
 * are replaced by their stand-ins. STATUS_TOO_LARGE (over BPE_WORD_LIMIT characters without a place to split),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t bytes,
                                  bool raw_bytes, struct token_list *out, struct error *error);

/* Appends ids to a list. */
MUST_CHECK enum status bpe_append(struct token_list *out, const uint32_t *ids, int64_t count, struct error *error);

#endif
