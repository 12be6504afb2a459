#include "cli/command.h"
#include "cli/place.h"
#include "http/static_files.h"
#include "hub/hub.h"
#include "pool/supervisor.h"
#include "postgres/embedded.h"
#include "resources/application.h"
#include "resources/notifier.h"
#include "resources/routes.h"
#include "store/migrations.h"
#include "store/tokens.h"
#include "watch/watcher.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MIGRATION_MILLISECONDS = 60000, WORKER_ARGUMENTS = 2 * PLACE_ROOTS + 18 };

static const struct option_row serve_options[] = {
    {"--listen", "ADDRESS", "DELTAQ_LISTEN", "127.0.0.1:8642", false,
     "Where to listen; beyond loopback only once a token was made"},
    PLACE_DATA_DIR,
    PLACE_ROOT,
    PLACE_DATABASE_URL,
    PLACE_HUB_ENDPOINT,
    PLACE_HUB_CACHE,
    {"--workers", "N", "DELTAQ_WORKERS", "1", false, "Worker processes, at least one a CUDA device; 0: others do the work"},
    {"--threads", "N", "DELTAQ_THREADS", "0", false, "Threads of each worker; 0: one for each processor"},
    PLACE_DEVICE,
    PLACE_MEMORY,
    {"--watch-quiet", "SECONDS", "DELTAQ_WATCH_QUIET", "10", false,
     "How long files in watched directories must have been as they are before a checkpoint is registered"},
    {"--watch-poll", "SECONDS", "DELTAQ_WATCH_POLL", "5", false,
     "Between looks at watched directories where the kernel cannot tell"},
    {"--allow-host", "NAME", "DELTAQ_ALLOW_HOST", NULL, true, "One more name that requests may have in Host"},
    {"--static", "DIR", "DELTAQ_STATIC", NULL, false, "The dashboard's files (those that came with the binary)"},
    {"--access-log", NULL, "DELTAQ_ACCESS_LOG", NULL, false, "A line on stderr for each request"},
    {0},
};

/* All that runs, in the order in which it is started. */
struct serving {
    char data_directory[PLACE_PATH];
    struct place_roots roots;
    struct hub *hub;
    struct embedded *embedded;
    struct application application;
    struct static_files *files;
    struct http_server *server;
    struct notifier *notifier;
    struct watcher *watcher;
    struct supervisor *supervisor;
    const char *worker_arguments[WORKER_ARGUMENTS];
    char device[PLACE_DEVICE_NAME];
};

/* A schema of this binary, and whether any token exists. */
static enum status prepare_database(const char *conninfo, bool *tokens, struct error *error)
{
    struct connection *connection = NULL;
    enum status status = connection_new(conninfo, "deltaq start", &connection, error);
    if (status != STATUS_OK) return status;
    connection_set_deadline(connection, MIGRATION_MILLISECONDS);
    status = migrations_apply(connection, NULL, error);
    if (status == STATUS_OK) status = token_any(connection, tokens, error);
    connection_free(connection);
    return status;
}

/* The dashboard and openapi.yaml. Without them the API is served all the same. */
static enum status load_files(const struct options *options, struct static_files **out, struct error *error)
{
    char path[PLACE_PATH];
    const char *directory = options_text(options, "--static");
    enum status status = STATUS_OK;
    if (directory == NULL && place_find("static/index.html", 0, path, sizeof path)) {
        *strrchr(path, '/') = '\0';
        directory = path;
    }
    if (directory == NULL)
        (void)fprintf(stderr, "deltaq serve: no dashboard: its files are not where the binary is; see --static\n");
    status = static_files_load(directory, out, error);
    if (status == STATUS_OK && static_files_find(*out, "/plotly.js") == NULL &&
        place_find("static/plotly.js", 0, path, sizeof path))
        status = static_files_add(*out, "/plotly.js", path, error);
    if (status == STATUS_OK && static_files_find(*out, "/openapi.yaml") == NULL && place_find("openapi.yaml", 0, path, sizeof path))
        status = static_files_add(*out, "/openapi.yaml", path, error);
    return status;
}

static enum status start_http(const struct options *options, struct serving *serving, bool tokens, struct error *error)
{
    struct http_options http = {
        .listen = options_text(options, "--listen"),
        .allowed_hosts = options_all(options, "--allow-host"),
        .token_configured = tokens,
        .files = serving->files,
        .access_log = options_text(options, "--access-log") != NULL,
        .application = &serving->application,
        .thread_open = application_thread_open,
        .thread_close = application_thread_close,
        .authorize = application_authorize,
        .idempotency = &application_idempotency,
    };
    http.routes = routes_all(&http.route_count);
    enum status status = http_server_start(&http, &serving->server, error);
    if (status == STATUS_OK) status = notifier_start(serving->application.conninfo, serving->server, &serving->notifier, error);
    return status;
}

