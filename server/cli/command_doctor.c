#include "backend/backend.h"
#include "backend/cpu/blas_choice.h"
#include "backend/cuda/open.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/device_choice.h"
#include "cli/doctor.h"
#include "cli/place.h"
#include "objects/bucket.h"
#include "objects/credentials.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECTS_SECONDS = 15 };

static const struct option_row doctor_options[] = {
    PLACE_DATA_DIR,
    PLACE_DATABASE_URL,
    PLACE_S3_ENDPOINT,
    PLACE_S3_REGION,
    {"--device", NULL, NULL, NULL, OPTION_ONCE,
     "Print all of the CUDA devices' self-tests: versions, rates, the table"},
    {0}};

int doctor_say(bool good, const char *what, const char *detail)
{
    (void)printf("%-6s %-16s %s\n", good ? "ok" : "WRONG", what, detail);
    return good ? 0 : 1;
}

/* Checks the products as a worker does. A library with wrong results is a failure of this machine, although deltaq
 * works without it. */
static int check_products(void)
{
    struct error error;
    struct blas_choice choice;
    char text[BLAS_CHOICE_TEXT];
    if (blas_choice_make(BLAS_CHOICE_SECONDS, &choice, &error) != STATUS_OK)
        return doctor_say(false, "products", error.detail);
    blas_choice_describe(&choice, text, sizeof text);
    return doctor_say((choice.verdict == BLAS_PASSED || choice.absent) && choice.units[0] == '\0', "products", text);
}

static int check_engine(void)
{
    struct error error;
    struct team *team = NULL;
    struct backend *backend = NULL;
    char text[400];
    enum status status = team_new(0, &team, &error);
    if (status == STATUS_OK) status = backend_cpu_new(team, &backend, &error);
    if (status == STATUS_OK) backend->ops->describe(backend, text, sizeof text);
    const int wrong = doctor_say(status == STATUS_OK, "engine", status == STATUS_OK ? text : error.detail);
    backend_free(backend);
    team_free(team);
    return wrong;
}

static int say_device(const struct device_trial *trial)
{
    char line[sizeof trial->report.device + sizeof trial->failure + 400], rates[400];
    const struct device_identity *identity = &trial->identity;
    const bool passed = trial->status == STATUS_OK;
    selftest_describe_rates(&trial->report, rates, sizeof rates);
    (void)snprintf(line, sizeof line, "%s %s %s: %s%s%s", trial->device, identity->uuid, identity->bus,
                   trial->report.device, trial->report.device[0] != '\0' ? "; " : "",
                   passed ? "passed its self-test: " : "failed its self-test, so the CPU does the work: ");
    const size_t used = strlen(line);
    (void)snprintf(line + used, sizeof line - used, "%s", passed ? rates : trial->failure);
    return doctor_say(passed, "cuda", line);
}

/* The table of the self-test. */
static void print_table(const struct selftest_report *report)
{
    (void)printf("       %-36s %6s %12s %18s %9s\n", "check", "shapes", "repetitions", "error of its bound", "ms");
    for (int i = 0; i < report->row_count; i++) {
        const struct selftest_row *row = &report->rows[i];
        (void)printf("       %-36s %6d %12d %18.2g %9.1f\n", row->name, row->shapes, row->repetitions, row->worst,
                     1e3 * row->seconds);
    }
    for (int i = 0; i < report->rate_count; i++)
        (void)printf("       %-36s %14.4g %s\n", report->rates[i].name, report->rates[i].rate, report->rates[i].unit);
    (void)printf("       %-36s %14.2f s\n", "in all", report->seconds);
}

/* A missing device is not a failure, because the CPU does the work; a device that cannot be used is one. Each device is
 * tested as a worker with `--device auto` does. */
static int check_cuda(const struct options *options)
{
    const bool table = options_text(options, "--device") != NULL;
    struct device_trial trial;
    struct error error;
    int wrong = 0;
    if (!cuda_installed()) { /* loads nothing in that case */
        (void)cuda_look(trial.found, sizeof trial.found, &trial.sound);
        return doctor_say(trial.sound, "cuda", trial.found);
    }
    for (int64_t i = 0; i == 0 || i < trial.count; i++) {
        const enum status status = device_choice_try("auto", i, true, &trial, &error);
        if (status != STATUS_OK) return wrong + doctor_say(false, "cuda", error.detail);
        if (i == 0) wrong += doctor_say(trial.sound, "cuda", trial.found);
        if (!trial.tested) return wrong;
        wrong += say_device(&trial);
        if (table) print_table(&trial.report);
    }
    return wrong;
}

/* Whether object storage is meant to be used: a server is named, or an identity is put here for Amazon's. */
static bool uses_objects(const struct options *options)
{
    const char *identity = getenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    return options_text(options, "--s3-endpoint") != NULL || (identity != NULL && identity[0] != '\0');
}

/* Lists the buckets. Credentials for a single bucket need not have that right; some servers refuse unknown keys in the
 * same words. */
static int check_objects(const struct options *options)
{
    const struct objects_options how = {.endpoint = options_text(options, "--s3-endpoint"),
                                        .region = options_text(options, "--s3-region")};
    const struct asking asking = {.seconds = OBJECTS_SECONDS, .tries = 1};
    const struct bucket_request request = {.what = "its list of buckets"};
    struct objects *objects = NULL;
    struct bucket bucket;
    struct transfer_head head;
    struct error error;
    char source[CREDENTIALS_SOURCE] = "";
    char text[sizeof bucket.base + sizeof source + sizeof error.detail + 64];
    if (!uses_objects(options)) return 0;
    enum status status = objects_new(&how, &objects, &error);
    bucket.base[0] = '\0';
    if (status == STATUS_OK) status = bucket_init_service(objects, &bucket, &error);
    if (status == STATUS_OK) status = credentials_source(objects->credentials, source, &error);
    transfer_head_clear(&head);
    if (status == STATUS_OK) status = bucket_ask(&bucket, &asking, &request, &head, NULL, &error);
    const bool answers = status == STATUS_OK || strcmp(head.code, "AccessDenied") == 0;
    if (answers)
        (void)snprintf(text, sizeof text, "%s answers%s; credentials: %s", bucket.base,
                       status != STATUS_OK ? " and lists no buckets (AccessDenied)" : "", source);
    else
        (void)snprintf(text, sizeof text, "%s%s%s", bucket.base, bucket.base[0] != '\0' ? ": " : "", error.detail);
    objects_free(objects);
    return doctor_say(answers, "object storage", text);
}

static int check_files(void)
{
    char path[PLACE_PATH];
    int wrong = doctor_say(place_find("static/index.html", 0, path, sizeof path), "dashboard",
                           "static/index.html beside the binary");
    wrong +=
        doctor_say(place_find("static/plotly.js", 0, path, sizeof path), "plotly", "static/plotly.js (make static)");
    return wrong +
           doctor_say(place_find("openapi.yaml", 0, path, sizeof path), "openapi", "openapi.yaml beside the binary");
}

static int doctor_run(const struct options *options)
{
    const int wrong = check_products() + check_engine() + check_cuda(options) + doctor_directory(options) +
                      doctor_database(options) + check_objects(options) + check_files();
    return wrong > 0;
}

const struct command command_doctor = {.name = "doctor",
                                       .usage = "",
                                       .help = "Try what deltaq needs: products, devices, files, the database",
                                       .options = doctor_options,
                                       .run = doctor_run,
                                       .notes = "Nothing is changed: no database is made, no schema is upgraded. The "
                                                "exit status is 1 when a line says WRONG.\n"};
