/* selftest.h: checks that a device computes the CPU's numbers, bit-for-bit identical every time, and measures its
 * speed. A device that passes may be used without any earlier test.
 *
 * Every kind of product, every family of kernels on shapes at the edges of their tiles, and a tiny model with its
 * gradient, a product of its Hessian and GPTQ (check.h) are compared with plain loops on the CPU, in double within the
 * bounds of each check, or in float bit for bit. Each is then repeated, REPETITIONS times or as often as its part of
 * `repeat_seconds` allows, but at least once, with bit-for-bit identical results. The rates come last. It takes up to
 * 150 MiB of the device and, while the scans run, the driver's local memory for them (docs/cuda.md). It runs in a child
 * process (base/trial.h), so that a crash or hang of the device ends only that. */
#ifndef SELFTEST_SELFTEST_H
#define SELFTEST_SELFTEST_H

#include "backend/backend.h"
#include "base/trial.h"

enum { SELFTEST_ROWS = 48, SELFTEST_RATES = 8, SELFTEST_REPETITIONS = 100 };

/* The outcome of a check. */
struct selftest_row {
    char name[40];
    int shapes;      /* number of correct shapes */
    int repetitions; /* fewest of any shape */
    double worst;    /* error in units of its bound */
    double seconds;
};

struct selftest_rate {
    char name[24]; /* "products f32", "to the device" */
    char unit[12]; /* "GFLOP/s", "GB/s" */
    double rate;
};

struct selftest_report {
    char device[400]; /* as the backend describes itself */
    struct selftest_row rows[SELFTEST_ROWS];
    struct selftest_rate rates[SELFTEST_RATES];
    int row_count, rate_count;
    double seconds;
};

struct selftest {
    /* A backend on the device, with its products in "f32", "tf32" or "bf16"; freed by the self-test. */
    enum status (*open)(void *context, const char *products, struct backend **out, struct error *error);
    void *context;
    const char *only;                /* the only check to make, without rates; NULL: all */
    double repeat_seconds;           /* for all repetitions together */
    struct trial_progress *progress; /* a step for each shape, and its name */
};

/* STATUS_OK: the device passed. STATUS_INTERNAL: a result is wrong, or differs between repetitions; the detail names
 * the check and the output. STATUS_DEVICE: the device failed. STATUS_NO_MEMORY: other processes have its memory.
 * Statuses of `open`. *out holds the results so far. */
MUST_CHECK enum status selftest_run(const struct selftest *how, struct selftest_report *out, struct error *error);

/* The names of all checks, one after the other; NULL behind the last. */
const char *selftest_name(int index);

/* "products f32 41.2 TFLOP/s, …" on one line. */
void selftest_describe_rates(const struct selftest_report *report, char *text, size_t size);

#endif
