/* export.h: writes the checkpoint that a quantization makes into a directory that other tools load: model.safetensors
 * (or shards, or model.gguf), config.json, the tokenizer, and other files of the format (quant/export_format.h). A hook
 * of the quantization writes layers as they are quantized, each packed a few rows at a time; then the other tensors are
 * copied. A killed run's export is continued (export_saver). Packed formats copy the other tensors as they are stored;
 * "dequantized" is float32 throughout, so that it is exactly the measured model. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "jobs/quantize/quantize.h"
#include "quant/export_format.h"

struct export_job;

/* Whether that format can store the result of `method` (complete) for this model. STATUS_UNSUPPORTED with the pointer
 * "/export": the method, a layer's shape, an architecture whose packed layers no tool loads; statuses of
 * overrides_new. */
MUST_CHECK enum status export_check(int format, const struct quantize_method *method, const struct model *model,
                                    struct error *error);

/* Begins `directory` (its parent exists), or continues an earlier export of the same model and method there. model and
 * method are lent. The caller owns *out (export_close). Statuses of export_check, weights_writer_open,
 * config_files_write. */
MUST_CHECK enum status export_open(int format, const struct quantize_method *method, const struct model *model,
                                   const char *directory, struct export_job **out, struct error *error);

/* For quantize_request, whose backend is lent too: writes each layer. */
struct sequential_hook export_hook(struct export_job *job, struct backend *backend);
/* Whether the files store scales as float16; quantize_request must then measure with such scales. */
bool export_half_scales(const struct export_job *job);
/* Goes with the hook, for requests whose streams are saved. */
struct quantize_saver export_saver(struct export_job *job);

/* Writes the rest and puts the weights in place, durable. STATUS_INTERNAL when a layer is missing. The caller still
 * calls export_close. */
MUST_CHECK enum status export_finish(struct export_job *job, const struct monitor *monitor, struct error *error);
/* The file that stands for the weights in messages: the weights, or the index of their shards. Lent. */
const char *export_weights_name(const struct export_job *job);
/* Keeps the files written so far, so that the export can be continued. NULL is fine. */
void export_close(struct export_job *job);
/* For a finished export: removes files that only later attempts need, or the whole directory. Missing files are
 * fine. */
void export_tidy(const char *directory);
void export_remove(const char *directory);
/* checkpoint_publish, for those whose own checkpoints are rows of the database. */
MUST_CHECK enum status export_publish(const char *directory, const char *to, struct error *error);

#endif
