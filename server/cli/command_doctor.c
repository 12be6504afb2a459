#include "backend/backend.h"
#include "backend/cpu/blas_choice.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/migrate.h"
#include "cli/place.h"
#include "objects/bucket.h"
#include "objects/credentials.h"
#include "store/migrations.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ENOUGH_GIBIBYTES = 2, OBJECTS_SECONDS = 15 };

static const struct option_row doctor_options[] = {PLACE_DATA_DIR,  PLACE_DATABASE_URL, PLACE_S3_ENDPOINT,
                                                   PLACE_S3_REGION, MIGRATE_NO_BACKUP,  {0}};

/* One line a finding; what is wrong counts. */
static int say(bool good, const char *what, const char *detail)
{
    (void)printf("%-6s %-16s %s\n", good ? "ok" : "WRONG", what, detail);
    return good ? 0 : 1;
}

/* As a worker does it. What a library gets wrong is wrong with this machine, though deltaq works without it. */
static int check_products(void)
{
    struct error error;
    struct blas_choice choice;
    char text[BLAS_CHOICE_TEXT];
    if (blas_choice_make(BLAS_CHOICE_SECONDS, &choice, &error) != STATUS_OK)
        return say(false, "products", error.detail);
    blas_choice_describe(&choice, text, sizeof text);
    return say(choice.verdict == BLAS_PASSED || choice.absent, "products", text);
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
    const int wrong = say(status == STATUS_OK, "engine", status == STATUS_OK ? text : error.detail);
    backend_free(backend);
    team_free(team);
    return wrong;
}

/* No device is nothing wrong: the CPU does the work. */
static int check_cuda(void)
{
    struct error error;
    struct backend *backend = NULL;
    char text[500];
    int wrong = 0;
    const int count = backend_cuda_count(text, sizeof text);
    if (count == 0) return say(true, "cuda", text);
    for (int i = 0; i < count; i++) {
        char line[700];
        struct device_identity found;
        if (!backend_cuda_identify(i, &found, text, sizeof text)) {
            wrong += say(false, "cuda", text);
            continue;
        }
        const enum status status = backend_cuda_new(i, NULL, NULL, &backend, &error);
        if (status == STATUS_OK) backend_describe(backend, text, sizeof text);
        (void)snprintf(line, sizeof line, "cuda:%d %s %s: %s", i, found.uuid, found.bus,
                       status == STATUS_OK ? text : error.detail);
        wrong += say(status == STATUS_OK, "cuda", line);
        backend_free(backend);
    }
    return wrong;
}

static int check_data_directory(const struct options *options)
{
    struct error error;
    struct statvfs space;
    char path[PLACE_PATH], text[PLACE_PATH + 64];
    if (place_data_directory(options, path, &error) != STATUS_OK) return say(false, "data directory", error.detail);
    (void)snprintf(text, sizeof text, "%s is not writable", path);
    if (access(path, W_OK) != 0) return say(false, "data directory", text);
    (void)snprintf(text, sizeof text, "%s does not tell its free space", path);
    if (statvfs(path, &space) != 0) return say(false, "data directory", text);
    const double free_gibibytes = (double)space.f_bavail * (double)space.f_frsize / (1 << 30);
    (void)snprintf(text, sizeof text, "%s, %.1f GiB free", path, free_gibibytes);
    return say(free_gibibytes >= ENOUGH_GIBIBYTES, "data directory", text);
}

static int check_database(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    enum status status = place_database_open(options, &database, &error);
    if (status == STATUS_OK) status = migrate_database(options, &database, NULL, &error);
    if (status == STATUS_OK) status = migrations_check(database.connection, &error);
    place_database_close(&database);
    return say(status == STATUS_OK, "database",
               status == STATUS_OK ? "answers, with the schema of this binary" : error.detail);
}

/* Lists the buckets, which credentials for one of them need not be allowed to do. */
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
    const char *source = "";
    char text[sizeof error.detail + 700];
    if (how.endpoint == NULL) return 0;
    enum status status = objects_new(&how, &objects, &error);
    if (status == STATUS_OK) status = credentials_source(objects->credentials, &source, &error);
    if (status == STATUS_OK) status = bucket_init_service(objects, &bucket, &error);
    transfer_head_clear(&head);
    if (status == STATUS_OK) status = bucket_ask(&bucket, &asking, &request, &head, NULL, &error);
    const bool answers = status == STATUS_OK || strcmp(head.code, "AccessDenied") == 0;
    if (answers)
        (void)snprintf(text, sizeof text, "%s answers; credentials: %s", how.endpoint, source);
    else
        (void)snprintf(text, sizeof text, "%s: %s", how.endpoint, error.detail);
    objects_free(objects);
    return say(answers, "object storage", text);
}

static int check_files(void)
{
    char path[PLACE_PATH];
    int wrong =
        say(place_find("static/index.html", 0, path, sizeof path), "dashboard", "static/index.html beside the binary");
    wrong += say(place_find("static/plotly.js", 0, path, sizeof path), "plotly", "static/plotly.js (make static)");
    return wrong + say(place_find("openapi.yaml", 0, path, sizeof path), "openapi", "openapi.yaml beside the binary");
}

static int doctor_run(const struct options *options)
{
    const int wrong = check_products() + check_engine() + check_cuda() + check_data_directory(options) +
                      check_database(options) + check_objects(options) + check_files();
    return wrong > 0;
}

const struct command command_doctor = {.name = "doctor",
                                       .usage = "",
                                       .help = "Look whether everything that deltaq needs is there",
                                       .options = doctor_options,
                                       .run = doctor_run};
