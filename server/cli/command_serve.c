#include "backup/base.h"
#include "cli/command.h"
#include "cli/device_choice.h"
#include "cli/first_token.h"
#include "cli/migrate.h"
#include "cli/place.h"
#include "cli/renewal.h"
#include "cli/served_files.h"
#include "follow/follower.h"
#include "follow/sender.h"
#include "http/client_address.h"
#include "http/cors.h"
#include "http/listen.h"
#include "http/rate_limit.h"
#include "http/static_files.h"
#include "http/tls.h"
#include "hub/hub.h"
#include "kinds/artifact_store.h"
#include "log/log.h"
#include "pool/supervisor.h"
#include "postgres/archive.h"
#include "postgres/embedded.h"
#include "resources/application.h"
#include "resources/notifier.h"
#include "resources/routes.h"
#include "resources/service_metrics.h"
#include "store/tokens.h"
#include "watch/watcher.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MIGRATION_MILLISECONDS = 60000, DESCRIPTORS = 4096, LABELS_BYTES = 4096, WORKER_ARGUMENTS = PLACE_WORDS + 24 };

static const struct option_row serve_options[] = {
    {"--listen", "ADDRESS", "DELTAQ_LISTEN", "127.0.0.1:8642", OPTION_ONCE,
     "Where to listen; beyond loopback only once a token was made"},
    PLACE_DATA_DIR,
    PLACE_ROOT,
    PLACE_DATABASE_URL,
    MIGRATE_NO_BACKUP,
    {"--archive", "DIR", "DELTAQ_ARCHIVE", NULL, OPTION_ONCE,
     "Archive the private database's log there, from now on, so that `deltaq restore --archive DIR --until TIME` has "
     "the database as of any moment; off: no longer"},
    PLACE_ACCESS,
    {"--workers", "N", "DELTAQ_WORKERS", "1", OPTION_ONCE,
     "Worker processes, at least one a CUDA device; 0: others do the work"},
    {"--launcher", "SYSTEM", "DELTAQ_LAUNCHER", NULL, OPTION_ONCE,
     "slurm: submit workers there too; its options are the variables of `deltaq launcher` (DELTAQ_LAUNCHER_...)"},
    {"--threads", "N", "DELTAQ_THREADS", "0", OPTION_ONCE, "Threads of each worker; 0: one for each processor"},
    PLACE_DEVICE,
    PLACE_MEMORY,
    PLACE_DEVICE_MEMORY,
    PLACE_LABEL,
    PLACE_AFFINITY_GRACE,
    PLACE_SAVE_EVERY,
    {"--queue-per-token", "N", "DELTAQ_QUEUE_PER_TOKEN", "0", OPTION_ONCE,
     "Runs that may wait in the queue for one token; more are refused (429); 0: as many as places stay free"},
    {"--watch-quiet", "SECONDS", "DELTAQ_WATCH_QUIET", "10", OPTION_ONCE,
     "How long files in watched directories must have been as they are before a checkpoint is registered"},
    {"--watch-poll", "SECONDS", "DELTAQ_WATCH_POLL", "5", OPTION_ONCE,
     "Between looks at watched directories where the kernel cannot tell"},
    {"--keep-events", "DAYS", "DELTAQ_KEEP_EVENTS", "30", OPTION_ONCE,
     "How long the change log (/v1/events) goes back"},
    {"--allow-private-webhooks", NULL, "DELTAQ_ALLOW_PRIVATE_WEBHOOKS", NULL, OPTION_ONCE,
     "Webhooks may go to addresses of this machine and of private networks"},
    {"--allow-host", "NAME", "DELTAQ_ALLOW_HOST", NULL, OPTION_COLONS, "One more name that requests may have in Host"},
    {"--allow-origin", "ORIGIN", "DELTAQ_ALLOW_ORIGIN", NULL, OPTION_SPACES,
     "An origin (http://localhost:8888) whose pages may use the API with a token; *: any page may read with one"},
    {"--static", "DIR", "DELTAQ_STATIC", NULL, OPTION_ONCE, "The dashboard's files (those that came with the binary)"},
    {"--socket", "PATH", "DELTAQ_SOCKET", NULL, OPTION_ONCE, "A unix socket to listen on as well"},
    {"--probes", "ADDRESS", "DELTAQ_PROBES", NULL, OPTION_ONCE,
     "A second address, for /healthz, /readyz and /metrics alone, which a flood of the first one does not reach"},
    {"--trust-loopback", NULL, "DELTAQ_TRUST_LOOPBACK", NULL, OPTION_ONCE,
     "While there is no token, let every user of this machine in, not only the server's own and root"},
    FIRST_TOKEN_OPTION,
    {"--tls-certificate", "FILE", "DELTAQ_TLS_CERTIFICATE", NULL, OPTION_ONCE,
     "Serve HTTPS (TLS 1.2 and 1.3) with this certificate, and the chain after it, in PEM; taken anew when it changes"},
    {"--tls-key", "FILE", "DELTAQ_TLS_KEY", NULL, OPTION_ONCE, "The certificate's private key in PEM, not encrypted"},
    {"--token-rate", "N", "DELTAQ_TOKEN_RATE", "500", OPTION_ONCE,
     "Requests a second of one token in the mean, 20 times as many at once; more get 429; 0: no limit"},
    {"--address-rate", "N", "DELTAQ_ADDRESS_RATE", "200", OPTION_ONCE,
     "The same of one address, for requests without a token known to be right; not of the server's own user"},
    {"--trust-proxy", "ADDRESS", "DELTAQ_TRUST_PROXY", NULL, OPTION_SPACES,
     "A proxy (10.0.0.7, 10.0.0.0/8, unix) whose X-Forwarded-For tells whose request it is, for limits and the log"},
    {"--access-log", NULL, "DELTAQ_ACCESS_LOG", NULL, OPTION_ONCE, "A line on stderr for each request"},
    PLACE_LOG_FORMAT,
    PLACE_LOG_LEVEL,
    {0},
};

