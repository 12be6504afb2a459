/* export_format.h: how others store quantized layers: which tensors a layer becomes, how its codes are packed, and what
 * the configuration says. A format is a file with its row, and a line in export_format.c. All of them store a grid,
 * value = (code - zero) * scale, with one scale for each group of a row's columns; what else a layer may be fits none
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

/* What the layers of a checkpoint have in common. */
struct export_grid {
    int bits;
    int64_t group_size; /* as in the API: -1 for a whole row */
    bool sym;
    bool column_scales; /* AWQ's, which are divided out of what stands before */
    bool ordered;       /* g_idx says to which group a column belongs */
    enum dtype stored;  /* that most of the original's weights have */
};

enum { EXPORT_TENSORS = 5 };

/* One of the tensors that take the place of NAME.weight. */
struct export_tensor {
    const char *suffix; /* NAME.suffix */
    enum dtype dtype;
    int rank;
    int64_t shape[2];
};

/* The linear modules of the model, by their full names without ".weight". */
struct export_module {
    const char *name;               /* lent */
    const struct export_grid *grid; /* NULL: it stays as it is */
};
struct export_modules {
    const struct export_module *list;
    int64_t count;
    const char *output; /* name of the output matrix, which stays too */
};

/* Where a layer goes: its tensors are entries `first` and those after it. */
struct export_place {
    struct weights_writer *writer;
    int64_t first;
    int64_t head_rows; /* GGUF: rows are interleaved within heads of so many (model/gguf_names.h); 0: they are not */
};

struct export_format {
    const char *name; /* as in the API */
    /* name of the file that says the same as quantization_config in config.json; NULL: none */
    const char *configuration;
    bool mixed, transposed,
        experts; /* its readers take layers of different grids; weights that lie as [in, out]; experts */
    /* What follows is NULL of a format that stores values. STATUS_UNSUPPORTED with a detail that names the
     * parameter. */
    enum status (*check)(const struct export_grid *grid, struct error *error);
    /* Whether a layer of this shape can be stored; `name` for messages. STATUS_UNSUPPORTED. */
    enum status (*fits)(const struct export_grid *grid, const char *name, int64_t rows, int64_t columns,
                        struct error *error);
    /* Fills out[0 … n) and returns n. */
    int (*tensors)(const struct export_grid *grid, int64_t rows, int64_t columns,
                   struct export_tensor out[EXPORT_TENSORS]);
    /* How the scales of such a grid are stored. */
    enum dtype (*scales)(const struct export_grid *grid);
    /* Scales that float16 cannot hold are STATUS_UNSUPPORTED; statuses of the writer, STATUS_NO_MEMORY. */
    enum status (*write)(const struct export_grid *grid, const struct quantized_layer *layer,
                         const struct export_place *place, struct error *error);
    /* The quantization's configuration, a JSON object. */
    void (*configure)(const struct export_grid *grid, const struct export_modules *modules, FILE *out);
    /* In place of that, for GGUF: what the file's metadata say of the quantization. */
    void (*describe)(const struct export_grid *grid, struct gguf_metadata *metadata);
};

extern const struct export_format export_gptq, export_compressed_tensors, export_dequantized, export_awq, export_gguf;
/* The row for an enum export_id that is not EXPORT_NONE. */
const struct export_format *export_format_by_id(int id);

/* Whether what the method makes can be so stored, whatever the model, and its grid where the format stores grids.
 * STATUS_UNSUPPORTED with the pointer "/export". */
MUST_CHECK enum status export_format_check(const struct export_format *format, const struct quantize_method *method,
                                           struct export_grid *grid, struct error *error);

/* The grid of a layer with this method (overrides applied); without the model's part. Statuses and pointer of
 * export_format_check. */
MUST_CHECK enum status export_format_grid(const struct quantize_method *method, struct export_grid *grid,
                                          struct error *error);
bool export_format_same(const struct export_grid *a, const struct export_grid *b); /* bits and groups */

/* For formats: groups of a row, and columns of a group (-1: all). */
int64_t export_format_groups(const struct export_grid *grid, int64_t columns);

/* For configurations: "dynamic": {…}, with a comma behind it, as GPTQModel wants modules to be named that are skipped
 * or have a grid of their own (nothing where none are); and a list of the names of those that stay and of the output's,
 * which Transformers calls lm_head whatever files say. */
void export_format_dynamic(const struct export_grid *grid, const struct export_modules *modules, FILE *out);
void export_format_names(const struct export_modules *modules, FILE *out);

enum dtype export_format_half_scales(const struct export_grid *grid); /* DTYPE_F16 whatever the grid */
/* A scale as float16. STATUS_UNSUPPORTED: too large, or so small that nothing is left of it. */
MUST_CHECK enum status export_format_half(float scale, uint16_t *out, struct error *error);

/* Scales [rows, groups], or (turned) [groups, rows], as entry `index`. Statuses of export_format_half for DTYPE_F16. */
MUST_CHECK enum status export_format_scales(const struct quantized_layer *layer, bool turned, enum dtype dtype,
                                            struct weights_writer *writer, int64_t index, struct error *error);

#endif
