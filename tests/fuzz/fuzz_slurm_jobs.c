/* What squeue prints. Jobs that are found have their parts within their fields, and an id unless they wait. */
#include "fuzz.h"

#include "launch/command_output.h"
#include "launch/slurm.h"

#include <string.h>

static const uint8_t *printed;
static size_t printed_size;

/* Stands in for server/launch/command_output.c. */
enum status command_output(const char *const *words, const char *input, char **out, struct error *error)
{
    (void)words, (void)input, (void)error;
    *out = malloc(printed_size + 1);
    fuzz_require(*out != NULL);
    memcpy(*out, printed, printed_size);
    (*out)[printed_size] = '\0';
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct slurm_job *jobs = NULL;
    struct error error;
    size_t count = 0, lines = 1;
    struct slurm_end ends[] = {{"1", ""}, {"17", ""}};
    printed = bytes;
    printed_size = size;
    for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
    fuzz_require(slurm_jobs("deltaq", &jobs, &count, &error) == STATUS_OK);
    fuzz_require(count <= lines);
    for (size_t i = 0; i < count; i++) {
        fuzz_require(jobs[i].handle[0] != '\0' && jobs[i].state[0] != '\0' && jobs[i].memory_mib >= 0);
        fuzz_require(jobs[i].pending == (jobs[i].id[0] == '\0') && (jobs[i].pending || !jobs[i].delayed));
    }
    free(jobs);
    slurm_ends(ends, 2);
    for (size_t i = 0; i < 2; i++) fuzz_require(strchr(ends[i].state, '\n') == NULL);
    return 0;
}