/* Everything that runs, in the order in which it is started. */
struct serving {
    bool loopback, first_token;
    int64_t workers, devices, watch_poll, keep_events;
    char data_directory[PLACE_PATH];
    struct place_roots roots;
    struct hub *hub;
    struct artifact_store *artifact_store;
    struct embedded *embedded;
    struct application application;
    struct static_files *files;
    struct http_server *server;
    struct notifier *notifier;
    struct watcher *watcher;
    struct follower *follower;
    struct sender *sender;
    struct supervisor *supervisor;
    const char *worker_arguments[WORKER_ARGUMENTS], *launcher_arguments[WORKER_ARGUMENTS];
    char device[PLACE_DEVICE_NAME], on_cpu[16];
    char labels[LABELS_BYTES]; /* labels of its workers, separated by commas */
    int64_t token_rate, address_rate;
    struct client_networks proxies;
    struct tls_identity tls;
    struct renewal renewal;
};

/* Brings the database to this binary's schema, and finds out whether any token exists. When other machines reach the
 * address and there is no token, nothing is changed, unless the first token is to be made. */
static enum status prepare_database(const struct options *options, const struct serving *serving, bool *tokens,
                                    struct error *error)
{
    const char *conninfo = serving->application.conninfo;
    struct connection *connection = NULL;
    enum status status = connection_new(conninfo, "deltaq start", &connection, error);
    if (status != STATUS_OK) return serving->embedded == NULL ? place_name(status, "--database-url", error) : status;
    connection_set_deadline(connection, MIGRATION_MILLISECONDS);
    status = token_any_yet(connection, tokens, error);
    if (status == STATUS_OK && !serving->loopback && !*tokens && !serving->first_token)
        status = listen_refuse(options_text(options, "--listen"), error);
    if (status == STATUS_OK)
        status = migrate_schema(options, connection, conninfo,
                                serving->embedded != NULL ? serving->data_directory : NULL, NULL, error);
    connection_free(connection);
    return status;
}

