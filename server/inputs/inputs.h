/* inputs.h: opens the inputs of a run for the engine: a registered checkpoint, its tokenizer, sequences of a
 * dataset. */
#ifndef INPUTS_INPUTS_H
#define INPUTS_INPUTS_H

#include "inputs/checkpoint_place.h"
#include "inputs/data_source.h"
#include "inputs/run_context.h"
#include "model/model.h"
#include "schema/form.h"
#include "store/checkpoints.h"

enum precision { PRECISION_F32, PRECISION_BF16 };
extern const char *const inputs_precisions[]; /* ends with NULL */

#define INPUTS_PRECISION_PARAM(at)                                                                               \
    {                                                                                                            \
        .name = "precision", .type = PARAM_CHOICE, .schema = "Precision", .offset = (at), .fallback = "\"f32\"", \
        .choices = inputs_precisions, .help = "The format that factors of the model's products are rounded to"   \
    }

/* `text`: what the seed is for. Up to 2^53, because every JSON reader represents such integers exactly. */
#define INPUTS_SEED_PARAM(at, text)                                                           \
    {                                                                                         \
        .name = "seed", .type = PARAM_INTEGER, .offset = (at), .fallback = "0", .minimum = 0, \
        .maximum = 9007199254740992.0, .help = text                                           \
    }

/* The datasets for calibrating a quantizer and for measuring losses; each a struct data_use at `at`. */
#define INPUTS_CALIBRATION_PARAM(at)                                                          \
    {                                                                                         \
        .name = "calibration", .type = PARAM_OBJECT, .schema = "Calibration", .offset = (at), \
        .children = data_source_calibration, .fallback = "null", .nullable = true,            \
        .help = "Data for calibrating the quantizer; null only for methods that need none"    \
    }
#define INPUTS_EVALUATION_PARAM(at, text)                                                   \
    {                                                                                       \
        .name = "evaluation", .type = PARAM_OBJECT, .schema = "Evaluation", .offset = (at), \
        .children = data_source_evaluation, .help = text                                    \
    }
#define INPUTS_EVALUATION_OR_NULL_PARAM(at, text)                                              \
    {                                                                                          \
        .name = "evaluation", .type = PARAM_OBJECT, .schema = "Evaluation", .offset = (at),    \
        .children = data_source_evaluation, .fallback = "null", .nullable = true, .help = text \
    }

/* The name of a checkpoint or trajectory to make. `text`: the meaning of null. */
#define INPUTS_NAME_PARAM(label, at, text)                                                           \
    {                                                                                                \
        .name = (label), .type = PARAM_STRING, .offset = (at), .fallback = "null", .nullable = true, \
        .maximum = STORE_NAME_GIVEN, .form = &form_name, .help = text                                \
    }

struct inputs {
    struct checkpoint row;
    struct checkpoint_place place;
    struct model *model;
    struct tokenizer *tokenizer; /* NULL until a text needs it */
    const struct roots *roots;   /* lent */
    struct backend *backend;
    bool calibrates_on_heads; /* set by inputs_sequences: the heads of text files that have more text */
};

/* Opens checkpoint `id`: its place (checkpoint_place_open: fetched first when it must be), files as registered
 * (STATUS_INPUT_CHANGED); hashes its content if nobody did yet. For a plan nothing is fetched or hashed. The caller
 * resets *out. */
MUST_CHECK enum status inputs_open(const struct run_context *context, const char *id, int precision, struct inputs *out,
                                   struct error *error);
void inputs_reset(struct inputs *inputs);

/* Makes the context's backend with its budget, and with products in `precision`; for a plan, one that only plans. The
 * caller frees it (backend_free). */
MUST_CHECK enum status inputs_backend(const struct run_context *context, int precision, struct backend **out,
                                      struct error *error);

/* What determines the files of a checkpoint in a repository, fetched or not, for the identity of a run: its commit, and
 * the names of its files where they were chosen, because directories of one commit may have the same weights and other
 * tokenizers or training states. The caller owns it; NULL: no memory. */
json_t *inputs_pinned(const struct checkpoint *row);

/* Opens the checkpoint's tokenizer unless it is open. Statuses of tokenizer_open. */
MUST_CHECK enum status inputs_open_tokenizer(struct inputs *inputs, struct error *error);

/* What is said when calibrates_on_heads, with the number of sequences (long long). */
#define INPUTS_HEADS \
    "calibrated on the heads of text files, one document each (%lld in all); \"packing\": \"blocks\" uses all text"

/* The sequences of `use`. Calibration adds special tokens to text and cuts documents to the model's positions;
 * evaluation does neither. Writes the dataset's name into `name` (may be NULL). The caller owns *out
 * (dataset_sequences_free). STATUS_INVALID (sequence_length above the model's positions, too little text, ids outside
 * the vocabulary), statuses of data_source_open, tokenizer_open and dataset_load. */
MUST_CHECK enum status inputs_sequences(const struct run_context *context, struct inputs *inputs,
                                        const struct data_use *use, bool calibration, struct sequences *out,
                                        char name[STORE_NAME], struct error *error);

/* For check, of the data_use in `object` of the parameters ("evaluation", "direction/calibration"; NULL: themselves).
 * The default of sequence_length, sent or not, becomes null for sequences given inline, which are used as they are, and
 * the model's positions where config.json has fewer; that is written back. Text needs
 * the checkpoint's tokenizer.json, which decides the result too: its hash goes into request->identity. STATUS_INVALID
 * at the dataset without one, and at a sequence_length that text as blocks lacks or that is above the positions of the
 * checkpoint's config.json. */
MUST_CHECK enum status inputs_check_use(struct run_request *request, const char *checkpoint, const char *dataset,
                                        const char *object, struct error *error);

/* For check: text is read with the checkpoint's tokenizer.json; its hash goes into request->identity. STATUS_INVALID at
 * `pointer` without one. */
MUST_CHECK enum status inputs_check_tokenizer(struct run_request *request, const char *checkpoint, const char *pointer,
                                              struct error *error);

/* A number for a result; null when it is not finite. */
json_t *inputs_number(double value);

#endif
