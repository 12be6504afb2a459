#include "launch/held_jobs.h"

#include "launch/skipped_looks.h"
#include "log/log.h"

#include <stdlib.h>

/* The jobs of one template. */
struct kind {
    int64_t busy; /* workers with a run at the last look */
    struct skipped_looks backoff;
    bool waits; /* no job is submitted at this look */
};

struct held_jobs {
    const struct template *templates; /* lent */
    size_t count;
    json_t *said;                         /* the handles of the jobs that were held at the last look, as keys */
    struct kind kinds[TEMPLATE_MOST + 1]; /* the last: jobs of templates that are no longer there */
};

enum status held_jobs_new(const struct template *templates, size_t count, struct held_jobs **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for held jobs");
    (*out)->templates = templates;
    (*out)->count = count < TEMPLATE_MOST ? count : TEMPLATE_MOST;
    return STATUS_OK;
}

void held_jobs_free(struct held_jobs *held)
{
    if (held == NULL) return;
    json_decref(held->said);
    free(held);
}

static size_t find_kind(const struct held_jobs *held, uint32_t hash)
{
    const struct template *found = template_of_hash(held->templates, held->count, hash);
    return found != NULL ? (size_t)(found - held->templates) : TEMPLATE_MOST;
}

/* Jobs of an array are held one after the other: those that follow while the template waits count once. */
static void count_look(struct kind *kind, int64_t busy, int64_t newly_held)
{
    struct skipped_looks *backoff = &kind->backoff;
    if (busy > kind->busy) backoff->in_vain = 0;
    kind->busy = busy;
    kind->waits = skipped_looks_pass(backoff);
    if (newly_held == 0 || backoff->skip > 0) return;
    skipped_looks_fail(backoff);
    kind->waits = true;
    log_warning(LOG_COMPONENT_LAUNCHER, "the template of held jobs gets new ones after %d look%s", backoff->skip,
                backoff->skip == 1 ? "" : "s");
}

enum status held_jobs_look(struct held_jobs *held, const struct slurm_job *jobs, const bool *busy, size_t count,
                           struct error *error)
{
    int64_t working[TEMPLATE_MOST + 1] = {0}, newly[TEMPLATE_MOST + 1] = {0};
    json_t *said = json_object();
    bool good = said != NULL;
    for (size_t i = 0; i < count; i++) {
        const struct slurm_job *job = &jobs[i];
        const size_t kind = find_kind(held, job->hash);
        working[kind] += busy[i];
        if (!job->held) continue;
        good = good && json_object_set_new_nocheck(said, job->handle, json_true()) == 0;
        if (json_object_get(held->said, job->handle) != NULL) continue;
        newly[kind]++;
        log_warning(LOG_COMPONENT_LAUNCHER, "Slurm holds job %s (%s, %s), so no worker comes of it", job->handle,
                    job->state, job->reason);
    }
    json_decref(held->said);
    held->said = said;
    for (size_t i = 0; i < held->count; i++) count_look(&held->kinds[i], working[i], newly[i]);
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for held jobs");
}

bool held_jobs_wait(const struct held_jobs *held, const struct template *template)
{
    return held->kinds[find_kind(held, template->hash)].waits;
}
