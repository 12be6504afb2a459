/* hidden.h: the hidden states of all tokens of a stream between blocks. Those of the first tokens lie in the backend's
 * memory. Where that memory is short, the rest is spilled to host memory (of a device) or to a file and read back chunk
 * by chunk. The numbers are the same wherever they lie. */
#ifndef MODEL_HIDDEN_H
#define MODEL_HIDDEN_H

#include "files/spill.h"
#include "model/embed.h"

/* How much of a stream stays in the backend's memory, and where the rest goes. {HIDDEN_PARTS}: all of it stays. */
enum { HIDDEN_PARTS = 16 };
struct hidden_place {
    int64_t parts;         /* of HIDDEN_PARTS; whole chunks of the stream */
    const char *directory; /* of the file; NULL: host memory (which only a device's backend spills into) */
};

struct hidden {
    struct backend *backend; /* NULL: there is none */
    struct matrix rows;      /* [resident, d] of the first tokens; lent if `lent` */
    struct matrix window;    /* [largest chunk, d]: one spilled chunk, while it is lent out */
    void *staging;           /* host memory on the window's way, if the backend's memory is not the host's */
    struct spill *spill;
    /* Rows in the host memory of a device: the next chunk is copied in, and the last one out, while one is computed. */
    struct hidden_away {
        char *memory;
        struct matrix windows[2]; /* [largest chunk, d] */
        int64_t first[2];         /* token that a window begins with; -1: none */
        int points[2];            /* points of the lane, after which a window is complete */
        int last;                 /* point after which everything is in host memory */
    } away;
    int64_t tokens, width;
    bool lent;
};

/* Space for the tokens of `chunks`. On failure hidden_reset is still due. STATUS_NO_MEMORY, STATUS_DISK_FULL,
 * STATUS_IO. */
MUST_CHECK enum status hidden_init(struct hidden *hidden, struct backend *backend, const struct chunks *chunks,
                                   int64_t width, const struct hidden_place *place, struct error *error);
/* A stream over hidden states that the caller owns. */
struct hidden hidden_of(struct backend *backend, struct matrix rows);
void hidden_reset(struct hidden *hidden); /* {0} is fine */

/* Adds to the plan what hidden_init takes of each memory, and the tokens. */
void hidden_plan(const struct backend *backend, const struct chunks *chunks, int64_t width,
                 const struct hidden_place *place, struct run_plan *plan);

/* Fills the stream with the embeddings of the tokens, the input of the first block. */
MUST_CHECK enum status hidden_embed(struct embed *embed, const struct chunks *chunks, struct hidden *hidden,
                                    struct error *error);

/* Lends the rows of one chunk until the next chunk is lent. A caller that changed them returns them with
 * hidden_return. */
MUST_CHECK enum status hidden_lend(struct hidden *hidden, const struct chunk *chunk, struct matrix *out,
                                   struct error *error);
MUST_CHECK enum status hidden_return(struct hidden *hidden, const struct chunk *chunk, struct error *error);

/* Copies rows [first, first + count) between the stream and dense host memory of F32 or F64; for spilled rows the type
 * must be the backend's (hidden_dtype). */
MUST_CHECK enum status hidden_read(struct hidden *hidden, int64_t first, int64_t count, void *to, enum dtype dtype,
                                   struct error *error);
MUST_CHECK enum status hidden_write(struct hidden *hidden, int64_t first, int64_t count, const void *from,
                                    enum dtype dtype, struct error *error);
/* The type of the backend's numbers. */
enum dtype hidden_dtype(const struct hidden *hidden);

/* The rows of one chunk of states that all lie in memory. */
struct matrix hidden_rows(struct matrix hidden, const struct chunk *chunk);

#endif
