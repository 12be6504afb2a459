#include "pool/identity.h"

#include "base/machine.h"
#include "log/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The id of the batch system's job that this process belongs to; each element of an array has its own. */
static const char *slurm_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    return job != NULL ? job : "";
}

/* Reads the id of the data directory, which is the target of a symbolic link, because a link is made in one step. ""
 * when it cannot be made: then no run is near. */
static void read_node(const char *data_directory, struct store_id *out)
{
    char path[PATH_MAX];
    const struct store_id made = store_id_new();
    if (snprintf(path, sizeof path, "%s/node", data_directory) >= (int)sizeof path) return;
    if (symlink(made.text, path) != 0 && errno != EEXIST)
        log_warning(LOG_COMPONENT_WORKER, "cannot make %s: no run is preferred for files that are here", path);
    const ssize_t length = readlink(path, out->text, sizeof out->text - 1);
    out->text[length > 0 ? length : 0] = '\0';
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
    out->device_state = options->device_state;
    out->labels = options->labels;
    out->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : machine_memory();
    out->grace_seconds = options->grace_seconds;
    read_node(options->data_directory, &out->node);
    if (options->blas != NULL) out->blas = *options->blas;
}
