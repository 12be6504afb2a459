/* check.h: the checks of a self-test: a row for each kind of product, family of kernels, and path through a model. A
 * new row goes into the list of its file; a new file into selftest.c. */
#ifndef SELFTEST_CHECK_H
#define SELFTEST_CHECK_H

#include "selftest/exam.h"

/* The reference of a check: plain loops in double, within bounds, or in float, which must be equal bit for bit (codes
 * and other results that are defined operation by operation). */
enum check_truth { CHECK_DOUBLES, CHECK_FLOATS };

struct check {
    const char *name; /* NULL ends a list */
    void (*run)(struct exam *exam, int64_t shape);
    int64_t shapes; /* 0 … shapes - 1 */
    enum check_truth truth;
    const char *products; /* precision with which the device is opened; NULL: "f32" */
};

extern const struct check check_products[], check_rows[], check_attention[], check_recurrent[], check_experts[],
    check_codes[], check_model[];

#define CHECK_COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

#endif
