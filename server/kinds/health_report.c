#include "kinds/health_report.h"

/* --- Metrics ---- */

static const struct result_metric weight_l1_metric = {
    .name = "weight_l1",
    .label = "L1 norm of weights",
    .axis = "L1 norm of the weights",
    .help = "Sum of magnitudes",
};
static const struct result_metric weight_l2_metric = {
    .name = "weight_l2",
    .label = "Norm of weights",
    .axis = "L2 norm of the weights",
    .help = "L2 norm",
};
static const struct result_metric weight_linf_metric = {
    .name = "weight_linf",
    .label = "Largest weight",
    .axis = "largest magnitude of a weight",
    .help = "Largest magnitude",
};
static const struct result_metric weight_kurtosis_metric = {
    .name = "weight_kurtosis",
    .label = "Kurtosis of weights",
    .axis = "kurtosis of the weights",
    .help = "Mean over matrices, each weighing its elements, of the fourth moment by the square of the second; null "
            "without a matrix",
};
static const struct result_metric weight_outlier_share_metric = {
    .name = "weight_outlier_share",
    .label = "Share of outlier weights",
    .axis = "weights beyond 6 times their tensor's root mean square",
    .help = "Share of numbers beyond 6 times their tensor's root mean square",
    .format = RESULT_PERCENT,
};
static const struct result_metric weight_change_metric = {
    .name = "weight_change",
    .label = "Change of weights",
    .axis = "weights' change from checkpoint to checkpoint",
    .help = "L2 norm of the difference to the checkpoint before, relative to that one; null without one",
    .format = RESULT_PERCENT,
};
static const struct result_metric weight_cosine_metric = {
    .name = "weight_cosine",
    .label = "Cosine of weights",
    .axis = "cosine of the weights with those of the checkpoint before",
    .help = "Between the weights and those of the checkpoint before; null without one",
};

/* --- The table ---- */

#define NUMBERS(field) offsetof(struct health_numbers, field)

static const struct result_field numbers_fields[] = {
    {.name = "elements", .type = RESULT_INTEGER, .offset = NUMBERS(elements), .help = "Numbers that were read"},
    {.name = "nan", .type = RESULT_INTEGER, .offset = NUMBERS(health.nan), .help = "Those that are not a number"},
    {.name = "infinite", .type = RESULT_INTEGER, .offset = NUMBERS(health.infinite), .help = "Those that are infinite"},
    {.name = "l1", .type = RESULT_NUMBER, .offset = NUMBERS(health.l1), .finite = true, .metric = &weight_l1_metric},
    {.name = "l2", .type = RESULT_NUMBER, .offset = NUMBERS(health.l2), .finite = true, .metric = &weight_l2_metric},
    {.name = "linf",
     .type = RESULT_NUMBER,
     .offset = NUMBERS(health.linf),
     .finite = true,
     .metric = &weight_linf_metric},
    {.name = "kurtosis",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = NUMBERS(health.kurtosis),
     .metric = &weight_kurtosis_metric},
    {.name = "outlier_share",
     .type = RESULT_NUMBER,
     .offset = NUMBERS(health.outlier_share),
     .finite = true,
     .metric = &weight_outlier_share_metric},
    {.name = "relative_l2",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = NUMBERS(health.relative),
     .metric = &weight_change_metric},
    {.name = "cosine",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = NUMBERS(health.cosine),
     .metric = &weight_cosine_metric},
    {0},
};
static const struct result_shape numbers_shape = {.fields = numbers_fields};

static const struct result_field block_fields[] = {
    {.name = "layer",
     .type = RESULT_INTEGER,
     .offset = offsetof(struct health_block, layer),
     .help = "The first whole number in the names of its tensors"},
    {.type = RESULT_MERGED, .offset = offsetof(struct health_block, numbers), .shape = &numbers_shape},
    {0},
};
static const struct result_shape block_shape = {.fields = block_fields, .size = sizeof(struct health_block)};
static const struct result_field block_item = {.type = RESULT_OBJECT, .shape = &block_shape};

#define FILE_AT(field) offsetof(struct health_file, field)

static const struct result_field file_fields[] = {
    {.name = "file", .type = RESULT_INTEGER, .offset = FILE_AT(file), .help = "Its place among the checkpoint's files"},
    {.name = "name", .type = RESULT_CHARS, .offset = FILE_AT(name)},
    {.name = "sha256",
     .type = RESULT_CHARS,
     .offset = FILE_AT(sha256),
     .help = "Over the names and hashes of its tensors"},
    {.name = "tensors", .type = RESULT_INTEGER, .offset = FILE_AT(tensors), .help = "How many it holds"},
    {.name = "relative_l2",
     .type = RESULT_NUMBER,
     .offset = FILE_AT(relative),
     .metric = &weight_change_metric,
     .unkept = true},
    {0},
};
static const struct result_shape file_shape = {.fields = file_fields, .size = sizeof(struct health_file)};
static const struct result_field file_item = {.type = RESULT_OBJECT, .shape = &file_shape};

