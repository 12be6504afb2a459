#include "pool/identity.h"

#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The job of the batch system that this process is of; an element of an array is a job with a number of its own. */
static const char *slurm_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    return job != NULL ? job : "";
}

void identity_read(const struct worker_options *options, int threads, struct worker_identity *out)
{
    *out = (struct worker_identity){.id = store_id_new(), .pid = (int)getpid(), .threads = threads};
    if (options->owner != NULL && options->owner[0] != '\0')
        (void)snprintf(out->id.text, sizeof out->id.text, "%s", options->owner);
    if (gethostname(out->host, sizeof out->host - 1) != 0) (void)snprintf(out->host, sizeof out->host, "unknown");
    machine_boot_id(out->boot_id, sizeof out->boot_id);
    (void)snprintf(out->slurm_job, sizeof out->slurm_job, "%s", slurm_job());
    (void)snprintf(out->device, sizeof out->device, "%s", options->device);
    out->labels = options->labels;
    out->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : machine_memory();
    if (options->blas != NULL) out->blas = *options->blas;
}