static enum status start_http(const struct options *options, struct serving *serving, bool tokens, struct error *error)
{
    struct http_options http = {
        .listen = options_text(options, "--listen"),
        .allowed_hosts = options_all(options, "--allow-host"),
        .allowed_origins = options_all(options, "--allow-origin"),
        .token_configured = tokens,
        .socket = options_text(options, "--socket"),
        .probes = options_text(options, "--probes"),
        .trusted_proxies = &serving->proxies,
        .token_rate = (int)serving->token_rate,
        .address_rate = (int)serving->address_rate,
        .tls = &serving->tls,
        .trust_loopback = options_text(options, "--trust-loopback") != NULL,
        .files = serving->files,
        .spill_directory = serving->data_directory,
        .access_log = options_text(options, "--access-log") != NULL,
        .application = &serving->application,
        .thread_open = application_thread_open,
        .thread_close = application_thread_close,
        .authorize = application_authorize,
        .authorize_again = application_authorize_again,
        .idempotency = &application_idempotency,
        .conditions = &application_conditions,
    };
    http.routes = routes_all(&http.route_count);
    enum status status = service_metrics_new(serving->data_directory, &serving->application.metrics, error);
    if (status != STATUS_OK) return status;
    status = http_server_start(&http, &serving->server, error);
    if (status != STATUS_OK) return status;
    const struct notifier_options how = {
        .conninfo = serving->application.conninfo, .server = serving->server, .keep_event_days = serving->keep_events};
    return notifier_start(&how, &serving->notifier, error);
}

static enum status start_watcher(struct serving *serving, struct error *error)
{
    const struct watcher_options how = {
        .conninfo = serving->application.conninfo,
        .roots = serving->application.roots,
        .data_directory = serving->data_directory,
        .hub = serving->hub,
        .queued_most = serving->application.queue_per_token,
        .quiet_seconds = serving->application.watch_quiet_seconds,
        .poll_seconds = (double)serving->watch_poll,
    };
    return watcher_start(&how, &serving->watcher, error);
}

/* The options of the launcher, if one is to run; it reads everything else from the environment. */
static const char *const *launcher_words(const struct options *options, struct serving *serving)
{
    const char **words = serving->launcher_arguments;
    if (options_text(options, "--launcher") == NULL) return NULL;
    words[0] = "launcher";
    words[1] = options_text(options, "--launcher");
    (void)place_words(options, serving->data_directory, &serving->roots, words, 2);
    return words;
}

static void look_for_renewal(void *context)
{
    struct serving *serving = context;
    renewal_look(&serving->renewal, serving->server, false);
}

static void renew_now(void *context)
{
    struct serving *serving = context;
    renewal_look(&serving->renewal, serving->server, true);
}

static bool is_https(const struct options *options)
{
    return options_text(options, "--tls-certificate") != NULL;
}

static enum status start_workers(const struct options *options, struct serving *serving, struct error *error)
{
    static const char *const passed_on[] = {"--device",  "--memory",         "--device-memory",
                                            "--threads", "--affinity-grace", "--save-every"};
    size_t count = 0;
    const char **words = serving->worker_arguments;
    words[count++] = "worker";
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        words[count++] = passed_on[i];
        words[count++] = options_text(options, passed_on[i]);
    }
    (void)snprintf(serving->on_cpu, sizeof serving->on_cpu, "%d", (int)serving->workers);
    words[count++] = "--on-cpu";
    words[count++] = serving->on_cpu;
    if (is_https(options)) { /* only to be kept from clients */
        words[count++] = "--tls-key";
        words[count++] = options_text(options, "--tls-key");
    }
    if (serving->labels[0] != '\0') words[count++] = "--label";
    if (serving->labels[0] != '\0') words[count++] = serving->labels;
    (void)place_words(options, serving->data_directory, &serving->roots, words, count);
    const struct supervisor_options how = {
        .workers =
            (int)(serving->workers > 0 && serving->workers < serving->devices ? serving->devices : serving->workers),
        .arguments = words,
        .beside = launcher_words(options, serving),
        .conninfo = serving->application.conninfo,
        .embedded = serving->embedded,
        .tick = is_https(options) ? look_for_renewal : NULL,
        .hangup = is_https(options) ? renew_now : NULL,
        .context = serving,
    };
    return supervisor_start(&how, &serving->supervisor, error);
}

