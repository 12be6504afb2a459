/* export_format.h: formats in which other tools store quantized layers: the tensors of a layer, the packing of its
 * codes, and the text of the configuration. A format is a file with its row, and a line in export_format.c. All formats
 * store a grid, value = (code - zero) * scale, with one scale for each group of a row's columns; other codings fit none
 * of them. */
#ifndef QUANT_EXPORT_FORMAT_H
#define QUANT_EXPORT_FORMAT_H

#include "quant/quantize_method.h"
#include "quant/quantized_layer.h"
#include "weights/weights_writer.h"

#include <stdio.h>

/* In the order of the API. */
enum export_id {
    EXPORT_NONE,
    EXPORT_GPTQ,
    EXPORT_COMPRESSED_TENSORS,
    EXPORT_DEQUANTIZED,
    EXPORT_AWQ,
    EXPORT_GGUF,
    EXPORT_COUNT
};

/* The common properties of a checkpoint's layers. */
struct export_grid {
    int bits;
    int64_t group_size; /* as in the API: -1 for a whole row */
    bool sym;
    bool column_scales; /* AWQ's, which are divided out of the operation before */
    bool ordered;       /* g_idx gives the group of a column */
    enum dtype stored;  /* dtype of most of the original's weights */
};

enum { EXPORT_TENSORS = 5 };

/* One of the tensors that replace NAME.weight. */
struct export_tensor {
    const char *suffix; /* NAME.suffix */
    enum dtype dtype;
    int rank;
    int64_t shape[2];
};

/* The linear modules of the model, by their full names without ".weight". */
struct export_module {
    const char *name;               /* lent */
    const struct export_grid *grid; /* NULL: it is not quantized */
};
struct export_modules {
    const struct export_module *list;
    int64_t count;
    const char *output; /* name of the output matrix, which is not quantized either */
};

/* The place of a layer: its tensors are entries from `first` on. */
struct export_place {
    struct weights_writer *writer;
    int64_t first;
    int64_t head_rows; /* GGUF: rows are interleaved within heads of so many (model/gguf_names.h); 0: they are not */
};

struct export_format {
    const char *name; /* as in the API */
    /* name of a file that repeats quantization_config of config.json; NULL: none */
    const char *configuration;
    /* its readers accept layers of different grids; weights stored as [in, out]; experts */
    bool mixed, transposed, experts;
    /* group sizes that its readers accept, ends with 0; a group that holds whole rows is stored as -1; NULL: any */
    const int64_t *groups;
    /* NULL in a format that stores values, like all functions below. STATUS_UNSUPPORTED with a detail that names the
     * parameter. */
    enum status (*check)(const struct export_grid *grid, struct error *error);
    /* Whether a layer of this shape can be stored; `name` for messages. STATUS_UNSUPPORTED. */
    enum status (*fits)(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error);
    /* Fills out[0 … n) and returns n. */
    int (*tensors)(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS]);
    /* The dtype in which scales of such a grid are stored. */
    enum dtype (*scales)(const struct export_grid *grid);
    /* Scales and minima that float16 cannot hold are STATUS_UNSUPPORTED; statuses of the writer, STATUS_NO_MEMORY. */
    enum status (*write)(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error);
    /* The quantization's configuration, a JSON object. */
    void (*configure)(const struct export_grid *grid, const struct export_modules *modules, FILE *out);
    /* Only for GGUF, instead of that: writes the quantization into the file's metadata. */
    void (*describe)(const struct export_grid *grid, struct gguf_metadata *metadata);
};

extern const struct export_format export_gptq, export_compressed_tensors, export_dequantized, export_awq, export_gguf;
/* The row for an enum export_id that is not EXPORT_NONE. */
const struct export_format *export_format_by_id(int id);

/* Whether the format can store the result of the method, for any model; and its grid if the format stores grids.
 * STATUS_UNSUPPORTED with the pointer "/export". */
MUST_CHECK enum status export_format_check(const struct export_format *format, const struct quantize_method *method,
                                           struct export_grid *grid, struct error *error);

/* The grid of a layer with this method (overrides applied), without the fields that depend on the model. Statuses and
 * pointer of export_format_check. */
MUST_CHECK enum status export_format_grid(const struct quantize_method *method, struct export_grid *grid,
                                          struct error *error);
bool export_format_same(const struct export_grid *a, const struct export_grid *b); /* bits and groups */

/* For formats: number of groups in a row, and columns of a group (-1: all). */
int64_t export_format_groups(const struct export_grid *grid, int64_t columns);

/* For configurations: "dynamic": {…}, with a comma behind it, in which GPTQModel expects the modules that are skipped
 * or have their own grid (nothing if there are none); and a list of the names of modules that are not quantized,
 * including the output, which Transformers calls lm_head whatever the files say. */
void export_format_dynamic(const struct export_grid *grid, const struct export_modules *modules, FILE *out);
void export_format_names(const struct export_modules *modules, FILE *out);

enum dtype export_format_half_scales(const struct export_grid *grid); /* DTYPE_F16 whatever the grid */
/* A number as float16; `what` names it in messages ("scale"). STATUS_UNSUPPORTED: too large, or so small that it
 * becomes 0. */
MUST_CHECK enum status export_format_half(const char *what, float value, uint16_t *out, struct error *error);

/* Scales [rows, groups], or (turned) [groups, rows], as entry `index`. Statuses of export_format_half for DTYPE_F16. */
MUST_CHECK enum status export_format_scales(const struct quantized_layer *layer, bool turned, enum dtype dtype,
                                            struct weights_writer *writer, int64_t index, struct error *error);

#endif
