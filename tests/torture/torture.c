/* Runs every scenario once for each call in it that may fail, that call failing. Each run must end with a status that
 * says what failed, or as if nothing had; leave no memory, descriptor or process behind; and not crash.
 *
 * torture [--most N] [--only NAME] [--at KIND:N]: at most N faults of each kind for a scenario, spread over all of
 * them; scenarios whose names contain NAME; one fault. A scenario runs in a process of its own, which a new one
 * replaces when it dies; what it works on stands in memory that both see. */
#include "faults.h"
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

size_t __sanitizer_get_current_allocated_bytes(void); /* GCC 12 has no header for it */

enum { RUN_SECONDS = 120, FINDINGS_MOST = 8, EXIT_FOUND = 3, EXIT_PREPARE = 4 };

static const struct scenario *const lists[] = {scenarios_of_files, scenarios_of_runs, scenarios_of_documents,
                                               scenarios_of_folders, scenarios_of_rows};

/* What both processes see. */
struct trial {
    int kind;
    int64_t number, calls, runs;
    bool measured;
};

struct wish {
    int64_t most;
    const char *only;
    int kind;
    int64_t at;
};

/* ---- for scenarios ---- */

void scenario_require(bool good, const char *what, const struct error *error)
{
    if (good) return;
    (void)fprintf(stderr, "cannot prepare: %s: %s\n", what, error != NULL ? error->detail : strerror(errno));
    _exit(EXIT_PREPARE);
}

const char *scenario_path(char out[SCENARIO_PATH], const char *directory, const char *name)
{
    (void)snprintf(out, SCENARIO_PATH, "%s/%s", directory, name);
    return out;
}

void scenario_write(const char *directory, const char *name, const void *bytes, size_t size)
{
    char path[SCENARIO_PATH];
    FILE *file = fopen(scenario_path(path, directory, name), "wb");
    scenario_require(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, name, NULL);
}

void scenario_add_file(struct checksum *sum, const char *path)
{
    char bytes[4096];
    (void)fault_disarm();
    FILE *file = fopen(path, "rb");
    for (size_t size = 1; file != NULL && size > 0;) {
        size = fread(bytes, 1, sizeof bytes, file);
        checksum_add(sum, bytes, size);
    }
    if (file != NULL) (void)fclose(file);
}

/* ---- folders ---- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    if (where->level == 0) return 0;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void empty(const char *directory)
{
    (void)nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void room_open(struct room *room)
{
    const char *root = getenv("TMPDIR");
    char top[SCENARIO_PATH / 2];
    (void)snprintf(top, sizeof top, "%s/deltaq-torture-XXXXXX", root != NULL ? root : "/tmp");
    scenario_require(mkdtemp(top) != NULL, "a folder", NULL);
    (void)scenario_path(room->inputs, top, "inputs");
    (void)scenario_path(room->outputs, top, "outputs");
    (void)scenario_path(room->work, top, "work");
    scenario_require(mkdir(room->inputs, 0700) == 0 && mkdir(room->outputs, 0700) == 0 && mkdir(room->work, 0700) == 0,
                     "folders", NULL);
}

static void room_close(const struct room *room)
{
    char top[SCENARIO_PATH];
    (void)snprintf(top, sizeof top, "%s", room->inputs);
    *strrchr(top, '/') = '\0';
    empty(top);
    (void)rmdir(top);
}

/* ---- one run ---- */

struct state {
    const struct scenario *scenario;
    struct room room;
    uint64_t expected; /* what comes out when nothing fails */
    struct trial *trial;
};

static int count_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL) count++;
    if (directory != NULL) (void)closedir(directory);
    return count;
}

static enum status run_once(struct state *state, int kind, int64_t at, uint64_t *sum, struct error *error)
{
    struct checksum checksum;
    checksum_init(&checksum);
    *error = (struct error){.status = STATUS_OK};
    state->trial->kind = kind;
    state->trial->number = at;
    state->trial->runs++;
    (void)alarm(RUN_SECONDS);
    fault_arm((enum fault_kind)kind, at);
    const enum status status = state->scenario->run(&state->room, &checksum, error);
    const int64_t calls = fault_disarm();
    (void)alarm(0);
    if (at == 0) state->trial->calls = calls;
    *sum = checksum_value(&checksum);
    empty(state->room.outputs);
    empty(state->room.work);
    return status;
}

static bool is_right(const struct scenario *scenario, int kind, enum status status)
{
    static const unsigned of[FAULT_KINDS] = {[FAULT_MEMORY] = 1U << STATUS_NO_MEMORY,
                                             [FAULT_READING] = 1U << STATUS_IO,
                                             [FAULT_WRITING] = 1U << STATUS_IO,
                                             [FAULT_FULL] = 1U << STATUS_DISK_FULL,
                                             [FAULT_QUERY] = 1U << STATUS_UNAVAILABLE};
    return ((of[kind] | scenario->tolerated) & (1U << status)) != 0;
}

/* What is wrong with how a run ended; NULL: nothing. */
static const char *judge(const struct state *state, int kind, int64_t at, enum status status, uint64_t sum,
                         const struct error *error)
{
    if (status == STATUS_OK && sum != state->expected) return "it says that all is well, and its result is another";
    if (status != STATUS_OK && at == 0) return "it fails by itself";
    if (status != STATUS_OK && !fault_happened()) return "it fails, and nothing failed";
    if (status != STATUS_OK && error->status != status) return "its status is not that of its error";
    if (status != STATUS_OK && error->detail[0] == '\0') return "it does not say what failed";
    if (status != STATUS_OK && !is_right(state->scenario, kind, status)) return "its status says something else";
    return NULL;
}