static enum status join_labels(const struct options *options, char out[LABELS_BYTES], struct error *error)
{
    json_t *labels = NULL, *label;
    size_t i, length = 0;
    const enum status status = place_labels(options, &labels, error);
    json_array_foreach(labels, i, label)
    {
        if (length < LABELS_BYTES)
            length += (size_t)snprintf(out + length, LABELS_BYTES - length, "%s%s", i > 0 ? "," : "",
                                       json_string_value(label));
    }
    json_decref(labels);
    return length < LABELS_BYTES ? status : error_set(error, STATUS_INVALID, "--label: too many labels");
}

static enum status check_launcher(const struct options *options, struct error *error)
{
    const char *launcher = options_text(options, "--launcher");
    if (launcher == NULL) return STATUS_OK;
    if (strcmp(launcher, "slurm") != 0)
        return error_set(error, STATUS_INVALID, "--launcher must be \"slurm\", found \"%.60s\"", launcher);
    if (options_text(options, "--database-url") != NULL) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "--launcher needs --database-url: jobs on other machines cannot reach the private database");
}

/* Checks the options on clients: where they connect, and how often. */
static enum status check_clients(const struct options *options, struct serving *serving, struct error *error)
{
    const int most = RATE_LIMIT_MOST;
    enum status status = options_integer(options, "--token-rate", 0, most, &serving->token_rate, error);
    if (status == STATUS_OK)
        status = options_integer(options, "--address-rate", 0, most, &serving->address_rate, error);
    if (status == STATUS_OK)
        status = client_networks_parse(options_all(options, "--trust-proxy"), &serving->proxies, error);
    if (status != STATUS_OK) return status;
    renewal_begin(&serving->renewal, options_text(options, "--tls-certificate"), options_text(options, "--tls-key"));
    return tls_identity_read(options_text(options, "--tls-certificate"), options_text(options, "--tls-key"),
                             &serving->tls, error);
}

/* Finds the devices that the workers will try; a child process asks the driver. With `auto`, plans are made for the
 * devices that workers have found. */
static enum status look_for_devices(const struct options *options, struct serving *serving, struct error *error)
{
    const char *device = options_text(options, "--device");
    const bool automatic = strcmp(device, "auto") == 0;
    struct device_trial trial;
    const enum status status = device_choice_try(device, 0, false, &trial, error);
    if (status != STATUS_OK && (status != STATUS_DEVICE || !automatic)) return status;
    (void)snprintf(serving->device, sizeof serving->device, "%s", trial.device);
    serving->devices = status == STATUS_OK ? trial.count : 1; /* the workers report a driver that crashes */
    serving->application.device = automatic && strcmp(trial.device, "cpu") != 0 ? NULL : serving->device;
    return STATUS_OK;
}

static enum status check_watching(const struct options *options, struct serving *serving, struct error *error)
{
    int64_t quiet;
    enum status status = options_integer(options, "--workers", 0, 64, &serving->workers, error);
    if (status == STATUS_OK) status = options_integer(options, "--watch-quiet", 0, 86400, &quiet, error);
    if (status == STATUS_OK) serving->application.watch_quiet_seconds = (double)quiet;
    if (status == STATUS_OK) status = options_integer(options, "--watch-poll", 1, 86400, &serving->watch_poll, error);
    if (status == STATUS_OK) status = options_integer(options, "--keep-events", 1, 36500, &serving->keep_events, error);
    return status;
}

