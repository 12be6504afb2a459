/* quantize_export.h: the exported checkpoint of a quantize run: a packed one as artifacts, a dequantized one registered
 * beside the original, in the trajectory NAME-quantized. */
#ifndef KINDS_QUANTIZE_EXPORT_H
#define KINDS_QUANTIZE_EXPORT_H

#include "base/result.h"
#include "inputs/inputs.h"
#include "jobs/export/export.h"

enum { QUANTIZE_EXPORT_NAME = 128 };

/* The export of a run. {0}: none. */
struct quantize_exported {
    const char *format; /* the requested format; NULL: none */
    char artifact[QUANTIZE_EXPORT_NAME];
    char (*files)[QUANTIZE_EXPORT_NAME]; /* [file_count], by name; owned */
    int64_t file_count;
    bool registered; /* the dequantized checkpoint was registered, as `checkpoint` */
    struct store_id checkpoint;
};
void quantize_export_reset(struct quantize_exported *exported);

/* The table of struct quantize_exported. */
extern const struct result_shape quantize_export_shape;

/* For check: STATUS_OK when the method and the checkpoint can be stored in this format (export_check); the checkpoint
 * is checked as far as its files are here. Errors are at /params/export. */
MUST_CHECK enum status quantize_export_check(const struct run_request *request, int format, const char *checkpoint,
                                             const struct quantize_method *method, struct error *error);

/* As export_open, in the run's work directory. */
MUST_CHECK enum status quantize_export_open(const struct run_context *context, int format,
                                            const struct quantize_method *method, const struct inputs *inputs,
                                            struct export_job **out, struct error *error);

/* Finishes the export and publishes it. The caller resets *out. Statuses of export_finish,
 * artifact_publish_file, made_checkpoint_register. */
MUST_CHECK enum status quantize_export_publish(const struct run_context *context, int format,
                                               const struct quantize_method *method, const struct inputs *inputs,
                                               struct export_job *job, struct quantize_exported *out,
                                               struct error *error);

#endif
