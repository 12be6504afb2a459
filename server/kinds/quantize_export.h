/* quantize_export.h: the checkpoint that a quantize run leaves: a packed one as artifacts, a dequantized one registered
 * beside the original, in the trajectory NAME-quantized. */
#ifndef KINDS_QUANTIZE_EXPORT_H
#define KINDS_QUANTIZE_EXPORT_H

#include "inputs/inputs.h"
#include "jobs/export/export.h"

/* For check: whether method and, as far as its files are here, checkpoint can be so stored (export_check), at
 * /params/export. */
MUST_CHECK enum status quantize_export_check(const struct run_request *request, int format, const char *checkpoint,
                                             const struct quantize_method *method, struct error *error);

/* export_open in the run's work directory. */
MUST_CHECK enum status quantize_export_open(const struct run_context *context, int format,
                                            const struct quantize_method *method, const struct inputs *inputs,
                                            struct export_job **out, struct error *error);

/* Finishes the export and publishes it. The caller owns *out: {"format", "artifact", "artifacts", "checkpoint"}.
 * Statuses of export_finish, artifact_publish_file, checkpoint_files_register. */
MUST_CHECK enum status quantize_export_publish(const struct run_context *context, int format,
                                               const struct quantize_method *method, const struct inputs *inputs,
                                               struct export_job *job, json_t **out, struct error *error);

#endif