/* Checks what the command line alone decides. */
static enum status check_options(const struct options *options, struct serving *serving, struct error *error)
{
    struct application *application = &serving->application;
    int64_t threads;
    double grace, save;
    enum status status;
    if ((status = check_watching(options, serving, error)) != STATUS_OK) return status;
    if ((status = check_launcher(options, error)) != STATUS_OK) return status;
    if ((status = join_labels(options, serving->labels, error)) != STATUS_OK) return status;
    if ((status = place_memory(options, &application->memory_bytes, error)) != STATUS_OK) return status;
    if ((status = place_device_memory(options, &application->device_memory_bytes, error)) != STATUS_OK) return status;
    if ((status = options_integer(options, "--threads", 0, 1024, &threads, error)) != STATUS_OK) return status;
    if ((status = place_affinity_grace(options, &grace, error)) != STATUS_OK) return status;
    if ((status = place_save_every(options, &save, error)) != STATUS_OK) return status;
    status = options_integer(options, "--queue-per-token", 0, 1000000, &application->queue_per_token, error);
    if (status != STATUS_OK) return status;
    if ((status = place_check(options, error)) != STATUS_OK) return status;
    if ((status = cors_check(options_all(options, "--allow-origin"), error)) != STATUS_OK) return status;
    application->threads = (int)threads;
    return check_clients(options, serving, error);
}

/* Checks everything before anything is made or started. */
static enum status check(const struct options *options, struct serving *serving, struct error *error)
{
    const char *address = options_text(options, "--listen");
    struct application *application = &serving->application;
    bool database = true;
    enum status status;
    if ((status = check_options(options, serving, error)) != STATUS_OK) return status;
    /* From here on it is also other programs that decide: options that are wrong are told on any machine. */
    if ((status = listen_check(address, &serving->loopback, error)) != STATUS_OK) return status;
    if ((status = look_for_devices(options, serving, error)) != STATUS_OK) return status;
    if ((status = served_files_load(options, &serving->files, error)) != STATUS_OK) return status;
    application->conninfo = options_text(options, "--database-url");
    if (application->conninfo != NULL && options_text(options, "--archive") != NULL)
        return error_set(error, STATUS_INVALID,
                         "--archive is of the private database: a server of --database-url has its own");
    serving->first_token = options_text(options, "--first-token") != NULL;
    application->allow_private_webhooks = options_text(options, "--allow-private-webhooks") != NULL;
    if (application->conninfo == NULL) status = place_has_database(options, &database, error);
    if (status == STATUS_OK && !database && !serving->loopback && !serving->first_token)
        status = listen_refuse(address, error);
    return status;
}

static enum status make_places(const struct options *options, struct serving *serving, struct error *error)
{
    enum status status;
    if ((status = place_data_directory(options, serving->data_directory, error)) != STATUS_OK) return status;
    if ((status = place_roots(options, serving->data_directory, &serving->roots, error)) != STATUS_OK) return status;
    if ((status = place_hub(options, serving->data_directory, &serving->hub, error)) != STATUS_OK) return status;
    serving->application.data_directory = serving->data_directory;
    serving->application.roots = &serving->roots.roots;
    if ((status = place_artifacts(options, serving->hub, &serving->artifact_store, error)) != STATUS_OK) return status;
    serving->application.hub = serving->hub;
    serving->application.artifact_place =
        (struct artifact_place){serving->data_directory, serving->artifact_store, serving->hub, NULL};
    return STATUS_OK;
}

static enum status start_embedded(const struct options *options, struct serving *serving, struct error *error)
{
    const struct embedded_options how = {
        .data_directory = serving->data_directory, .ballast_bytes = -1, .archive = options_text(options, "--archive")};
    const enum status status = place_embedded_start_as(&how, &serving->embedded, error);
    if (status != STATUS_OK) return status;
    serving->application.conninfo = embedded_conninfo(serving->embedded);
    serving->application.embedded = serving->embedded;
    return STATUS_OK;
}

