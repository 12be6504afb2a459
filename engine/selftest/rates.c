#include "selftest/rates.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>

enum { SMALLEST = 64, LARGEST = 4096, LEAST_COPIED = 1 << 16, MOST_COPIED = 1 << 24 /* floats */ };
/* A larger product is made, or more is copied, as long as it should take no longer than this, judging by the previous
 * one. */
static const double ENOUGH_SECONDS = 0.01, COPY_SECONDS = 0.005;

enum work { PRODUCT, SQUARE };

static void add_rate(struct selftest_report *report, const char *name, const char *kind, const char *unit, double rate)
{
    if (report->rate_count == SELFTEST_RATES) return;
    struct selftest_rate *to = &report->rates[report->rate_count++];
    (void)snprintf(to->name, sizeof to->name, "%s%s", name, kind);
    (void)snprintf(to->unit, sizeof to->unit, "%s", unit);
    to->rate = 1e-9 * rate;
}

/* If there is no memory for a larger size, the previous size gives the rate. */
static enum status without_more(enum status status, double rate)
{
    return status == STATUS_NO_MEMORY && rate > 0 ? STATUS_OK : status;
}

/* Seconds of one operation, from its start to its end. */
static enum status time_work(struct backend *backend, enum work work, struct matrix x, struct matrix c, double *seconds,
                             struct error *error)
{
    const double begun = clock_seconds();
    if (work == PRODUCT)
        backend->ops->gemm(backend, &(struct gemm_args){.a = x, .b = x, .c = c, .transpose_b = true, .alpha = 1});
    else
        backend->ops->syrk(backend, c, x, 1, 0);
    const enum status status = backend->ops->sync(backend, error);
    *seconds = clock_seconds() - begun;
    return status;
}

/* Floating-point operations per second. The first run of each size warms up, however long it takes: a library then
 * loads the kernel for that size, which must not count. */
static enum status rate_of(struct backend *backend, enum work work, double *rate, struct error *error)
{
    struct matrix block = {0};
    enum status status = STATUS_OK;
    double seconds = 0;
    *rate = 0;
    for (int64_t n = SMALLEST; n <= LARGEST && status == STATUS_OK && 8 * seconds < ENOUGH_SECONDS; n *= 2) {
        block = (struct matrix){NULL, 2 * n, n, n, backend->ops->element};
        status = backend->ops->allocate(backend, 2 * n * n, "measuring rates", &block.data, error);
        if (status != STATUS_OK) break;
        const struct matrix x = matrix_rows(block, 0, n), c = matrix_rows(block, n, n);
        for (int i = 0; i < 2 && status == STATUS_OK; i++) status = time_work(backend, work, x, c, &seconds, error);
        *rate = (work == PRODUCT ? 2 : 1) * (double)n * (double)n * (double)n / (seconds > 0 ? seconds : 1e-9);
        matrix_release(backend, &block);
    }
    return without_more(status, *rate);
}

enum way { TO_DEVICE, FROM_DEVICE, ON_DEVICE, WAYS };

static void copy(struct backend *backend, enum way way, struct matrix one, struct matrix other, float *host)
{
    if (way == TO_DEVICE) backend->ops->upload(backend, one, host, DTYPE_F32);
    if (way == FROM_DEVICE) backend->ops->download(backend, one, host, DTYPE_F32);
    if (way == ON_DEVICE) backend->ops->add(backend, other, one, 1, 0);
}

/* Seconds of copying `floats` once, after a copy that warms up. */
static enum status time_copy(struct backend *backend, enum way way, int64_t floats, double *seconds,
                             struct error *error)
{
    struct matrix block = {NULL, 2, floats, floats, backend->ops->element};
    float *host = NULL;
    enum status status = memory_new(floats, sizeof *host, "measuring rates", &host, error);
    if (status == STATUS_OK)
        status = backend->ops->allocate(backend, 2 * floats, "measuring rates", &block.data, error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        const double begun = clock_seconds();
        copy(backend, way, matrix_rows(block, 0, 1), matrix_rows(block, 1, 1), host);
        status = backend->ops->sync(backend, error);
        *seconds = clock_seconds() - begun;
    }
    matrix_release(backend, &block);
    memory_free(host);
    return status;
}

static enum status copy_rates(struct backend *backend, struct selftest_report *report, struct error *error)
{
    static const char *const names[] = {"to the device", "from the device", "on the device"};
    enum status status = STATUS_OK;
    for (int way = 0; way < WAYS && status == STATUS_OK; way++) {
        double seconds = 0, rate = 0;
        for (int64_t floats = LEAST_COPIED; floats <= MOST_COPIED && 4 * seconds < COPY_SECONDS; floats *= 4) {
            status = time_copy(backend, (enum way)way, floats, &seconds, error);
            if (status != STATUS_OK) break;
            rate = (double)floats * sizeof(float) / (seconds > 0 ? seconds : 1e-9);
        }
        status = without_more(status, rate);
        if (status == STATUS_OK) add_rate(report, names[way], "", "GB/s", rate);
    }
    return status;
}

enum status rates_measure(struct backend *backend, const char *kind, struct selftest_report *report,
                          struct error *error)
{
    const bool first = report->rate_count == 0;
    double rate = 0;
    enum status status = rate_of(backend, PRODUCT, &rate, error);
    if (status != STATUS_OK) return status;
    add_rate(report, "products ", kind, "GFLOP/s", rate);
    if (!first) return STATUS_OK;
    if ((status = rate_of(backend, SQUARE, &rate, error)) != STATUS_OK) return status;
    add_rate(report, "squares", "", "GFLOP/s", rate);
    return copy_rates(backend, report, error);
}
