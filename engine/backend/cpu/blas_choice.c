#include "backend/cpu/blas_choice.h"

#include "backend/cpu/blas_check.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/levels.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The core types of OpenBLAS that are tried after the first, best one first. */
static const struct core {
    const char *name;
    bool (*supported)(void);
} cores[] = {
#if defined(__x86_64__)
    {"SKYLAKEX", level_v4},
    {"HASWELL", level_v3},
    {"SANDYBRIDGE", level_avx},
    {"NEHALEM", level_v2},
#else
    {"NEOVERSEV1", level_any_sve},
    {"NEOVERSEN1", level_dot_products},
    {"ARMV8", level_neon},
#endif
};
enum { CORES = sizeof cores / sizeof cores[0] };

#define NAMED(level) " " KERNEL_FAMILY #level

/* What a child tells, in memory that it has in common with its parent, so that it is there after a crash. */
struct report {
    struct blas_progress progress;
    bool loaded, ended;
    enum status status; /* of what has ended */
    char library[200], core[32], detail[480];
};

struct trial {
    struct report *report;
    double deadline_seconds;
    char failure[480]; /* of the last child; "": it was right */
};

static void fill_report(struct report *report, bool own)
{
    struct openblas blas = {0};
    struct error error = {0};
    if (!own) {
        openblas_open(&blas);
        (void)snprintf(report->library, sizeof report->library, "%s", blas.library != NULL ? blas.config : "");
        (void)snprintf(report->core, sizeof report->core, "%s", blas.core);
        (void)snprintf(report->detail, sizeof report->detail, "%s", blas.missing);
        report->loaded = blas.library != NULL;
    }
    report->status = STATUS_OK;
    if (own || report->loaded) {
        report->status = blas_check(own ? NULL : &blas, cpu_kernels(), &report->progress, &error);
        (void)snprintf(report->detail, sizeof report->detail, "%s", error.detail);
    }
    report->ended = true;
}

/* The child. It leaves without what runs at an exit, which is its parent's. */
static _Noreturn void become_check(struct report *report, const char *core, bool own, pid_t parent)
{
    static const struct rlimit no_core = {0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    if (core != NULL && setenv(OPENBLAS_CORE_VARIABLE, core, 1) != 0) _exit(1);
    fill_report(report, own);
    _exit(0);
}

/* Waits in slices that count for no more than themselves, so that a stopped process or a suspended host is no hang.
 * False: a product took longer than the deadline, and the child was killed. */
static bool wait_for_child(const struct trial *trial, pid_t pid, int *end)
{
    static const struct timespec slice = {.tv_nsec = 2 * 1000 * 1000};
    pid_t ended;
    int64_t products = 0;
    double waited = 0;
    while ((ended = waitpid(pid, end, WNOHANG)) == 0 && waited < trial->deadline_seconds) {
        (void)nanosleep(&slice, NULL);
        waited = trial->report->progress.products == products ? waited + 1e-9 * (double)slice.tv_nsec : 0;
        products = trial->report->progress.products;
    }
    if (ended != 0) return true;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, end, 0) < 0 && errno == EINTR) continue;
    return false;
}

static void describe_failure(struct trial *trial, bool in_time, int end)
{
    const struct report *report = trial->report;
    const char *current = report->progress.current[0] != '\0' ? report->progress.current : "loading the library";
    char *failure = trial->failure;
    const size_t size = sizeof trial->failure;
    failure[0] = '\0';
    if (!in_time)
        (void)snprintf(failure, size, "%s: no end within %g s", current, trial->deadline_seconds);
    else if (WIFSIGNALED(end))
        (void)snprintf(failure, size, "%s: crash by signal %d (%s)", current, WTERMSIG(end), strsignal(WTERMSIG(end)));
    else if (!report->ended)
        (void)snprintf(failure, size, "%s: the process ended with exit status %d", current, WEXITSTATUS(end));
    else if (report->status != STATUS_OK)
        (void)snprintf(failure, size, "%s", report->detail);
}

/* Holds one choice to the plain loops; what it came to lies in the report and in trial->failure. `core`: NULL for the
 * first one. */
static enum status try_one(struct trial *trial, const char *core, bool own, struct error *error)
{
    const pid_t parent = getpid();
    int end = 0;
    memset(trial->report, 0, sizeof *trial->report);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return error_set(error, STATUS_UNAVAILABLE, "cannot start a process: %s", strerror(errno));
    if (pid == 0) become_check(trial->report, core, own, parent);
    const bool in_time = wait_for_child(trial, pid, &end);
    describe_failure(trial, in_time, end);
    return STATUS_OK;
}

