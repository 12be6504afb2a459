#include "pool/gate.h"

#include "log/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct gate {
    char *directory; /* owns */
};

static const struct timespec PAUSE = {.tv_nsec = 5 * 1000 * 1000};

enum status gate_new(struct gate **out, struct error *error)
{
    struct stat info;
    const char *directory = getenv("DELTAQ_TEST_GATE");
    *out = NULL;
    if (directory == NULL || directory[0] == '\0') return STATUS_OK;
    if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode))
        return error_set(error, STATUS_INVALID, "DELTAQ_TEST_GATE, which tests set, names no directory: %s", directory);
    struct gate *gate = calloc(1, sizeof *gate);
    if (gate == NULL || (gate->directory = strdup(directory)) == NULL) {
        free(gate);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a gate");
    }
    *out = gate;
    return STATUS_OK;
}

void gate_free(struct gate *gate)
{
    if (gate == NULL) return;
    free(gate->directory);
    free(gate);
}

static bool means(const char *word, const char *text)
{
    return strcmp(word, "*") == 0 || strcmp(word, text) == 0;
}

static bool line_holds(const char *line, const struct gate_progress *progress)
{
    char kind[64], lease[32], unit[32], number[32];
    long long done;
    if (sscanf(line, "%63s %31s %31s %lld", kind, lease, unit, &done) != 4) {
        log_error(LOG_COMPONENT_TEST_GATE, "not understood: %.*s", (int)strcspn(line, "\n"), line);
        return false;
    }
    (void)snprintf(number, sizeof number, "%lld", (long long)progress->lease);
    return (means(kind, progress->kind) || strcmp(kind, progress->run) == 0) && means(lease, number) &&
           means(unit, progress->unit) && progress->done >= done;
}

static bool holds(const struct gate *gate, const struct gate_progress *progress)
{
    char *path, line[256];
    bool held = false;
    if (asprintf(&path, "%s/hold", gate->directory) < 0) return false;
    FILE *file = fopen(path, "re");
    free(path);
    if (file == NULL) return false;
    while (!held && fgets(line, sizeof line, file) != NULL) held = line_holds(line, progress);
    (void)fclose(file);
    return held;
}

/* Makes the file that says that the run is held, or removes it. When it cannot be made, the waiting test reports so. */
static void mark(const struct gate *gate, const struct gate_progress *progress, bool held)
{
    char *path;
    bool made = true;
    if (asprintf(&path, "%s/held-%s-%lld", gate->directory, progress->run, (long long)progress->lease) < 0) return;
    if (held) {
        FILE *file = fopen(path, "we");
        made = file != NULL && fprintf(file, "%lld\n", (long long)progress->done) > 0;
        if (file != NULL && fclose(file) != 0) made = false;
    } else {
        made = unlink(path) == 0;
    }
    if (!made) log_error(LOG_COMPONENT_TEST_GATE, "%s: %s", path, strerror(errno));
    free(path);
}

void gate_pass(const struct gate *gate, const struct gate_progress *progress, const struct monitor *monitor)
{
    struct error ignored; /* the engine's own next check returns it again */
    if (gate == NULL || !holds(gate, progress)) return;
    mark(gate, progress, true);
    while (holds(gate, progress) && monitor_check(monitor, &ignored) == STATUS_OK) (void)nanosleep(&PAUSE, NULL);
    mark(gate, progress, false);
}
