#include "launch/launcher.h"

#include "base/integer.h"
#include "launch/command_output.h"
#include "launch/estimate.h"
#include "launch/held_jobs.h"
#include "launch/skipped_looks.h"
#include "launch/slurm.h"
#include "log/log.h"
#include "store/demand.h"
#include "store/queue.h"
#include "json/written.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 200, MIB = 1 << 20, STEP_MIB = 1024, LABELS_BYTES = 2048 };
/* A worker is seen every ten seconds. */
static const double SILENT_SECONDS = 25;
/* Half a lease: a worker that lives has renewed its own by then. */
static const double BEAT_SECONDS = 15;

struct launcher {
    struct launcher_options options;
    struct store_id owner;
    struct held_jobs *held;       /* owned */
    char label[128];              /* that its workers have */
    bool waited;                  /* it has said that another has its name */
    bool submitted;               /* since a worker of its had a run */
    struct skipped_looks backoff; /* in vain: looks in a row at which all that was submitted had gone without a run */
    double looked_at;             /* by the database's clock, at the look that the next rescue goes by; 0: none */
    char unserved[256], refused[sizeof((struct error *)0)->detail]; /* that it has said */
};

/* One poll: the jobs, and which of them are needed. */
struct look {
    struct slurm_job *jobs;
    bool *taken;
    size_t count;
    int64_t busy;
    bool submits; /* false while jobs end without taking a run */
    bool ours;    /* false once another launcher has its name: then the look ends */
};

/* A label that a worker did not get would leave runs without one that may take them. */
static enum status check_labels(const struct launcher *launcher, const struct template *template, struct error *error)
{
    size_t i, length = strlen(launcher->label);
    const json_t *label;
    json_array_foreach(template->labels, i, label) length += 1 + json_string_length(label);
    if (length < LABELS_BYTES) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "--template: its labels, with \"%s\", have %zu bytes; a worker takes at most %d", launcher->label,
                     length, LABELS_BYTES - 1);
}