static void add_reason(struct blas_choice *choice, const char *core, const char *failure)
{
    const size_t used = strlen(choice->reason);
    (void)snprintf(choice->reason + used, sizeof choice->reason - used, "%s%s%s%s", used > 0 ? "; " : "", core,
                   core[0] != '\0' ? ": " : "", failure);
}

static void take_library(struct blas_choice *choice, const struct report *report, enum blas_verdict verdict)
{
    choice->verdict = verdict;
    choice->products += report->progress.products;
    memcpy(choice->library, report->library, sizeof choice->library);
    memcpy(choice->core, report->core, sizeof choice->core);
}

/* The core types after the first, whose name as the library told it is `first`. */
static enum status try_other_cores(struct trial *trial, const char *first, struct blas_choice *choice,
                                   struct error *error)
{
    enum status status;
    for (int i = 0; i < CORES; i++) {
        if (!cores[i].supported() || strcasecmp(cores[i].name, first) == 0) continue;
        if ((status = try_one(trial, cores[i].name, false, error)) != STATUS_OK) return status;
        if (trial->failure[0] == '\0') {
            take_library(choice, trial->report, BLAS_OTHER_CORE);
            if (setenv(OPENBLAS_CORE_VARIABLE, cores[i].name, 1) == 0) return STATUS_OK;
            return error_set(error, STATUS_NO_MEMORY, "no memory for the environment");
        }
        add_reason(choice, cores[i].name, trial->failure);
    }
    choice->verdict = BLAS_OWN_PRODUCTS;
    if (setenv(OPENBLAS_VARIABLE, "none", 1) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the environment");
}

static enum status choose(struct trial *trial, struct blas_choice *choice, struct error *error)
{
    enum status status;
    char first[32];
    if ((status = try_one(trial, NULL, true, error)) != STATUS_OK) return status;
    if (trial->failure[0] != '\0')
        return error_set(error, STATUS_UNSUPPORTED,
                         "deltaq's own kernels (%s) are wrong on this processor: %s; DELTAQ_KERNELS takes others of "
                         "these:" KERNEL_LEVELS(NAMED),
                         cpu_kernels()->name, trial->failure);
    choice->products = trial->report->progress.products;
    if ((status = try_one(trial, NULL, false, error)) != STATUS_OK) return status;
    if (trial->failure[0] == '\0' && trial->report->loaded) {
        take_library(choice, trial->report, BLAS_PASSED);
        return STATUS_OK;
    }
    if (trial->failure[0] == '\0') {
        choice->verdict = BLAS_OWN_PRODUCTS;
        choice->absent = true;
        add_reason(choice, "", trial->report->detail);
        return STATUS_OK;
    }
    const char *asked = getenv(OPENBLAS_CORE_VARIABLE);
    (void)snprintf(first, sizeof first, "%s",
                   trial->report->core[0] != '\0' || asked == NULL ? trial->report->core : asked);
    memcpy(choice->library, trial->report->library, sizeof choice->library);
    add_reason(choice, first, trial->failure);
    return try_other_cores(trial, first, choice, error);
}

enum status blas_choice_make(double deadline_seconds, struct blas_choice *out, struct error *error)
{
    const double begun = clock_seconds();
    *out = (struct blas_choice){.verdict = BLAS_PASSED};
    if (cpu_kernels() == NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this processor is below " KERNEL_LEAST ", which deltaq's kernels need");
    void *memory = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return error_set(error, STATUS_NO_MEMORY, "no memory for a check of products");
    struct trial trial = {.report = memory, .deadline_seconds = deadline_seconds};
    const enum status status = choose(&trial, out, error);
    (void)munmap(memory, sizeof(struct report));
    out->seconds = clock_seconds() - begun;
    return status;
}

const char *blas_choice_verdict(const struct blas_choice *choice)
{
    static const char *const names[] = {"passed", "other_core", "own_products"};
    static_assert(sizeof names / sizeof names[0] == BLAS_VERDICTS, "a name for each verdict");
    return names[choice->verdict];
}

void blas_choice_describe(const struct blas_choice *choice, char *text, size_t size)
{
    const char *library = choice->library[0] != '\0' ? choice->library : "OpenBLAS";
    if (choice->verdict == BLAS_PASSED)
        (void)snprintf(text, size, "%s, core %s: %lld products are as plain loops give them (%.2f s)", library,
                       choice->core, (long long)choice->products, choice->seconds);
    else if (choice->verdict == BLAS_OTHER_CORE)
        (void)snprintf(text, size, "%s: fell back to core %s, which passed, because of %s", library, choice->core,
                       choice->reason);
    else if (choice->absent)
        (void)snprintf(text, size, "no OpenBLAS, so our own kernels, slower when large, which passed (%s)",
                       choice->reason);
    else
        (void)snprintf(text, size, "%s: fell back to our own kernels, slower when large, which passed, because of %s",
                       library, choice->reason);
}