#define TENSOR(field) offsetof(struct health_tensor, field)

static const struct result_field tensor_fields[] = {
    {.name = "name", .type = RESULT_TEXT, .offset = TENSOR(name)},
    {.name = "dtype", .type = RESULT_TEXT, .offset = TENSOR(dtype), .help = "What its numbers are stored as"},
    {.name = "layer",
     .type = RESULT_INTEGER,
     .offset = TENSOR(layer),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = TENSOR(in_layer),
     .help = "The first whole number in its name; null without one"},
    {.name = "file", .type = RESULT_CHARS, .offset = TENSOR(file), .help = "Name of the file that holds it"},
    {.name = "sha256",
     .type = RESULT_CHARS,
     .offset = TENSOR(sha256),
     .help = "Of its numbers as little-endian float32 in row-major order, whatever they are stored as"},
    {.name = "elements", .type = RESULT_INTEGER, .offset = TENSOR(elements), .help = "Numbers that it has"},
    {.name = "nan", .type = RESULT_INTEGER, .offset = TENSOR(nan), .help = "Those that are not a number"},
    {.name = "infinite", .type = RESULT_INTEGER, .offset = TENSOR(infinite), .help = "Those that are infinite"},
    {.name = "l1", .type = RESULT_NUMBER, .offset = TENSOR(l1), .finite = true, .help = "Sum of magnitudes"},
    {.name = "l2", .type = RESULT_NUMBER, .offset = TENSOR(l2), .finite = true, .help = "L2 norm"},
    {.name = "linf", .type = RESULT_NUMBER, .offset = TENSOR(linf), .finite = true, .help = "Largest magnitude"},
    {.name = "mean", .type = RESULT_NUMBER, .offset = TENSOR(mean), .finite = true, .help = "Mean of the numbers"},
    {.name = "kurtosis",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = TENSOR(kurtosis),
     .help = "The fourth central moment by the square of the second; null where all numbers are the same"},
    {.name = "outliers",
     .type = RESULT_INTEGER,
     .offset = TENSOR(outliers),
     .help = "Numbers beyond 6 times its root mean square"},
    {.name = "relative_l2",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = TENSOR(relative),
     .help =
         "L2 norm of the difference to the tensor of the checkpoint before, relative to that one; null without one"},
    {.name = "cosine",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = TENSOR(cosine),
     .help = "Between its numbers and those of the checkpoint before; null without one"},
    {0},
};
const struct result_shape health_report_tensor = {
    .name = "TensorHealth", .fields = tensor_fields, .size = sizeof(struct health_tensor)};

#define REPORT(field) offsetof(struct health_report, field)

static const struct result_field report_fields[] = {
    {.name = "sha256",
     .type = RESULT_CHARS,
     .offset = REPORT(sha256),
     .help = "Over the names and hashes of all tensors"},
    {.name = "tensor_count",
     .type = RESULT_INTEGER,
     .offset = REPORT(tensor_count),
     .help = "Of floating point numbers; others are not read"},
    {.name = "previous",
     .type = RESULT_TEXT,
     .offset = REPORT(previous),
     .absence = RESULT_NULL,
     .help = "The checkpoint it was compared with"},
    {.name = "files",
     .type = RESULT_LIST,
     .offset = REPORT(files),
     .count = REPORT(file_count),
     .item = &file_item,
     .help = "Those with tensors"},
    {.name = "blocks",
     .type = RESULT_LIST,
     .offset = REPORT(blocks),
     .count = REPORT(block_count),
     .item = &block_item,
     .help = "By layer"},
    {.type = RESULT_MERGED, .offset = REPORT(all), .shape = &numbers_shape},
    {.name = "note",
     .type = RESULT_TEXT,
     .offset = REPORT(note),
     .absence = RESULT_LEFT_OUT,
     .help = "Why it was not compared"},
    {0},
};

const struct result_shape health_report_shape = {
    .name = "HealthResult", .help = "The tensors are at /v1/checkpoints/{checkpoint}/health.", .fields = report_fields};

struct health_numbers health_report_numbers(const struct reading *reading, int layer)
{
    struct health_numbers out;
    reading_health(reading, layer, &out.health);
    out.elements = out.health.count + out.health.nan + out.health.infinite;
    return out;
}