static enum status start_watcher(const struct options *options, struct serving *serving, struct error *error)
{
    int64_t poll;
    const enum status status = options_integer(options, "--watch-poll", 1, 86400, &poll, error);
    if (status != STATUS_OK) return status;
    const struct watcher_options how = {
        .conninfo = serving->application.conninfo,
        .roots = serving->application.roots,
        .data_directory = serving->data_directory,
        .quiet_seconds = serving->application.watch_quiet_seconds,
        .poll_seconds = (double)poll,
    };
    return watcher_start(&how, &serving->watcher, error);
}

static enum status start_workers(const struct options *options, struct serving *serving, struct error *error)
{
    size_t count = 0;
    int64_t workers = 0, devices = 0;
    char device[PLACE_DEVICE_NAME];
    const char **words = serving->worker_arguments;
    enum status status = options_integer(options, "--workers", 0, 64, &workers, error);
    if (status == STATUS_OK) status = place_device(options, 0, device, &devices, error);
    if (status != STATUS_OK) return status;
    if (workers > 0 && workers < devices) workers = devices;
    words[count++] = "worker";
    words[count++] = "--data-dir";
    words[count++] = serving->data_directory;
    words[count++] = "--device";
    words[count++] = options_text(options, "--device");
    words[count++] = "--memory";
    words[count++] = options_text(options, "--memory");
    words[count++] = "--threads";
    words[count++] = options_text(options, "--threads");
    words[count++] = "--hub-endpoint";
    words[count++] = options_text(options, "--hub-endpoint");
    if (options_text(options, "--hub-cache") != NULL) words[count++] = "--hub-cache";
    if (options_text(options, "--hub-cache") != NULL) words[count++] = options_text(options, "--hub-cache");
    for (size_t i = 0; serving->roots.paths[i] != NULL; i++) {
        words[count++] = "--root";
        words[count++] = serving->roots.paths[i];
    }
    const struct supervisor_options how = {
        .workers = (int)workers,
        .arguments = words,
        .conninfo = serving->application.conninfo,
        .embedded = serving->embedded,
    };
    return supervisor_start(&how, &serving->supervisor, error);
}

static enum status start(const struct options *options, struct serving *serving, struct error *error)
{
    bool tokens = false;
    int64_t threads, quiet, devices, memory;
    enum status status;
    if ((status = options_integer(options, "--watch-quiet", 0, 86400, &quiet, error)) != STATUS_OK) return status;
    if ((status = place_device(options, 0, serving->device, &devices, error)) != STATUS_OK) return status;
    if ((status = place_memory(options, &memory, error)) != STATUS_OK) return status;
    if ((status = options_integer(options, "--threads", 0, 1024, &threads, error)) != STATUS_OK) return status;
    if ((status = place_data_directory(options, serving->data_directory, error)) != STATUS_OK) return status;
    if ((status = place_roots(options, serving->data_directory, &serving->roots, error)) != STATUS_OK) return status;
    if ((status = place_hub(options, serving->data_directory, &serving->hub, error)) != STATUS_OK) return status;
    if ((status = load_files(options, &serving->files, error)) != STATUS_OK) return status;
    serving->application = (struct application){
        .conninfo = options_text(options, "--database-url"),
        .data_directory = serving->data_directory,
        .roots = (const char *const *)serving->roots.paths,
        .watch_quiet_seconds = (double)quiet,
        .hub = serving->hub,
        .device = serving->device,
        .memory_bytes = memory,
        .threads = (int)threads,
    };
    if (serving->application.conninfo == NULL) {
        const struct embedded_options how = {.data_directory = serving->data_directory, .ballast_bytes = -1};
        if ((status = embedded_start(&how, &serving->embedded, error)) != STATUS_OK) return status;
        serving->application.conninfo = embedded_conninfo(serving->embedded);
        serving->application.embedded = serving->embedded;
    }
    if ((status = prepare_database(serving->application.conninfo, &tokens, error)) != STATUS_OK) return status;
    if ((status = start_http(options, serving, tokens, error)) != STATUS_OK) return status;
    if ((status = start_watcher(options, serving, error)) != STATUS_OK) return status;
    return start_workers(options, serving, error);
}

static void stop(struct serving *serving)
{
    watcher_stop(serving->watcher);
    notifier_stop(serving->notifier);
    http_server_stop(serving->server);
    supervisor_stop(serving->supervisor);
    embedded_stop(serving->embedded);
    static_files_free(serving->files);
    hub_free(serving->hub);
    place_roots_reset(&serving->roots);
}

static int serve_run(const struct options *options)
{
    static const struct rlimit no_core = {0};
    struct error error;
    int exit_status = 0;
    struct serving *serving = calloc(1, sizeof *serving);
    if (serving == NULL) return 1;
    supervisor_block_signals();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of files' sizes fails, and says so */
    (void)umask(077);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (start(options, serving, &error) == STATUS_OK) {
        (void)printf("deltaq listening on %s\n", http_server_url(serving->server));
        (void)fflush(stdout);
        (void)supervisor_run(serving->supervisor);
    } else {
        exit_status = place_fail("serve", &error);
    }
    stop(serving);
    free(serving);
    return exit_status;
}

const struct command command_serve = {"serve", "", "Run the server, its workers and, unless told otherwise, its database",
                                      serve_options, serve_run};
