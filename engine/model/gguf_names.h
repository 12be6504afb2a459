/* gguf_names.h: a model as GGUF describes it, for writing a file: names of tensors, order of rows, metadata.
 * (formats/gguf/gguf_model.h reads them.) A new architecture is a row in gguf_names.c. */
#ifndef MODEL_GGUF_NAMES_H
#define MODEL_GGUF_NAMES_H

#include "formats/gguf/gguf_writer.h"
#include "model/model.h"

enum { GGUF_NAMES_SIZE = 64, GGUF_NAMES_DIVISORS = 512 };

/* Checks that readers of GGUF compute this model. STATUS_UNSUPPORTED with the reason. */
MUST_CHECK enum status gguf_names_check(const struct model *model, struct error *error);

/* Calls `each` with every tensor that goes into the file: its number in the model's weights, its name there, and the
 * rows of a head where those of queries and keys are interleaved, else 0. The model has passed gguf_names_check. */
void gguf_names_each(const struct model *model,
                     void (*each)(void *owner, int64_t tensor, const char *name, int64_t head_rows), void *owner);

/* The row of the model that is row `stored` of the file. */
int64_t gguf_names_row(int64_t stored, int64_t head_rows);

/* Architecture and sizes. */
void gguf_names_describe(const struct model *model, struct gguf_metadata *metadata);

/* The divisors of scaled rotary frequencies, the tensor "rope_freqs.weight" [count]; returns 0 without scaling. */
int64_t gguf_names_divisors(const struct model *model, float divisors[GGUF_NAMES_DIVISORS]);

#endif
