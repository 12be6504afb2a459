#include "backend/cpu/blas_choice.h"

#include "backend/cpu/blas_check.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/levels.h"
#include "base/clock.h"
#include "base/trial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The core types of OpenBLAS to try after the first, best one first. */
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

/* The report of a child. */
struct report {
    struct trial_progress progress; /* its steps are the correct products */
    bool loaded;
    enum status status;
    char library[200], core[32], detail[480];
};

struct choosing {
    struct report *report;
    double deadline_seconds;
    char failure[480]; /* of the last child; "": all was correct */
};

enum subject { SUBJECT_KERNELS, SUBJECT_UNITS, SUBJECT_LIBRARY };

/* What a child is asked. core: NULL for the first one. */
struct question {
    enum subject subject;
    const char *core;
};

static void answer(void *memory, const void *context)
{
    struct report *report = memory;
    const struct question *question = context;
    struct openblas blas = {0};
    struct error error = {0};
    if (question->core != NULL && setenv(OPENBLAS_CORE_VARIABLE, question->core, 1) != 0) _exit(1);
    if (question->subject == SUBJECT_LIBRARY) {
        openblas_open(&blas);
        (void)snprintf(report->library, sizeof report->library, "%s", blas.library != NULL ? blas.config : "");
        (void)snprintf(report->core, sizeof report->core, "%s", blas.core);
        (void)snprintf(report->detail, sizeof report->detail, "%s", blas.missing);
        report->loaded = blas.library != NULL;
    }
    report->status = STATUS_OK;
    if (question->subject == SUBJECT_LIBRARY && !report->loaded) return;
    report->status = question->subject == SUBJECT_UNITS
                         ? blas_check_units(&report->progress, &error)
                         : blas_check(report->loaded ? &blas : NULL, cpu_kernels(), &report->progress, &error);
    (void)snprintf(report->detail, sizeof report->detail, "%s", error.detail);
}

/* Holds one choice to the plain loops; what it came to lies in the report and in choosing->failure. */
static enum status try_one(struct choosing *choosing, enum subject subject, const char *core, struct error *error)
{
    const struct question question = {subject, core};
    const struct trial trial = {.body = answer,
                                .context = &question,
                                .progress = &choosing->report->progress,
                                .bytes = sizeof *choosing->report,
                                .deadline_seconds = choosing->deadline_seconds,
                                .first = subject == SUBJECT_LIBRARY ? "loading the library" : "the first product"};
    char failure[TRIAL_FAILURE];
    const enum status status = trial_run(&trial, failure, error);
    if (status != STATUS_OK) return status;
    const bool wrong = failure[0] == '\0' && choosing->report->status != STATUS_OK;
    (void)snprintf(choosing->failure, sizeof choosing->failure, "%s", wrong ? choosing->report->detail : failure);
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
    choice->products += report->progress.steps;
    memcpy(choice->library, report->library, sizeof choice->library);
    memcpy(choice->core, report->core, sizeof choice->core);
}

