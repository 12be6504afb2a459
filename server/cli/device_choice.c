#include "cli/device_choice.h"

#include "backend/backend.h"
#include "backend/cuda/open.h"
#include "log/log.h"
#include "pool/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit between two steps of a trial. The first use of a device loads its driver, cuBLAS and the kernels, which takes
 * seconds on a machine that has not done so before. */
enum { DEADLINE_SECONDS = 120 };
/* Limit for all repetitions; DELTAQ_SELFTEST_SECONDS overrides it. */
static const double REPEAT_SECONDS = 1;

struct report {
    struct trial_progress progress;
    enum status status; /* outcome of looking for the device */
    struct error error;
    struct device_trial found;
};

struct question {
    const char *device;
    int64_t which;
    bool test;
};

struct opening {
    int ordinal;
    int64_t memory_bytes; /* found at the first opening */
};

static enum status open_device(void *context, const char *products, struct backend **out, struct error *error)
{
    struct opening *opening = context;
    const enum status status = cuda_trial_new(opening->ordinal, products, out, error);
    if (status != STATUS_OK || opening->memory_bytes > 0) return status;
    return backend_cuda_capacity(*out, &opening->memory_bytes, error);
}

static void test_device(struct report *report)
{
    struct device_trial *found = &report->found;
    const char *seconds = getenv("DELTAQ_SELFTEST_SECONDS");
    char failure[sizeof found->failure] = "";
    struct opening opening = {.ordinal = (int)strtol(found->device + strlen("cuda:"), NULL, 10)};
    const struct selftest how = {.open = open_device,
                                 .context = &opening,
                                 .repeat_seconds = seconds != NULL ? strtod(seconds, NULL) : REPEAT_SECONDS,
                                 .progress = &report->progress};
    struct error error = {.detail = ""};
    found->tested = true;
    if (backend_cuda_identify(opening.ordinal, &found->identity, failure, sizeof failure))
        found->status = selftest_run(&how, &found->report, &error);
    else
        found->status =
            error_set(&error, STATUS_DEVICE, "device %s does not say which it is: %.300s", found->device, failure);
    found->memory_bytes = opening.memory_bytes;
    if (found->status != STATUS_OK) (void)snprintf(found->failure, sizeof found->failure, "%s", error.detail);
}

/* Runs in the child. The variable tells a plugin so. */
static void look(void *memory, const void *context)
{
    struct report *report = memory;
    const struct question *question = context;
    (void)setenv("DELTAQ_DEVICE_TRIAL", "1", 1);
    (void)cuda_look(report->found.found, sizeof report->found.found, &report->found.sound);
    report->status =
        place_device(question->device, question->which, report->found.device, &report->found.count, &report->error);
    if (report->status != STATUS_OK || strcmp(report->found.device, "cpu") == 0) return;
    if (question->test) test_device(report);
}

/* Handles a child that did not finish. During a test the device has failed; before that no device is known. */
static enum status take_failure(struct report *report, const char *failure, struct error *error)
{
    if (!report->found.tested) return error_set(error, STATUS_DEVICE, "looking for devices failed: %s", failure);
    report->found.status = STATUS_DEVICE;
    (void)snprintf(report->found.failure, sizeof report->found.failure, "%s", failure);
    return STATUS_OK;
}

enum status device_choice_try(const char *device, int64_t which, bool test, struct device_trial *out,
                              struct error *error)
{
    const struct question question = {device, which, test};
    struct report *report = NULL;
    char failure[TRIAL_FAILURE];
    *out = (struct device_trial){.device = "cpu", .count = 1, .sound = true};
    if (strcmp(device, "cpu") == 0) return STATUS_OK;
    if (strcmp(device, "auto") == 0 && !cuda_installed()) return STATUS_OK;
    enum status status = trial_memory_new(sizeof *report, "a look at devices", &report, error);
    if (status != STATUS_OK) return status;
    const struct trial trial = {.body = look,
                                .context = &question,
                                .progress = &report->progress,
                                .bytes = sizeof *report,
                                .deadline_seconds = DEADLINE_SECONDS,
                                .first = "asking the driver"};
    status = trial_run(&trial, failure, error);
    if (status == STATUS_OK && failure[0] != '\0') status = take_failure(report, failure, error);
    if (status == STATUS_OK && report->status != STATUS_OK) {
        status = report->status;
        *error = report->error;
    }
    if (status == STATUS_OK) *out = report->found;
    trial_memory_free(report, sizeof *report);
    return status;
}

static json_t *selftest_document(const struct selftest_report *report)
{
    json_t *rates = json_array();
    for (int i = 0; i < report->rate_count; i++)
        (void)json_array_append_new(rates, json_pack("{ss sf ss}", "name", report->rates[i].name, "rate",
                                                     report->rates[i].rate, "unit", report->rates[i].unit));
    return json_pack("{si sf so}", "checks", report->row_count, "seconds", report->seconds, "rates", rates);
}

