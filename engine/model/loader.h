/* loader.h: the blocks of a model, one after another. While the caller works on a block, a thread of the loader reads
 * the next one. Two blocks are in memory, and the disk is busy. A device gets weights of 16 bits as they are stored. */
#ifndef MODEL_LOADER_H
#define MODEL_LOADER_H

#include "model/model.h"

struct loader;

/* A block in memory: matrices by parameter number of its program. Belongs to the loader; the caller may change the
 * numbers. */
struct block {
    int64_t layer;
    const struct program *program;
    struct matrix parameters[PROGRAM_PARAMETERS];
};

/* Begins to read layer 0. `model` and `backend` must outlive the loader. STATUS_NO_MEMORY. */
MUST_CHECK enum status loader_open(const struct model *model, struct backend *backend, struct loader **out,
                                   struct error *error);
/* loader_open, but from layer `first` on. */
MUST_CHECK enum status loader_open_at(const struct model *model, struct backend *backend, int64_t first,
                                      struct loader **out, struct error *error);

/* Lends the next block, valid until the next call. STATUS_NOT_FOUND after the last one; statuses of model_read. */
MUST_CHECK enum status loader_next(struct loader *loader, struct block **out, struct error *error);

/* A copy of a block that may be changed while the block stays: the elements of memory that the largest copy takes, and
 * the copy. */
int64_t loader_elements(const struct model *model);
void loader_copy(struct backend *backend, const struct block *from, void *memory, struct block *to);

/* Bytes that an open loader takes of the backend's memory, and of the host's beside it. */
int64_t loader_bytes(const struct model *model, const struct backend *backend);
int64_t loader_staging_bytes(const struct model *model, const struct backend *backend);

void loader_close(struct loader *loader); /* NULL is fine */

#endif
