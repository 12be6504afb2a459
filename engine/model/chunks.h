/* chunks.h: sequences cut into batches of whole sequences, so that the memory of a forward pass depends on the chunk
 * and not on the data. */
#ifndef MODEL_CHUNKS_H
#define MODEL_CHUNKS_H

#include "backend/backend.h"
#include "base/error.h"
#include "dataset/dataset.h"

struct chunk {
    struct batch batch;  /* starts count from the chunk's first token */
    int64_t first_token; /* of the chunk, in all the sequences' tokens */
    int64_t first_sequence;
};

struct chunks {
    int64_t count;
    struct chunk *chunks;
    int64_t tokens, sequences, predictions;
    int64_t longest; /* tokens in the longest sequence */
    int64_t largest; /* tokens in the largest chunk */
    void *memory;    /* the arrays of all batches */
};

/* The tokens of a chunk of a forward pass: at least 2048, which is enough for a processor's matrix products and takes
 * little memory. More for narrow models, whose products spend much of their time on packing (for each row of a tile:
 * 5 % of quantizing 576 channels), and on devices (struct backend_sizes). */
int64_t chunks_tokens(const struct backend *backend, int64_t hidden_size);

/* Each chunk has as many whole sequences as fit into `tokens`, at least one. Copies what it needs of `sequences`. The
 * caller owns *out (chunks_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status chunks_init(const struct sequences *sequences, int64_t tokens, struct chunks *out,
                                   struct error *error);
void chunks_reset(struct chunks *chunks);          /* {0} is fine */
int64_t chunks_bytes(const struct chunks *chunks); /* that it takes of host memory */

#endif
