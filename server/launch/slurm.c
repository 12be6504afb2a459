#include "launch/slurm.h"

#include "launch/command_output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* States of jobs that run or will run; states of jobs that are ending (COMPLETING, TIMEOUT, PREEMPTED, NODE_FAIL) are
 * not listed. */
static const char *const waiting_states[] = {"PENDING",      "REQUEUED",     "CONFIGURING",
                                             "REQUEUE_HOLD", "SPECIAL_EXIT", NULL};
static const char *const working_states[] = {"RUNNING", "SUSPENDED", "RESIZING", "STOPPED", "SIGNALING", NULL};
/* States and reasons of jobs that wait until a person releases them, or that can never start. */
static const char *const held_states[] = {"REQUEUE_HOLD", "SPECIAL_EXIT", NULL};
static const char *const held_reasons[] = {"JobHeldUser",
                                           "JobHeldAdmin",
                                           "JobHoldMaxRequeue",
                                           "launch_failed_requeued_held",
                                           "job_requeued_in_held_state",
                                           "BadConstraints",
                                           "DependencyNeverSatisfied",
                                           NULL};

static bool is_one_of(const char *const *list, const char *word)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

/* Reads NAME-HASH-MEMORY from its end, because the name of another launcher may begin with NAME and a "-". */
static bool read_name(const char *full, const char *name, struct slurm_job *out)
{
    enum { HASH_DIGITS = 8, MEMORY_DIGITS_MOST = 18 };
    static const char digits[] = "0123456789abcdef";
    const size_t length = strlen(name);
    const char *last = strrchr(full, '-');
    if (last == NULL || (size_t)(last - full) != length + 1 + HASH_DIGITS) return false;
    if (strncmp(full, name, length) != 0 || full[length] != '-') return false;
    const char *hash = full + length + 1, *memory = last + 1;
    const size_t memory_digits = strlen(memory);
    if (strspn(hash, digits) != HASH_DIGITS || memory_digits == 0 || memory_digits > MEMORY_DIGITS_MOST) return false;
    if (strspn(memory, "0123456789") != memory_digits) return false;
    out->hash = (uint32_t)strtoul(hash, NULL, 16);
    out->memory_mib = strtoll(memory, NULL, 10);
    return true;
}

/* Reads "ID|HANDLE|NAME|STATE|REASON"; false for a line that is not about a living job of that name. */
static bool read_job(const char *line, const char *name, struct slurm_job *out)
{
    char full[256], id[24];
    *out = (struct slurm_job){0};
    if (sscanf(line, "%23[^|]|%31[^|]|%255[^|]|%19[^|]|%31[^|\n]", id, out->handle, full, out->state, out->reason) < 4)
        return false;
    for (char *at = out->reason; *at != '\0'; at++) /* squeue writes some reasons as words, "launch failed" */
        if (*at == ' ') *at = '_';
    if (!read_name(full, name, out)) return false;
    out->pending = is_one_of(waiting_states, out->state);
    out->held = out->pending && (is_one_of(held_states, out->state) || is_one_of(held_reasons, out->reason));
    out->delayed = out->held || (out->pending && strcmp(out->reason, "BeginTime") == 0);
    if (!out->pending) (void)snprintf(out->id, sizeof out->id, "%s", id);
    return out->pending || is_one_of(working_states, out->state);
}

enum status slurm_jobs(const char *name, struct slurm_job **out, size_t *count, struct error *error)
{
    static const char *const words[] = {"squeue", "--me", "--noheader", "--array", "--format=%A|%i|%j|%T|%r", NULL};
    char *text = NULL, *kept = NULL;
    size_t lines = 1;
    *out = NULL;
    *count = 0;
    const enum status status = command_output(words, NULL, &text, error);
    if (status != STATUS_OK) return status;
    for (const char *at = text; *at != '\0'; at++) lines += *at == '\n';
    *out = calloc(lines, sizeof **out);
    if (*out != NULL)
        for (const char *line = strtok_r(text, "\n", &kept); line != NULL; line = strtok_r(NULL, "\n", &kept))
            *count += read_job(line, name, &(*out)[*count]);
    free(text);
    return *out != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for jobs");
}

