/* export.h: keeps the checkpoint that a quantization makes, in a directory that others load: model.safetensors (or
 * shards, or model.gguf), config.json, the tokenizer, and what a format wants besides (quant/export_format.h). Layers
 * are written as the walk quantizes them, through its hook, each packed a few rows at a time; then the other tensors
 * are copied. A killed run's export is gone on with (export_keeper). Packed formats leave those
 * as they are stored; "dequantized" is float32 throughout, so that it holds exactly the model that was measured. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "jobs/quantize/quantize.h"
#include "quant/export_format.h"

struct export_job;

/* Whether the model that `method` (complete) makes of this one can be stored in that format. STATUS_UNSUPPORTED with
 * the pointer "/export": the method, a layer's shape, an architecture whose packed layers nobody loads; statuses of
 * overrides_new. */
MUST_CHECK enum status export_check(int format, const struct quantize_method *method, const struct model *model,
                                    struct error *error);

/* Begins `directory` (its parent exists), or goes on with what an earlier export of the same to the same left there.
 * model and method are lent. The caller owns *out (export_close). Statuses of export_check, weights_writer_open,
 * config_files_write. */
MUST_CHECK enum status export_open(int format, const struct quantize_method *method, const struct model *model,
                                   const char *directory, struct export_job **out, struct error *error);

/* For quantize_request, whose backend is lent too: writes each layer. */
struct sequential_hook export_hook(struct export_job *job, struct backend *backend);
/* Whether the files store scales as float16, so that quantize_request is to measure them so. */
bool export_half_scales(const struct export_job *job);
/* Beside it, for requests that are kept. */
struct quantize_keeper export_keeper(struct export_job *job);

/* Writes the rest and puts the weights in place, durable. STATUS_INTERNAL when a layer did not come by. Still needs
 * export_close. */
MUST_CHECK enum status export_finish(struct export_job *job, const struct monitor *monitor, struct error *error);
/* The file to name for the weights: themselves, or the index of their shards. Lent. */
const char *export_weights_name(const struct export_job *job);
/* What was written stays, to be gone on with. NULL is fine. */
void export_close(struct export_job *job);
/* Of a finished one: removes what only later attempts need, or the whole directory. Ignores what is not there. */
void export_tidy(const char *directory);
void export_remove(const char *directory);

#endif
