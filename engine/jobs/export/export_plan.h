/* export_plan.h: the treatment of each tensor of a checkpoint in an export: copied, left out, or replaced by the
 * tensors of a quantized layer, and with which grid. For export.c. */
#ifndef EXPORT_EXPORT_PLAN_H
#define EXPORT_EXPORT_PLAN_H

#include "jobs/export/export_fold.h"
#include "model/gguf_names.h"
#include "quant/export_format.h"

enum { EXPORT_PLAN_NAME = PARAMETER_NAME + 24 };

/* The treatment of a tensor of the original. */
struct export_item {
    const struct parameter *layer; /* quantized; NULL: copied */
    struct export_grid grid;       /* of the layer */
    int64_t block;                 /* of the layer */
    int64_t first, count;          /* its entries; first -1: left out, because nothing reads it */
    int64_t head_rows;             /* GGUF: rows are interleaved within heads of so many; 0: not interleaved */
    char name[GGUF_NAMES_SIZE];    /* in GGUF; "" in other formats, and if it has none */
    bool written;                  /* in this attempt; for export.c */
};

struct export_plan {
    const struct export_format *format;
    const struct model *model;
    struct export_grid grid; /* the method's own */
    int64_t tensors, entry_count, module_count;
    struct export_item *items; /* [tensors] */
    struct safetensors_entry *entries;
    char (*names)[EXPORT_PLAN_NAME]; /* of entries */
    int64_t (*shapes)[2];
    struct export_module *modules; /* every linear of the blocks, and other linears, which are not quantized */
    char (*module_names)[PARAMETER_NAME];
    struct export_fold *fold; /* NULL: layers have no scales of columns, or values are stored */
};

/* Whether that format can store the result of `method` (complete) for this model. STATUS_UNSUPPORTED with the pointer
 * "/export": the method, a layer's shape, an architecture whose packed layers no tool loads; statuses of
 * overrides_new. */
MUST_CHECK enum status export_plan_check(int format, const struct quantize_method *method, const struct model *model,
                                         struct error *error);

/* Fills the plan; model and method are lent. The caller calls export_plan_reset, also on failure. Statuses of
 * export_plan_check, STATUS_NO_MEMORY. */
MUST_CHECK enum status export_plan_init(struct export_plan *plan, int format, const struct quantize_method *method,
                                        const struct model *model, struct error *error);
void export_plan_reset(struct export_plan *plan); /* {0} is fine */

/* The quantization's configuration as a JSON object, for a format that has one; the caller frees it (free). */
MUST_CHECK enum status export_plan_configuration(const struct export_plan *plan, char **out, struct error *error);

#endif
