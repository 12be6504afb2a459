/* check.h: the checks of a self-test: a row for each kind of product, family of kernels, and way through a model. A new
 * row stands in the list of its file; a new file in selftest.c. */
#ifndef SELFTEST_CHECK_H
#define SELFTEST_CHECK_H

#include "selftest/exam.h"

/* What a device is held to: plain loops in double within bounds, or those in float, which it must equal bit for bit
 * (codes and what else is defined operation by operation). */
enum check_truth { CHECK_DOUBLES, CHECK_FLOATS };

struct check {
    const char *name; /* NULL ends a list */
    void (*run)(struct exam *exam, int64_t shape);
    int64_t shapes; /* 0 … shapes - 1 */
    enum check_truth truth;
    const char *products; /* that the device is opened with; NULL: "f32" */
};

extern const struct check check_products[], check_rows[], check_attention[], check_recurrent[], check_experts[],
    check_codes[], check_model[];

#define CHECK_COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

#endif
