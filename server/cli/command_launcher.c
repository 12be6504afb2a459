#include "cli/command.h"
#include "cli/place.h"
#include "hub/hub.h"
#include "launch/launcher.h"
#include "log/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WORKER_WORDS = PLACE_WORDS + 4, MOST_JOBS = 10000, MOST_SECONDS = 366 * 86400 };

/* Memory for plans of runs whose jobs get what the batch system gives them. */
static const int64_t NO_BOUND = (int64_t)1 << 50;

static const struct option_row launcher_rows[] = {
    PLACE_DATA_DIR,
    PLACE_ROOT,
    PLACE_DATABASE_URL,
    PLACE_ACCESS,
    {"--name", "NAME", "DELTAQ_LAUNCHER_NAME", "deltaq", OPTION_ONCE,
     "Of its jobs; of several launchers with one name one submits, the others wait"},
    {"--template", "TEXT", "DELTAQ_LAUNCHER_TEMPLATES", NULL, OPTION_SEMICOLONS,
     "LABELS: OPTIONS, a kind of job: 'device=cuda,device_memory=74G: --partition=h100 --gres=gpu:1' (any CPU)"},
    {"--most-jobs", "N", "DELTAQ_LAUNCHER_MOST_JOBS", "10", OPTION_ONCE, "Jobs at a time"},
    {"--runs-each", "N", "DELTAQ_LAUNCHER_RUNS_EACH", "1", OPTION_ONCE, "Queued runs for each further job"},
    {"--memory", "MIB", "DELTAQ_LAUNCHER_MEMORY", "0", OPTION_ONCE,
     "Memory of a job (--mem), and what a run may take there; 0: the batch system's default"},
    {"--most-memory", "MIB", "DELTAQ_LAUNCHER_MOST_MEMORY", "0", OPTION_ONCE,
     "For runs that need more by their plan; 0: what --memory says, and without --memory no bound"},
    {"--time-limit", "SECONDS", "DELTAQ_LAUNCHER_TIME_LIMIT", "3600", OPTION_ONCE, "Time of a job (--time)"},
    {"--most-time", "SECONDS", "DELTAQ_LAUNCHER_MOST_TIME", "86400", OPTION_ONCE,
     "For runs that take longer by their plan; one that takes longer still goes on in the next job"},
    {"--idle-exit", "SECONDS", "DELTAQ_LAUNCHER_IDLE_EXIT", "60", OPTION_ONCE,
     "A worker ends after so long without a run"},
    {"--threads", "N", "DELTAQ_LAUNCHER_THREADS", "0", OPTION_ONCE,
     "Of each worker (--cpus-per-task); 0: the batch system's default"},
    {"--interval", "SECONDS", "DELTAQ_LAUNCHER_INTERVAL", "15", OPTION_ONCE, "Between looks at the queue"},
    {"--dry-run", NULL, NULL, NULL, OPTION_ONCE, "Print what would be submitted now, and end"},
    PLACE_LOG_FORMAT,
    PLACE_LOG_LEVEL,
    {0},
};

struct launching {
    struct launcher_options how;
    struct template templates[TEMPLATE_MOST];
    struct place_roots roots;
    struct hub *hub;
    struct connection *connection;
    struct launcher *launcher;
    char data_directory[PLACE_PATH], log_directory[PLACE_PATH], executable[PLACE_PATH];
    const char *worker[WORKER_WORDS];
};

static enum status read_templates(const struct options *options, struct launching *launching, struct error *error)
{
    enum status status = STATUS_OK;
    static const char *const any[] = {":", NULL};
    const char *const *texts = options_all(options, "--template");
    if (*texts == NULL) texts = any;
    for (; *texts != NULL && status == STATUS_OK; texts++) {
        if (launching->how.template_count == TEMPLATE_MOST)
            return error_set(error, STATUS_INVALID, "--template: more than %d", TEMPLATE_MOST);
        status = template_parse(*texts, &launching->templates[launching->how.template_count++], error);
    }
    launching->how.templates = launching->templates;
    return status;
}

static enum status read_numbers(const struct options *options, struct launcher_options *how, struct error *error)
{
    const struct {
        const char *flag;
        int64_t minimum, maximum, *out;
    } rows[] = {
        {"--most-jobs", 1, MOST_JOBS, &how->most_jobs},
        {"--runs-each", 1, MOST_JOBS, &how->runs_each},
        {"--memory", 0, 1 << 30, &how->memory_mib},
        {"--most-memory", 0, 1 << 30, &how->most_memory_mib},
        {"--time-limit", 60, MOST_SECONDS, &how->limit_seconds},
        {"--most-time", 60, MOST_SECONDS, &how->most_seconds},
        {"--idle-exit", 1, MOST_SECONDS, &how->idle_seconds},
        {"--threads", 0, 1024, &how->threads},
        {"--interval", 1, 3600, &how->interval_seconds},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == STATUS_OK; i++)
        status = options_integer(options, rows[i].flag, rows[i].minimum, rows[i].maximum, rows[i].out, error);
    if (how->most_memory_mib < how->memory_mib) how->most_memory_mib = how->memory_mib;
    if (how->most_seconds < how->limit_seconds) how->most_seconds = how->limit_seconds;
    return status;
}

