#include "base/trial.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MICROSECONDS = 500, KILLED_SECONDS = 5 };

enum status trial_memory_new(size_t bytes, const char *what, void *out, struct error *error)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = NULL;
    memcpy(out, &memory, sizeof memory);
    return memory != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for %s", what);
}

void trial_memory_free(void *memory, size_t bytes)
{
    if (memory != NULL) (void)munmap(memory, bytes);
}

/* The child. It exits without running exit handlers, which belong to its parent. */
static _Noreturn void become_trial(const struct trial *trial, pid_t parent)
{
    static const struct rlimit no_core = {0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    trial->body(trial->progress, trial->context);
    trial->progress->ended = true;
    _exit(0);
}

/* Waits in slices, each counted as no more than its length. False: no step came within the deadline. */
static bool wait_for_end(const struct trial *trial, pid_t pid, double deadline_seconds, int *end)
{
    static const struct timespec slice = {.tv_nsec = SLICE_MICROSECONDS * 1000L};
    const volatile struct trial_progress *progress = trial->progress;
    int64_t steps = 0;
    double waited = 0;
    pid_t ended;
    while ((ended = waitpid(pid, end, WNOHANG)) == 0 && waited < deadline_seconds) {
        (void)nanosleep(&slice, NULL);
        waited = progress->steps == steps ? waited + 1e-9 * (double)slice.tv_nsec : 0;
        steps = progress->steps;
    }
    return ended != 0;
}

static void describe_end(const struct trial *trial, bool in_time, int end, char failure[TRIAL_FAILURE])
{
    const struct trial_progress *progress = trial->progress;
    const char *current = progress->current[0] != '\0' ? progress->current : trial->first;
    failure[0] = '\0';
    if (!in_time)
        (void)snprintf(failure, TRIAL_FAILURE, "%s: no end within %g s", current, trial->deadline_seconds);
    else if (WIFSIGNALED(end))
        (void)snprintf(failure, TRIAL_FAILURE, "%s: crash by signal %d (%s)", current, WTERMSIG(end),
                       strsignal(WTERMSIG(end)));
    else if (!progress->ended)
        (void)snprintf(failure, TRIAL_FAILURE, "%s: the process ended with exit status %d", current, WEXITSTATUS(end));
}

enum status trial_run(const struct trial *trial, char failure[TRIAL_FAILURE], struct error *error)
{
    const pid_t parent = getpid();
    int end = 0;
    memset(trial->progress, 0, trial->bytes);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return error_set(error, STATUS_UNAVAILABLE, "cannot start a process: %s", strerror(errno));
    if (pid == 0) become_trial(trial, parent);
    const bool in_time = wait_for_end(trial, pid, trial->deadline_seconds, &end);
    if (!in_time) {
        (void)kill(pid, SIGKILL);
        (void)wait_for_end(trial, pid, KILLED_SECONDS, &end);
    }
    describe_end(trial, in_time, end, failure);
    return STATUS_OK;
}
