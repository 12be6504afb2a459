/* health_report.h: the result of reading a checkpoint's weights, in the API's shape and as numbers for curves. */
#ifndef KINDS_HEALTH_REPORT_H
#define KINDS_HEALTH_REPORT_H

#include "base/result.h"
#include "health/reading.h"

/* The numbers of the whole checkpoint or of one block. */
struct health_numbers {
    struct health health;
    int64_t elements;
};

struct health_block {
    int64_t layer;
    struct health_numbers numbers;
};

struct health_file {
    int64_t file, tensors;
    char name[256], sha256[65];
    double relative;
};

struct health_tensor {
    const char *name, *dtype;
    int64_t layer, elements, nan, infinite, outliers;
    bool in_layer;
    char file[256], sha256[65];
    double l1, l2, linf, mean, kurtosis, relative, cosine;
};

struct health_report {
    char sha256[65];
    int64_t tensor_count, file_count, block_count;
    const char *previous; /* NULL: none */
    struct health_file *files;
    struct health_block *blocks;
    struct health_numbers all;
    const char *note; /* NULL: none */
};

extern const struct result_shape health_report_shape;
extern const struct result_shape health_report_tensor; /* of struct health_tensor */

/* The numbers of one layer, or of all with READING_ALL. */
struct health_numbers health_report_numbers(const struct reading *reading, int layer);

#endif