static enum status read_line(const struct options *options, struct launching *launching, struct error *error)
{
    enum status status;
    const char *name = options_text(options, "--name"), *what = options->positional;
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (what == NULL || strcmp(what, "slurm") != 0)
        return error_set(error, STATUS_INVALID, "expected the batch system, which is \"slurm\"");
    if (strspn(name, letters) != strlen(name) || strlen(name) == 0 || strlen(name) > 60)
        return error_set(error, STATUS_INVALID, "--name must be at most 60 letters, digits, \".\", \"_\" and \"-\"");
    if (options_text(options, "--database-url") == NULL)
        return error_set(error, STATUS_INVALID,
                         "needs --database-url: jobs on other machines cannot reach the private database");
    launching->how.name = name;
    launching->how.dry_run = options_given(options, "--dry-run");
    if ((status = read_numbers(options, &launching->how, error)) != STATUS_OK) return status;
    if ((status = read_templates(options, launching, error)) != STATUS_OK) return status;
    return place_check(options, error);
}

/* The command line of every worker. Workers find the database in the environment, which sbatch passes on. */
static void worker_line(const struct options *options, struct launching *launching)
{
    const char **words = launching->worker;
    words[0] = launching->executable;
    words[1] = "worker";
    (void)place_words(options, launching->data_directory, &launching->roots, words, 2);
    launching->how.worker = words;
}

static enum status make_places(const struct options *options, struct launching *launching, struct error *error)
{
    enum status status;
    const char *url = options_text(options, "--database-url");
    const ssize_t length = readlink("/proc/self/exe", launching->executable, PLACE_PATH - 1);
    if (length <= 0) return error_set_errno(error, "cannot tell where the program is");
    /* It belongs to a supervisor and not to the workers that are submitted here. */
    (void)unsetenv("DELTAQ_WORKER_ID");
    (void)unsetenv("DELTAQ_WORKER_SLOT");
    if (setenv("DATABASE_URL", url, 1) != 0) return error_set_errno(error, "changing the environment");
    if ((status = place_data_directory(options, launching->data_directory, error)) != STATUS_OK) return status;
    if ((status = place_roots(options, launching->data_directory, &launching->roots, error)) != STATUS_OK)
        return status;
    if ((status = place_hub(options, launching->data_directory, &launching->hub, error)) != STATUS_OK) return status;
    if ((size_t)snprintf(launching->log_directory, PLACE_PATH, "%s/log", launching->data_directory) >= PLACE_PATH)
        return error_set(error, STATUS_INVALID, "--data-dir: path too long");
    if (mkdir(launching->log_directory, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, "making the directory of the jobs' logs");
    launching->how.log_directory = launching->log_directory;
    worker_line(options, launching);
    status = connection_new(url, "deltaq launcher", &launching->connection, error);
    launching->how.place = (struct dry_run_place){
        .connection = launching->connection,
        .roots = &launching->roots.roots,
        .data_directory = launching->data_directory,
        .device = "cpu",
        .memory_bytes = launching->how.memory_mib > 0 ? launching->how.memory_mib << 20 : NO_BOUND,
        .threads = (int)launching->how.threads,
        .hub = launching->hub,
    };
    return status;
}

/* Runs until SIGTERM or SIGINT. When the database or Slurm does not answer, the next look tries again. */
static int look_again_and_again(struct launching *launching)
{
    struct error error;
    sigset_t stop;
    char said[sizeof error.detail] = "";
    const struct timespec interval = {.tv_sec = launching->how.interval_seconds};
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTERM);
    (void)sigaddset(&stop, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    do {
        const enum status status = launcher_look(launching->launcher, &error);
        if (launching->how.dry_run) return status == STATUS_OK ? 0 : place_fail("launcher", &error);
        if (status != STATUS_OK && strncmp(said, error.detail, sizeof said - 1) != 0)
            log_error(LOG_COMPONENT_LAUNCHER, "%s", error.detail);
        (void)snprintf(said, sizeof said, "%s", status == STATUS_OK ? "" : error.detail);
    } while (sigtimedwait(&stop, NULL, &interval) < 0);
    return 0;
}

static int launcher_run(const struct options *options)
{
    struct error error;
    int exit_status = 1;
    struct launching *launching = calloc(1, sizeof *launching);
    if (launching == NULL) return 1;
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    enum status status = place_log(options, &error);
    if (status == STATUS_OK) status = read_line(options, launching, &error);
    if (status == STATUS_OK) status = make_places(options, launching, &error);
    if (status == STATUS_OK) status = launcher_new(&launching->how, &launching->launcher, &error);
    if (status == STATUS_OK)
        exit_status = look_again_and_again(launching);
    else
        log_error(LOG_COMPONENT_LAUNCHER, "%s", error.detail);
    launcher_free(launching->launcher);
    connection_free(launching->connection);
    hub_free(launching->hub);
    place_roots_reset(&launching->roots);
    for (size_t i = 0; i < launching->how.template_count; i++) template_reset(&launching->templates[i]);
    free(launching);
    return exit_status;
}

const struct command command_launcher = {.name = "launcher",
                                         .usage = "slurm",
                                         .help = "Submit workers to Slurm as the queue asks for them",
                                         .options = launcher_rows,
                                         .run = launcher_run,
                                         .words = 1};
