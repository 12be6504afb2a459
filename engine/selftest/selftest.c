#include "selftest/selftest.h"

#include "base/clock.h"
#include "selftest/check.h"
#include "selftest/rates.h"

#include <stdio.h>
#include <string.h>

static const struct check *const lists[] = {check_products, check_rows,  check_attention, check_recurrent,
                                            check_experts,  check_codes, check_model};
enum { LISTS = sizeof lists / sizeof lists[0] };
static const char *const kinds[] = {"f32", "tf32", "bf16"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct session {
    const struct selftest *how;
    struct selftest_report *report;
    struct exam truths[2], device, again; /* by enum check_truth; `again` shares the device's backend */
    struct backend *loops[2], *backend;
    double repeat_seconds; /* of one shape */
};

static const struct check *check_at(int index)
{
    for (int i = 0; i < LISTS; i++)
        for (const struct check *check = lists[i]; check->name != NULL; check++)
            if (index-- == 0) return check;
    return NULL;
}

const char *selftest_name(int index)
{
    const struct check *check = check_at(index);
    return check != NULL ? check->name : NULL;
}

static void say(const struct session *session, const char *what, int64_t shape)
{
    struct trial_progress *progress = session->how->progress;
    progress->steps++;
    (void)snprintf(progress->current, sizeof progress->current, shape >= 0 ? "%s, shape %lld" : "%s", what,
                   (long long)shape + 1);
}

/* One complete run of a shape. */
static enum status run_shape(struct exam *exam, const struct check *check, int64_t shape, struct error *error)
{
    exam_begin(exam);
    check->run(exam, shape);
    exam_sync(exam);
    if (exam->status == STATUS_OK) return STATUS_OK;
    const struct error cause = exam->error;
    return error_set(error, exam->status, "%s, shape %lld: %.300s", check->name, (long long)shape + 1, cause.detail);
}

static bool same_bits(const struct exam *one, const struct exam *other)
{
    return one->value_count == other->value_count && one->outside == other->outside &&
           memcmp(one->values, other->values, (size_t)one->value_count * sizeof *one->values) == 0;
}

/* Repeats a shape. */
static enum status repeat_shape(struct session *session, const struct check *check, int64_t shape,
                                struct selftest_row *row, struct error *error)
{
    const double begun = clock_seconds();
    int count = 1;
    do {
        const enum status status = run_shape(&session->again, check, shape, error);
        if (status != STATUS_OK) return status;
        count++;
        if (!same_bits(&session->device, &session->again))
            return error_set(error, STATUS_INTERNAL, "%s, shape %lld: run %d has other bits than the first",
                             check->name, (long long)shape + 1, count);
    } while (count < SELFTEST_REPETITIONS && clock_seconds() - begun < session->repeat_seconds);
    if (row->repetitions == 0 || count < row->repetitions) row->repetitions = count;
    return STATUS_OK;
}

static enum status try_shape(struct session *session, const struct check *check, int64_t shape,
                             struct selftest_row *row, struct error *error)
{
    struct exam *truth = &session->truths[check->truth];
    char text[300];
    enum status status;
    say(session, check->name, shape);
    if ((status = run_shape(truth, check, shape, error)) != STATUS_OK) return status;
    if ((status = run_shape(&session->device, check, shape, error)) != STATUS_OK) return status;
    if (exam_differs(truth, &session->device, &row->worst, text, sizeof text))
        return error_set(error, STATUS_INTERNAL, "%s, shape %lld: %s", check->name, (long long)shape + 1, text);
    row->shapes++;
    return repeat_shape(session, check, shape, row, error);
}

static enum status try_check(struct session *session, const struct check *check, struct error *error)
{
    struct selftest_report *report = session->report;
    const double begun = clock_seconds();
    enum status status = STATUS_OK;
    if (report->row_count == SELFTEST_ROWS)
        return error_set(error, STATUS_INTERNAL, "a self-test has more checks than there is space for");
    struct selftest_row *row = &report->rows[report->row_count++];
    (void)snprintf(row->name, sizeof row->name, "%s", check->name);
    for (int64_t shape = 0; shape < check->shapes && status == STATUS_OK; shape++)
        status = try_shape(session, check, shape, row, error);
    row->seconds = clock_seconds() - begun;
    return status;
}

static bool is_asked(const struct selftest *how, const struct check *check, const char *kind)
{
    return strcmp(check->products != NULL ? check->products : kinds[0], kind) == 0 &&
           (how->only == NULL || strcmp(how->only, check->name) == 0);
}

static int64_t shapes_asked(const struct selftest *how, const char *kind)
{
    int64_t shapes = 0;
    const struct check *check;
    for (int i = 0; (check = check_at(i)) != NULL; i++)
        if (is_asked(how, check, kind)) shapes += check->shapes;
    return shapes;
}

/* All checks and the rates for one kind of products. */
static enum status try_kind(struct session *session, const char *kind, struct error *error)
{
    const struct selftest *how = session->how;
    struct selftest_report *report = session->report;
    const struct check *check;
    char what[64];
    if (shapes_asked(how, kind) == 0) return STATUS_OK;
    (void)snprintf(what, sizeof what, "opening the device for products in %s", kind);
    say(session, what, -1);
    enum status status = how->open(how->context, kind, &session->backend, error);
    if (status == STATUS_OK && report->device[0] == '\0')
        backend_describe(session->backend, report->device, sizeof report->device);
    if (status == STATUS_OK) status = exam_init(&session->device, session->backend, error);
    if (status == STATUS_OK) status = exam_init(&session->again, session->backend, error);
    for (int i = 0; (check = check_at(i)) != NULL && status == STATUS_OK; i++)
        if (is_asked(how, check, kind)) status = try_check(session, check, error);
    say(session, "measuring rates", -1);
    if (status == STATUS_OK && how->only == NULL) status = rates_measure(session->backend, kind, report, error);
    exam_reset(&session->again);
    exam_reset(&session->device);
    backend_free(session->backend);
    session->backend = NULL;
    return status;
}

static enum status open_truths(struct session *session, struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        status = backend_reference_new(i == CHECK_DOUBLES, NULL, &session->loops[i], error);
        if (status == STATUS_OK) status = exam_init(&session->truths[i], session->loops[i], error);
    }
    return status;
}

enum status selftest_run(const struct selftest *how, struct selftest_report *out, struct error *error)
{
    struct session session = {.how = how, .report = out};
    const double begun = clock_seconds();
    int64_t shapes = 0;
    *out = (struct selftest_report){.device = ""};
    for (int i = 0; i < KINDS; i++) shapes += shapes_asked(how, kinds[i]);
    session.repeat_seconds = shapes > 0 ? how->repeat_seconds / (double)shapes : 0;
    enum status status = open_truths(&session, error);
    for (int i = 0; i < KINDS && status == STATUS_OK; i++) status = try_kind(&session, kinds[i], error);
    for (int i = 0; i < 2; i++) {
        exam_reset(&session.truths[i]);
        backend_free(session.loops[i]);
    }
    out->seconds = clock_seconds() - begun;
    return status;
}

void selftest_describe_rates(const struct selftest_report *report, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < report->rate_count && used < size; i++) {
        const struct selftest_rate *rate = &report->rates[i];
        used += (size_t)snprintf(text + used, size - used, "%s%s %.4g %s", i > 0 ? ", " : "", rate->name, rate->rate,
                                 rate->unit);
    }
}