enum status launcher_new(const struct launcher_options *options, struct launcher **out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = NULL;
    struct launcher *launcher = calloc(1, sizeof *launcher);
    if (launcher == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a launcher");
    launcher->options = *options;
    launcher->owner = store_id_new();
    (void)snprintf(launcher->label, sizeof launcher->label, "launcher=%s", options->name);
    for (size_t i = 0; i < options->template_count && status == STATUS_OK; i++)
        status = check_labels(launcher, &options->templates[i], error);
    if (status == STATUS_OK)
        status = held_jobs_new(options->templates, options->template_count, &launcher->held, error);
    if (status == STATUS_OK)
        *out = launcher;
    else
        free(launcher);
    return status;
}

void launcher_free(struct launcher *launcher)
{
    struct error error;
    if (launcher == NULL) return;
    if (!launcher->options.dry_run && demand_disclaim(launcher->options.place.connection, launcher->options.name,
                                                      &launcher->owner, &error) != STATUS_OK)
        log_warning(LOG_COMPONENT_LAUNCHER, "cannot give its place back: %s", error.detail);
    held_jobs_free(launcher->held);
    free(launcher);
}

/* ---- one of those with a name submits ---- */

/* The most that a run may have of a job; 0: no bound. */
static int64_t most_bytes(const struct launcher_options *options)
{
    return (options->most_memory_mib > options->memory_mib ? options->most_memory_mib : options->memory_mib) * MIB;
}

/* Whether this one submits under its name, and for longer than usual for a command that takes `ahead_seconds`. */
static enum status claim(struct launcher *launcher, double ahead_seconds, bool *ours, struct error *error)
{
    const struct launcher_options *options = &launcher->options;
    const double seconds = 3 * (double)options->interval_seconds + 10;
    *ours = true;
    if (options->dry_run) return STATUS_OK;
    struct demand_memory most = {.host = most_bytes(options)};
    for (size_t i = 0; i < options->template_count; i++)
        if (options->templates[i].device_memory > most.device) most.device = options->templates[i].device_memory;
    const enum status status = demand_claim(options->place.connection, options->name, &launcher->owner, seconds,
                                            ahead_seconds, &most, ours, error);
    if (status == STATUS_OK && !*ours && !launcher->waited)
        log_info(LOG_COMPONENT_LAUNCHER, "waits: another launcher called \"%s\" submits workers", options->name);
    launcher->waited = status == STATUS_OK && !*ours;
    return status;
}

/* ---- submitting ---- */

/* What a job must have for runs that need `bytes`; 0: not asked for. -1: more than a job may have. */
static int64_t job_memory(const struct launcher_options *options, int64_t bytes)
{
    const int64_t needed = bytes / MIB + (bytes % MIB != 0);
    if (needed <= options->memory_mib || (bytes == 0 && options->memory_mib == 0)) return options->memory_mib;
    const int64_t rounded = (needed + STEP_MIB - 1) / STEP_MIB * STEP_MIB;
    if (rounded <= options->most_memory_mib || options->most_memory_mib == 0) return rounded;
    return needed <= options->most_memory_mib ? options->most_memory_mib : -1;
}

/* Twice what the longest is planned to take, and five minutes to start. */
static int64_t job_seconds(const struct launcher_options *options, const json_t *seconds)
{
    const double wanted = json_is_number(seconds) ? 2 * json_number_value(seconds) + 300 : 0;
    if (wanted <= (double)options->limit_seconds) return options->limit_seconds;
    return wanted < (double)options->most_seconds ? (int64_t)wanted : options->most_seconds;
}

struct worker_texts {
    char limit[24], idle[24], threads[24], memory[24], labels[LABELS_BYTES];
};

static void worker_words(const struct launcher *launcher, const struct slurm_submission *job,
                         struct worker_texts *texts, const char *words[WORDS_MOST])
{
    const struct launcher_options *options = &launcher->options;
    size_t i, count = 0, length;
    const json_t *label;
    /* It counts from when the worker starts, and the batch system from when the job does. */
    const int64_t seconds = job->minutes * 60 - (job->minutes > 2 ? 30 : 0);
    (void)snprintf(texts->limit, sizeof texts->limit, "%" PRId64, seconds);
    (void)snprintf(texts->idle, sizeof texts->idle, "%" PRId64, options->idle_seconds);
    (void)snprintf(texts->threads, sizeof texts->threads, "%" PRId64, options->threads);
    (void)snprintf(texts->memory, sizeof texts->memory, "%" PRId64, job->memory_mib);
    length = (size_t)snprintf(texts->labels, sizeof texts->labels, "%s", launcher->label);
    json_array_foreach(job->template->labels, i, label) length += /* which fit: check_labels */
        (size_t)snprintf(texts->labels + length, sizeof texts->labels - length, ",%s", json_string_value(label));
    for (; options->worker[count] != NULL && count < WORDS_MOST - 16; count++) words[count] = options->worker[count];
    const char *const more[] = {"--device",     template_device(job->template),
                                "--label",      texts->labels,
                                "--memory",     texts->memory,
                                "--threads",    texts->threads,
                                "--time-limit", texts->limit,
                                "--idle-exit",  texts->idle};
    for (i = 0; i < sizeof more / sizeof more[0]; i++) words[count++] = more[i];
    words[count] = NULL;
}

static enum status print_submission(const struct slurm_submission *submission, struct error *error)
{
    size_t i;
    json_t *words, *script;
    const json_t *word;
    const enum status status = slurm_command(submission, &words, &script, error);
    if (status != STATUS_OK) return status;
    json_array_foreach(words, i, word)(void) printf("%s%s", i > 0 ? " " : "", json_string_value(word));
    (void)printf(" <<'END'\n%sEND\n", json_string_value(script));
    json_decref(words);
    json_decref(script);
    return STATUS_OK;
}

static enum status submit(struct launcher *launcher, const struct template *template, int64_t memory_mib,
                          int64_t seconds, int64_t count, struct error *error)
{
    const char *words[WORDS_MOST];
    struct worker_texts texts;
    char *job = NULL;
    struct slurm_submission submission = {
        .name = launcher->options.name,
        .template = template,
        .memory_mib = memory_mib,
        .minutes = (seconds + 59) / 60,
        .threads = launcher->options.threads,
        .count = count,
        .log_directory = launcher->options.log_directory,
        .worker = words,
    };
    worker_words(launcher, &submission, &texts, words);
    if (launcher->options.dry_run) return print_submission(&submission, error);
    const enum status status = slurm_submit(&submission, &job, error);
    if (status == STATUS_OK)
        log_info(LOG_COMPONENT_LAUNCHER, "submitted job %s: %" PRId64 " worker%s (%s)", job, count,
                 count == 1 ? "" : "s", texts.labels);
    launcher->submitted = launcher->submitted || status == STATUS_OK;
    free(job);
    return status;
}

/* ---- a look ---- */

/* A job that has or will have a worker for such runs and is not spoken for: the smallest that is large enough. */
static bool take_job(struct look *look, const struct template *template, int64_t memory_mib)
{
    size_t best = look->count;
    for (size_t i = 0; i < look->count; i++) {
        const struct slurm_job *job = &look->jobs[i];
        if (look->taken[i] || job->delayed || job->hash != template->hash || job->memory_mib < memory_mib) continue;
        if (best == look->count || job->memory_mib < look->jobs[best].memory_mib) best = i;
    }
    if (best < look->count) look->taken[best] = true;
    return best < look->count;
}

/* Says once what no template serves. */
static void note_unserved(struct launcher *launcher, const json_t *group)
{
    char *text = written_json(group, JSON_COMPACT);
    if (text != NULL && strncmp(text, launcher->unserved, sizeof launcher->unserved - 1) != 0)
        log_warning(LOG_COMPONENT_LAUNCHER, "no template and no memory limit lets a job serve these runs: %.400s",
                    text);
    (void)snprintf(launcher->unserved, sizeof launcher->unserved, "%s", text != NULL ? text : "");
    free(text);
}

/* Says once what Slurm does not take, as a job with more memory than a node has; other runs get their jobs. */
static void note_refused(struct launcher *launcher, const char *detail)
{
    if (detail[0] != '\0' && strcmp(detail, launcher->refused) != 0)
        log_error(LOG_COMPONENT_LAUNCHER, "cannot submit: %s", detail);
    (void)snprintf(launcher->refused, sizeof launcher->refused, "%s", detail);
}

/* Slurm may have taken minutes to answer this far, so that another launcher has its name; and sbatch may take one. */
static enum status submit_as_owner(struct launcher *launcher, struct look *look, const struct template *template,
                                   int64_t memory_mib, int64_t seconds, int64_t *count, struct error *refused,
                                   struct error *error)
{
    const enum status status = claim(launcher, COMMAND_OUTPUT_SECONDS, &look->ours, error);
    if (status != STATUS_OK || !look->ours) return status;
    if (submit(launcher, template, memory_mib, seconds, *count, refused) != STATUS_OK) *count = 0;
    return claim(launcher, 0, &look->ours, error);
}

/* What Slurm does not take is told in *refused. */
static enum status serve_group(struct launcher *launcher, struct look *look, const json_t *group, int64_t *space,
                               struct error *refused, struct error *error)
{
    const struct launcher_options *options = &launcher->options;
    const char *device = json_string_value(json_object_get(group, "device"));
    const int64_t memory = job_memory(options, json_integer_value(json_object_get(group, "memory_bytes")));
    const int64_t runs = json_integer_value(json_object_get(group, "runs"));
    int64_t wanted = (runs + options->runs_each - 1) / options->runs_each;
    const struct template *template = template_find(options->templates, options->template_count, device,
                                                    json_integer_value(json_object_get(group, "device_memory_bytes")),
                                                    json_object_get(group, "labels"));
    if (template == NULL || memory < 0) {
        note_unserved(launcher, group);
        return STATUS_OK;
    }
    while (wanted > 0 && take_job(look, template, memory)) wanted--;
    wanted = smaller(smaller(wanted, *space), SLURM_ARRAY_MOST); /* the next look submits more */
    if (wanted <= 0 || !look->submits || held_jobs_wait(launcher->held, template)) return STATUS_OK;
    const int64_t seconds = job_seconds(options, json_object_get(group, "seconds"));
    const enum status status = submit_as_owner(launcher, look, template, memory, seconds, &wanted, refused, error);
    *space -= wanted;
    return status;
}

static bool has_job(const struct look *look, const char *id)
{
    for (size_t i = 0; i < look->count; i++)
        if (strcmp(look->jobs[i].id, id) == 0) return true;
    return false;
}

static enum status note_out_of_memory(const struct launcher *launcher, const char *job, struct error *error)
{
    struct demand_out_of_memory found;
    const enum status status = demand_out_of_memory(launcher->options.place.connection, launcher->label, job,
                                                    most_bytes(&launcher->options), &found, error);
    if (status == STATUS_OK)
        log_warning(LOG_COMPONENT_LAUNCHER,
                    "job %s was killed, out of memory with %" PRId64 " MiB: %d run%s back in the queue for a job with"
                    " more, %d failed",
                    job, found.memory_bytes / MIB, found.raised, found.raised == 1 ? "" : "s", found.failed);
    return status;
}

/* A job that is no longer in the list. What Slurm killed for its memory says so at once; of anything else it is the
 * worker's silence that tells that the job is not just ending in order. */
static enum status meet_gone(const struct launcher *launcher, const struct slurm_end *gone, double silent,
                             struct error *error)
{
    const char *job = gone->job, *end = gone->state;
    int released = 0;
    if (strcmp(end, "OUT_OF_MEMORY") == 0) return note_out_of_memory(launcher, job, error);
    if (silent < SILENT_SECONDS) return STATUS_OK;
    const enum status status =
        demand_job_gone(launcher->options.place.connection, launcher->label, job, SILENT_SECONDS, &released, error);
    if (status == STATUS_OK)
        log_warning(LOG_COMPONENT_LAUNCHER, "job %s is gone%s%s: %d run%s back in the queue", job,
                    end[0] != '\0' ? ", " : "", end, released, released == 1 ? "" : "s");
    return status;
}

/* Busy ones are spoken for; what a job held that is gone goes back. */
static enum status meet_workers(struct launcher *launcher, struct look *look, const json_t *workers,
                                struct error *error)
{
    size_t i;
    const json_t *worker;
    enum status status = STATUS_OK;
    struct slurm_end *ends = calloc(json_array_size(workers) + 1, sizeof *ends);
    if (ends == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for workers");
    json_array_foreach(workers, i, worker)
    {
        const char *job = json_string_value(json_object_get(worker, "job"));
        const bool busy = json_is_true(json_object_get(worker, "busy"));
        for (size_t j = 0; j < look->count && busy; j++)
            look->taken[j] = look->taken[j] || strcmp(look->jobs[j].id, job) == 0;
        look->busy += busy;
        if (!has_job(look, job) && !launcher->options.dry_run) ends[i].job = job;
    }
    slurm_ends(ends, json_array_size(workers));
    json_array_foreach(workers, i, worker)
    {
        const double silent = json_number_value(json_object_get(worker, "silent"));
        if (ends[i].job == NULL) continue;
        if ((status = meet_gone(launcher, &ends[i], silent, error)) != STATUS_OK) break;
    }
    free(ends);
    return status;
}

/* A lease expired at two polls half a lease apart has no living worker. Other workers normally return such runs to the
 * queue; when the last worker has vanished the launcher must do it, because otherwise no job would be submitted for
 * them. */
static enum status rescue(struct launcher *launcher, double time, struct error *error)
{
    int rescued = 0;
    enum status status = STATUS_OK;
    const bool first = launcher->looked_at <= 0 || time < launcher->looked_at;
    if (launcher->options.dry_run || (!first && time - launcher->looked_at < BEAT_SECONDS)) return STATUS_OK;
    if (!first) status = queue_rescue_older(launcher->options.place.connection, launcher->looked_at, &rescued, error);
    launcher->looked_at = time;
    if (rescued > 0)
        log_warning(LOG_COMPONENT_LAUNCHER, "rescued %d run%s of workers that are gone", rescued,
                    rescued == 1 ? "" : "s");
    return status;
}

/* Held jobs are said and counted at their template. Where no other job is left, count_failures must not count them
 * again once they are cancelled. */
static enum status meet_held(struct launcher *launcher, const struct look *look, struct error *error)
{
    size_t held = 0;
    for (size_t i = 0; i < look->count; i++) held += look->jobs[i].held;
    if (held > 0 && held == look->count) launcher->submitted = false;
    return held_jobs_look(launcher->held, look->jobs, look->taken, look->count, error);
}

/* All that was submitted has ended, none had a run, and there are runs: something is wrong with the jobs. */
static void count_failures(struct launcher *launcher, struct look *look, bool wanted)
{
    struct skipped_looks *backoff = &launcher->backoff;
    look->submits = !skipped_looks_pass(backoff);
    if (look->busy > 0 || !wanted) {
        backoff->in_vain = 0;
        launcher->submitted = false;
    }
    if (!launcher->submitted || look->count > 0 || !wanted || backoff->skip > 0) return;
    skipped_looks_fail(backoff);
    launcher->submitted = false;
    look->submits = false;
    log_warning(LOG_COMPONENT_LAUNCHER, "its jobs ended without taking a run; see %s. It submits again after %d looks",
                launcher->options.log_directory, backoff->skip);
}

static enum status cancel_spare(const struct launcher *launcher, const struct look *look, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < look->count && status == STATUS_OK; i++) {
        const struct slurm_job *job = &look->jobs[i];
        if (look->taken[i] || !job->pending) continue;
        /* one of no template was submitted by somebody else, or before the templates were changed */
        if (template_of_hash(launcher->options.templates, launcher->options.template_count, job->hash) == NULL)
            continue;
        if (launcher->options.dry_run) {
            (void)printf("scancel %s%s\n", job->held ? "" : "--state=PENDING ", job->handle);
            continue;
        }
        status = slurm_cancel_pending(job, error);
        if (status == STATUS_OK && !job->held)
            log_info(LOG_COMPONENT_LAUNCHER, "job %s, which waits to start, is not needed any more", job->handle);
    }
    return status;
}

static enum status look_around(struct launcher *launcher, const json_t *demand, struct look *look, struct error *error)
{
    size_t i;
    const json_t *group, *groups = json_object_get(demand, "groups");
    int64_t space = launcher->options.most_jobs;
    struct error refused = {.detail = ""};
    enum status status = meet_workers(launcher, look, json_object_get(demand, "workers"), error);
    for (size_t j = 0; j < look->count; j++) space -= !look->jobs[j].delayed;
    if (status == STATUS_OK) status = meet_held(launcher, look, error);
    if (status != STATUS_OK) return status;
    count_failures(launcher, look, json_array_size(groups) > 0);
    json_array_foreach(groups, i, group)
    {
        status = serve_group(launcher, look, group, &space, &refused, error);
        if (status != STATUS_OK || !look->ours) return status;
    }
    note_refused(launcher, refused.detail);
    return cancel_spare(launcher, look, error);
}

enum status launcher_look(struct launcher *launcher, struct error *error)
{
    struct look look = {0};
    json_t *demand = NULL;
    int planned = 0;
    enum status status = claim(launcher, 0, &look.ours, error);
    if (status != STATUS_OK || !look.ours) return status;
    if (!launcher->options.dry_run)
        status = estimate_some(&launcher->options.place, launcher->options.templates, launcher->options.template_count,
                               &planned, error);
    if (status == STATUS_OK) status = demand_read(launcher->options.place.connection, launcher->label, &demand, error);
    /* Behind the queue: a job that appears meanwhile is seen, one that is not yet counted is not submitted twice. */
    if (status == STATUS_OK) status = slurm_jobs(launcher->options.name, &look.jobs, &look.count, error);
    if (status == STATUS_OK) status = claim(launcher, 0, &look.ours, error);
    if (status == STATUS_OK && (look.taken = calloc(look.count + 1, sizeof *look.taken)) == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for jobs");
    if (status == STATUS_OK) status = rescue(launcher, json_number_value(json_object_get(demand, "time")), error);
    if (status == STATUS_OK && look.ours) status = look_around(launcher, demand, &look, error);
    if (status != STATUS_OK) launcher->looked_at = 0; /* the database may be away; workers need time after it */
    json_decref(demand);
    free(look.jobs);
    free(look.taken);
    return status;
}