static bool add(json_t *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool add(json_t *words, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < sizeof text && json_array_append_new(words, json_string(text)) == 0;
}

/* Writes the word in single quotes, within which a shell changes nothing. */
static bool quote(const char *word, char *out, size_t size, size_t *length)
{
    bool good = true;
    for (const char *at = word; good; at++) {
        const char *escaped = *at == '\'' ? "'\\''" : NULL;
        char plain[2] = {*at, '\0'};
        const int made = snprintf(out + *length, size - *length, "%s%s%s", at == word ? " '" : "",
                                  escaped != NULL ? escaped : plain, *at == '\0' ? "'" : "");
        good = made >= 0 && (size_t)made < size - *length;
        if (good) *length += (size_t)made;
        if (*at == '\0') break;
    }
    return good;
}

static json_t *make_script(const char *const *worker)
{
    enum { SCRIPT_BYTES = 30000 };
    char *text = malloc(SCRIPT_BYTES);
    bool good = text != NULL;
    size_t length = good ? (size_t)snprintf(text, SCRIPT_BYTES, "#!/bin/sh\nexec") : 0;
    for (; good && *worker != NULL; worker++) good = quote(*worker, text, SCRIPT_BYTES - 1, &length);
    if (good) (void)snprintf(text + length, SCRIPT_BYTES - length, "\n");
    json_t *script = good ? json_string(text) : NULL;
    free(text);
    return script;
}

enum status slurm_command(const struct slurm_submission *submission, json_t **words, json_t **script,
                          struct error *error)
{
    *words = json_array();
    *script = make_script(submission->worker);
    bool good = *words != NULL && *script != NULL && add(*words, "sbatch") && add(*words, "--parsable") &&
                add(*words, "--job-name=%s-%08" PRIx32 "-%" PRId64, submission->name, submission->template->hash,
                    submission->memory_mib) &&
                add(*words, "--requeue") && add(*words, "--open-mode=append") &&
                add(*words, "--output=%s/slurm-%%j.log", submission->log_directory) &&
                add(*words, "--time=%" PRId64, submission->minutes);
    if (submission->memory_mib > 0) good = good && add(*words, "--mem=%" PRId64 "M", submission->memory_mib);
    if (submission->threads > 0) good = good && add(*words, "--cpus-per-task=%" PRId64, submission->threads);
    if (submission->count > 1) good = good && add(*words, "--array=0-%" PRId64, submission->count - 1);
    for (const char *const *option = submission->template->options; *option != NULL; option++)
        good = good && add(*words, "%s", *option);
    if (good) return STATUS_OK;
    json_decref(*words);
    json_decref(*script);
    *words = *script = NULL;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a job, or its command line is too long");
}

enum status slurm_submit(const struct slurm_submission *submission, char **job, struct error *error)
{
    enum { WORDS_MOST = 64 };
    const char *line[WORDS_MOST + 1] = {NULL};
    json_t *words, *script;
    size_t i;
    const json_t *word;
    *job = NULL;
    enum status status = slurm_command(submission, &words, &script, error);
    if (status != STATUS_OK) return status;
    json_array_foreach(words, i, word) if (i < WORDS_MOST) line[i] = json_string_value(word);
    status = command_output(line, json_string_value(script), job, error);
    if (status == STATUS_OK) (*job)[strcspn(*job, ";\n")] = '\0';
    json_decref(words);
    json_decref(script);
    return status;
}

enum status slurm_cancel_pending(const struct slurm_job *job, struct error *error)
{
    /* The filter spares a job that has started meanwhile, but REQUEUE_HOLD is no PENDING for it. */
    const char *const waiting[] = {"scancel", "--state=PENDING", job->handle, NULL};
    const char *const held[] = {"scancel", job->handle, NULL};
    char *text = NULL;
    const enum status status = command_output(job->held ? held : waiting, NULL, &text, error);
    free(text);
    return status;
}

/* Jobs that one command asks for, and the bytes of their ids with a comma each. */
enum { PART_MOST = 200, ID_MOST = 20, IDS_BYTES = PART_MOST * (ID_MOST + 1) + 1 };

/* One word that is no id would make squeue refuse the others. */
static bool is_id(const char *job)
{
    const size_t length = strlen(job);
    return length > 0 && length <= ID_MOST && strspn(job, "0123456789") == length;
}

/* Writes "1,2,3", the next jobs from *at on of which nothing is known; "" when there are no more. */
static void list_unknown(const struct slurm_end *ends, size_t count, size_t *at, char out[IDS_BYTES])
{
    size_t length = 0;
    out[0] = '\0';
    for (int listed = 0; *at < count && listed < PART_MOST; ++*at) {
        if (ends[*at].job == NULL || ends[*at].state[0] != '\0' || !is_id(ends[*at].job)) continue;
        length += (size_t)snprintf(out + length, IDS_BYTES - length, "%s%s", listed > 0 ? "," : "", ends[*at].job);
        listed++;
    }
}

/* What a program says on the lines of the jobs, "JOB|STATE": accounting has more lines for their steps. */
static void find_states(const char *const *words, struct slurm_end *ends, size_t count)
{
    struct error ignored;
    char *text = NULL, *kept = NULL;
    if (command_output(words, NULL, &text, &ignored) != STATUS_OK) return;
    for (char *line = strtok_r(text, "\n", &kept); line != NULL; line = strtok_r(NULL, "\n", &kept)) {
        const size_t length = strcspn(line, "|");
        if (line[length] == '\0') continue;
        line[length] = '\0';
        for (size_t i = 0; i < count; i++)
            if (ends[i].job != NULL && strcmp(ends[i].job, line) == 0)
                (void)snprintf(ends[i].state, sizeof ends[i].state, "%s", line + length + 1);
    }
    free(text);
}

void slurm_ends(struct slurm_end *ends, size_t count)
{
    char ids[IDS_BYTES];
    const char *const controller[] = {"squeue", "--noheader", "--states=all", "--format=%A|%T", "--jobs", ids, NULL};
    const char *const accounting[] = {
        "sacct", "--noheader", "--parsable2", "--jobs", ids, "--allocations", "--format=JobIDRaw,State", NULL};
    const char *const *const programs[] = {controller, accounting};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        size_t at = 0;
        for (list_unknown(ends, count, &at, ids); ids[0] != '\0'; list_unknown(ends, count, &at, ids))
            find_states(programs[i], ends, count);
    }
}