/* The worker uses the device. */
static enum status take_device(const struct device_trial *trial, struct worker_device *out, json_t **selftest,
                               struct error *error)
{
    char rates[400];
    (void)snprintf(out->state, sizeof out->state, "in_use");
    out->memory_bytes = trial->memory_bytes;
    if (trial->status != STATUS_OK) { /* no memory is free on the device, which is not a fault of it */
        log_warning(LOG_COMPONENT_WORKER, "device %s: %s, %s, %s; used without a self-test: %s", trial->device,
                    out->name, out->uuid, out->bus, trial->failure);
        return STATUS_OK;
    }
    selftest_describe_rates(&trial->report, rates, sizeof rates);
    log_info(LOG_COMPONENT_WORKER, "device %s: %s, %s, %s; passed its self-test (%d checks, %.2f s): %s", trial->device,
             out->name, out->uuid, out->bus, trial->report.row_count, trial->report.seconds, rates);
    out->selftest = *selftest = selftest_document(&trial->report);
    return *selftest != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for what a self-test found");
}

/* With `auto`: the worker uses the CPU instead, or takes no runs when enough workers use the CPU. */
static void leave_device(const struct device_choosing *how, char device[PLACE_DEVICE_NAME], struct worker_device *out)
{
    const bool works = how->which < how->on_cpu;
    (void)snprintf(out->state, sizeof out->state, "%s", works ? "failed" : "aside");
    if (!works) return;
    log_warning(LOG_COMPONENT_WORKER, "the CPU does the work: %s", out->reason);
    (void)snprintf(device, PLACE_DEVICE_NAME, "cpu");
}

static void fill_identity(const struct device_trial *trial, struct worker_device *out)
{
    (void)snprintf(out->name, sizeof out->name, "%s", trial->identity.name);
    (void)snprintf(out->uuid, sizeof out->uuid, "%s", trial->identity.uuid);
    (void)snprintf(out->bus, sizeof out->bus, "%s", trial->identity.bus);
}

/* After three breakdowns in a row (worker.h) the device is not tried again. */
static void put_aside(const struct device_choosing *how, bool automatic, char device[PLACE_DEVICE_NAME],
                      struct worker_device *out)
{
    (void)snprintf(out->state, sizeof out->state, "aside");
    (void)snprintf(out->reason, sizeof out->reason,
                   "%s broke down %d times in a row and is put aside until the server is restarted",
                   strcmp(device, "cpu") == 0 ? "its device" : device, how->faults);
    if (automatic) leave_device(how, device, out);
}

/* With `auto`: true when none of the existing devices can be used, with the reason in out->reason. False when one can
 * be used, or when there is none. */
static bool is_unusable(enum status status, const struct device_trial *trial, const struct error *error,
                        struct worker_device *out)
{
    const bool lost = status == STATUS_DEVICE, wrong = status == STATUS_OK && !trial->sound;
    if (lost) (void)snprintf(out->reason, sizeof out->reason, "%s", error->detail);
    if (wrong) (void)snprintf(out->reason, sizeof out->reason, "no device can be used: %.400s", trial->found);
    return lost || wrong;
}

static enum status take_or_leave(const struct device_trial *trial, const struct device_choosing *how, bool automatic,
                                 char device[PLACE_DEVICE_NAME], struct worker_device *out, json_t **selftest,
                                 struct error *error)
{
    if (trial->status == STATUS_OK || (trial->status == STATUS_NO_MEMORY && !automatic))
        return take_device(trial, out, selftest, error);
    (void)snprintf(out->reason, sizeof out->reason, "device %s failed its self-test: %s", device, trial->failure);
    if (!automatic) return error_set(error, STATUS_DEVICE, "%s; use --device cpu", out->reason);
    leave_device(how, device, out);
    return STATUS_OK;
}

enum status device_choice_make(const char *asked, const struct device_choosing *how, char device[PLACE_DEVICE_NAME],
                               struct worker_device *out, json_t **selftest, struct error *error)
{
    const bool automatic = strcmp(asked, "auto") == 0, aside = how->faults >= WORKER_FAULTS_MOST;
    struct device_trial trial;
    const enum status status = device_choice_try(asked, how->which, !aside, &trial, error);
    *out = (struct worker_device){.faults = how->faults > 0 ? how->faults : 0};
    *selftest = NULL;
    (void)snprintf(device, PLACE_DEVICE_NAME, "%s", trial.device);
    fill_identity(&trial, out);
    if (aside && (status == STATUS_OK || status == STATUS_UNSUPPORTED || status == STATUS_DEVICE)) {
        if (strcmp(device, "cpu") != 0 || status != STATUS_OK || automatic) put_aside(how, automatic, device, out);
        return STATUS_OK;
    }
    if (automatic && is_unusable(status, &trial, error, out)) {
        leave_device(how, device, out);
        return STATUS_OK;
    }
    /* A device that the server found at its start has gone: it broke down. */
    if (status == STATUS_UNSUPPORTED && how->faults >= 0) error->status = STATUS_DEVICE;
    if (status != STATUS_OK) return error->status;
    if (strcmp(device, "cpu") == 0) return STATUS_OK;
    return take_or_leave(&trial, how, automatic, device, out, selftest, error);
}