/* Memory that was not given back: what the sanitizer has lost, or what grows again when it is done again. */
static const char *find_leak(struct state *state, int kind, int64_t at, size_t before)
{
    uint64_t sum;
    struct error error;
    const size_t after = __sanitizer_get_current_allocated_bytes();
    if (after <= before) return NULL;
    if (__lsan_do_recoverable_leak_check() != 0) return "memory is lost";
    (void)!run_once(state, kind, at, &sum, &error);
    return __sanitizer_get_current_allocated_bytes() > after ? "memory is kept, each time more" : NULL;
}

static void try_one(struct state *state, int kind, int64_t at)
{
    uint64_t sum;
    struct error error;
    const int descriptors = count_descriptors();
    const size_t before = __sanitizer_get_current_allocated_bytes();
    const enum status status = run_once(state, kind, at, &sum, &error);
    const char *wrong = judge(state, kind, at, status, sum, &error);
    if (wrong == NULL && count_descriptors() != descriptors) wrong = "a descriptor is left open";
    if (wrong == NULL) wrong = find_leak(state, kind, at, before);
    if (wrong == NULL) return;
    (void)fprintf(stderr, "\n%s, %s:%lld: %s (%s: %s)\n", state->scenario->name, fault_names[kind], (long long)at,
                  wrong, status_info(status)->name, error.detail);
    fault_show(true);
    (void)!run_once(state, kind, at, &sum, &error);
    if (state->scenario->finish != NULL) state->scenario->finish();
    _exit(EXIT_FOUND);
}

/* ---- a process for a scenario ---- */

/* What nothing did before takes memory the first time: buffers, tables of libraries. */
static void warm_up(struct state *state, int kind)
{
    struct error error;
    (void)!run_once(state, kind, 0, &state->expected, &error);
    for (int i = 0; i < 2; i++) try_one(state, kind, 0);
}

static void work(const struct scenario *scenario, const struct room *room, struct trial *trial, int kind, int64_t from,
                 const struct wish *wish)
{
    struct state state = {.scenario = scenario, .room = *room, .trial = trial};
    if (scenario->prepare != NULL) scenario->prepare(&state.room);
    warm_up(&state, kind);
    const int64_t calls = trial->calls, most = wish->most > 0 && wish->most < calls ? wish->most : calls;
    trial->measured = true;
    for (int64_t i = 0; i < most; i++) {
        const int64_t at = 1 + i * calls / most;
        if (at >= from && (wish->at == 0 || wish->at == at)) try_one(&state, kind, at);
    }
    try_one(&state, kind, 0); /* it still works */
    if (scenario->finish != NULL) scenario->finish();
}

/* Findings of one kind of fault in one scenario. */
static int torture(const struct scenario *scenario, struct trial *trial, int kind, const struct wish *wish)
{
    int findings = 0;
    for (int64_t from = 1; findings < FINDINGS_MOST;) {
        int end = 0;
        struct room room;
        room_open(&room);
        trial->measured = false;
        (void)fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            work(scenario, &room, trial, kind, from, wish);
            exit(0); /* and not _exit: leaks are looked for */
        }
        if (child < 0 || waitpid(child, &end, 0) != child) return findings + 1;
        room_close(&room);
        if (end == 0) return findings;
        findings++;
        if (!WIFEXITED(end) || WEXITSTATUS(end) != EXIT_FOUND)
            (void)fprintf(stderr, "\n%s, %s:%lld: it died: status 0x%x\n", scenario->name, fault_names[kind],
                          (long long)trial->number, (unsigned)end);
        if (!trial->measured || trial->number == 0 || wish->at > 0) return findings;
        from = trial->number + 1;
    }
    return findings;
}

static int torture_all(const struct scenario *scenario, struct trial *trial, const struct wish *wish)
{
    int findings = 0;
    struct timespec began, ended;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    (void)printf("%s:", scenario->name);
    trial->runs = 0;
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        if ((scenario->kinds & 1U << kind) == 0 || (wish->kind >= 0 && wish->kind != kind)) continue;
        findings += torture(scenario, trial, kind, wish);
        (void)printf(" %lld %s", (long long)trial->calls, fault_names[kind]);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    (void)printf("; %lld runs, %lld s\n", (long long)trial->runs, (long long)(ended.tv_sec - began.tv_sec));
    return findings;
}

static bool read_wish(int argc, char **argv, struct wish *out)
{
    *out = (struct wish){.kind = -1};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--most") == 0) out->most = strtoll(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--only") == 0) out->only = argv[i + 1];
        const char *colon = strcmp(argv[i], "--at") == 0 ? strchr(argv[i + 1], ':') : NULL;
        for (int kind = 0; colon != NULL && kind < FAULT_KINDS; kind++)
            if (strncmp(argv[i + 1], fault_names[kind], (size_t)(colon - argv[i + 1])) == 0) out->kind = kind;
        if (colon != NULL) out->at = strtoll(colon + 1, NULL, 10);
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    struct wish wish;
    int findings = 0, scenarios = 0;
    int64_t runs = 0;
    struct trial *trial = mmap(NULL, sizeof *trial, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!read_wish(argc, argv, &wish) || trial == MAP_FAILED) return 2;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const struct scenario *scenario = lists[i]; scenario->name != NULL; scenario++) {
            if (wish.only != NULL && strstr(scenario->name, wish.only) == NULL) continue;
            findings += torture_all(scenario, trial, &wish);
            runs += trial->runs;
            scenarios++;
        }
    (void)printf("%d scenarios, %lld runs, %d findings\n", scenarios, (long long)runs, findings);
    return findings > 0 || scenarios == 0;
}