/* Makes the archive's first copy, if the archive is new or has none. */
static enum status begin_archive(const struct serving *serving, struct error *error)
{
    char archive[ARCHIVE_PATH];
    struct connection *connection = NULL;
    const char *conninfo = serving->application.conninfo;
    enum status status = archive_recorded(serving->data_directory, archive, error);
    if (status != STATUS_OK || archive[0] == '\0') return status;
    log_info(LOG_COMPONENT_SERVE, "the database's log is archived into %s", archive);
    status = connection_new(conninfo, "deltaq start", &connection, error);
    if (status == STATUS_OK) status = base_ensure(connection, conninfo, archive, serving->data_directory, error);
    connection_free(connection);
    return status;
}

static enum status start(const struct options *options, struct serving *serving, struct error *error)
{
    bool tokens = false;
    struct application *application = &serving->application;
    enum status status;
    if ((status = check(options, serving, error)) != STATUS_OK) return status;
    const bool elsewhere = application->conninfo != NULL;
    if (elsewhere && (status = prepare_database(options, serving, &tokens, error)) != STATUS_OK) return status;
    if ((status = make_places(options, serving, error)) != STATUS_OK) return status;
    if (!elsewhere) {
        if ((status = start_embedded(options, serving, error)) != STATUS_OK) return status;
        if ((status = prepare_database(options, serving, &tokens, error)) != STATUS_OK) return status;
        if ((status = begin_archive(serving, error)) != STATUS_OK) return status;
    }
    if (serving->first_token && !tokens) {
        status = first_token_make(application->conninfo, serving->data_directory, error);
        if (status != STATUS_OK) return status;
        tokens = true;
    }
    place_guard(&serving->roots); /* the archive and a backup before a migration lie where they were told to */
    if ((status = start_http(options, serving, tokens, error)) != STATUS_OK) return status;
    if ((status = start_watcher(serving, error)) != STATUS_OK) return status;
    if ((status = follower_start(application->conninfo, &serving->follower, error)) != STATUS_OK) return status;
    status = sender_start(application->conninfo, application->allow_private_webhooks, &serving->sender, error);
    return status == STATUS_OK ? start_workers(options, serving, error) : status;
}

static void stop(struct serving *serving)
{
    sender_stop(serving->sender);
    follower_stop(serving->follower);
    watcher_stop(serving->watcher);
    notifier_stop(serving->notifier);
    http_server_stop(serving->server);
    service_metrics_free(serving->application.metrics);
    supervisor_stop(serving->supervisor);
    embedded_stop(serving->embedded);
    tls_identity_reset(&serving->tls);
    static_files_free(serving->files);
    artifact_store_free(serving->artifact_store);
    hub_free(serving->hub);
    place_roots_reset(&serving->roots);
}

/* Returns a request's memory to the system: with a fixed threshold every large block is a mapping of its own (glibc
 * would raise the threshold after the first free), and few arenas leave few fragments. */
static void give_memory_back(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
    (void)mallopt(M_ARENA_MAX, 4);
}

/* Raises the limit of descriptors as far as the system allows, up to what all connections need: shells give 1,024. */
static void raise_descriptors(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= DESCRIPTORS) return;
    files.rlim_cur = files.rlim_max < DESCRIPTORS ? files.rlim_max : DESCRIPTORS;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

static int serve_run(const struct options *options)
{
    static const struct rlimit no_core = {0};
    struct error error;
    int exit_status = 0;
    struct serving *serving = calloc(1, sizeof *serving);
    if (serving == NULL) return 1;
    give_memory_back();
    raise_descriptors();
    supervisor_block_signals(is_https(options));
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on file sizes fails with an error instead */
    (void)umask(077);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (place_log(options, &error) == STATUS_OK && start(options, serving, &error) == STATUS_OK) {
        (void)printf("deltaq listening on %s\n", http_server_url(serving->server));
        (void)fflush(stdout);
        (void)supervisor_run(serving->supervisor);
    } else {
        log_error(LOG_COMPONENT_SERVE, "%s", error.detail);
        exit_status = 1;
    }
    stop(serving);
    free(serving);
    return exit_status;
}

const struct command command_serve = {.name = "serve",
                                      .usage = "",
                                      .help = "Run the server, its workers and, unless told otherwise, its database",
                                      .options = serve_options,
                                      .run = serve_run};