/* Tries the core types other than `first`, the name that the library gave for its first one. */
static enum status try_other_cores(struct choosing *choosing, const char *first, struct blas_choice *choice,
                                   struct error *error)
{
    enum status status;
    for (int i = 0; i < CORES; i++) {
        if (!cores[i].supported() || strcasecmp(cores[i].name, first) == 0) continue;
        if ((status = try_one(choosing, SUBJECT_LIBRARY, cores[i].name, error)) != STATUS_OK) return status;
        if (choosing->failure[0] == '\0') {
            take_library(choice, choosing->report, BLAS_OTHER_CORE);
            if (setenv(OPENBLAS_CORE_VARIABLE, cores[i].name, 1) == 0) return STATUS_OK;
            return error_set(error, STATUS_NO_MEMORY, "no memory for the environment");
        }
        add_reason(choice, cores[i].name, choosing->failure);
    }
    choice->verdict = BLAS_OWN_PRODUCTS;
    if (setenv(OPENBLAS_VARIABLE, "none", 1) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the environment");
}

/* The units are left out where one of them is wrong, and where DELTAQ_KERNELS has left them out already. */
static enum status try_units(struct choosing *choosing, struct blas_choice *choice, struct error *error)
{
    if (getenv(CPU_KERNELS_VARIABLE) != NULL) return STATUS_OK;
    const enum status status = try_one(choosing, SUBJECT_UNITS, NULL, error);
    if (status != STATUS_OK) return status;
    if (choosing->failure[0] == '\0') {
        choice->products += choosing->report->progress.steps;
        return STATUS_OK;
    }
    (void)snprintf(choice->units, sizeof choice->units, "%s", choosing->failure);
    if (setenv(CPU_KERNELS_VARIABLE, cpu_kernels()->name, 1) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the environment");
}

static enum status choose(struct choosing *choosing, struct blas_choice *choice, struct error *error)
{
    enum status status;
    char first[32];
    if ((status = try_one(choosing, SUBJECT_KERNELS, NULL, error)) != STATUS_OK) return status;
    if (choosing->failure[0] != '\0')
        return error_set(error, STATUS_UNSUPPORTED,
                         "deltaq's own kernels (%s) are wrong on this processor: %s; DELTAQ_KERNELS takes others of "
                         "these:" KERNEL_LEVELS(NAMED),
                         cpu_kernels()->name, choosing->failure);
    choice->products = choosing->report->progress.steps;
    if ((status = try_units(choosing, choice, error)) != STATUS_OK) return status;
    if ((status = try_one(choosing, SUBJECT_LIBRARY, NULL, error)) != STATUS_OK) return status;
    if (choosing->failure[0] == '\0' && choosing->report->loaded) {
        take_library(choice, choosing->report, BLAS_PASSED);
        return STATUS_OK;
    }
    if (choosing->failure[0] == '\0') {
        choice->verdict = BLAS_OWN_PRODUCTS;
        choice->absent = true;
        add_reason(choice, "", choosing->report->detail);
        return STATUS_OK;
    }
    const char *asked = getenv(OPENBLAS_CORE_VARIABLE);
    (void)snprintf(first, sizeof first, "%s",
                   choosing->report->core[0] != '\0' || asked == NULL ? choosing->report->core : asked);
    memcpy(choice->library, choosing->report->library, sizeof choice->library);
    add_reason(choice, first, choosing->failure);
    return try_other_cores(choosing, first, choice, error);
}

/* The first time (openblas.h), while there is no other thread. */
static void open_once(void)
{
    struct openblas blas;
    openblas_open(&blas);
    openblas_close(&blas);
}

enum status blas_choice_make(double deadline_seconds, struct blas_choice *out, struct error *error)
{
    const double begun = clock_seconds();
    *out = (struct blas_choice){.verdict = BLAS_PASSED};
    if (cpu_kernels() == NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this processor is below " KERNEL_LEAST ", which deltaq's kernels need");
    openblas_prepare();
    struct choosing choosing = {.deadline_seconds = deadline_seconds};
    enum status status = trial_memory_new(sizeof *choosing.report, "a check of products", &choosing.report, error);
    if (status != STATUS_OK) return status;
    status = choose(&choosing, out, error);
    if (status == STATUS_OK && out->verdict != BLAS_OWN_PRODUCTS) open_once();
    trial_memory_free(choosing.report, sizeof *choosing.report);
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
    int used = 0;
    if (choice->verdict == BLAS_PASSED)
        used = snprintf(text, size, "%s, core %s: %lld products are as plain loops give them (%.2f s)", library,
                        choice->core, (long long)choice->products, choice->seconds);
    else if (choice->verdict == BLAS_OTHER_CORE)
        used = snprintf(text, size, "%s: fell back to core %s, which passed, because of %s", library, choice->core,
                        choice->reason);
    else if (choice->absent)
        used = snprintf(text, size, "no OpenBLAS, so our own kernels, slower when large, which passed (%s)",
                        choice->reason);
    else
        used = snprintf(text, size, "%s: fell back to our own kernels, slower when large, which passed, because of %s",
                        library, choice->reason);
    if (choice->units[0] != '\0' && used >= 0 && (size_t)used < size)
        (void)snprintf(text + used, size - (size_t)used, "; without the processor's bf16 units, because of %s",
                       choice->units);
}
