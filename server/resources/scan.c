#include "resources/scan.h"

#include "kinds/checkpoint_files.h"
#include "kinds/roots.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scan {
    struct connection *connection;
    const char *const *roots;
    const char *trajectory, *top;
    json_t *registered, *failed; /* owned */
    int64_t existing, seen;
};

/* The number behind `word` and up to one separator, not directly behind another letter. */
static bool number_after(const char *name, const char *word, double *out, const char **end)
{
    const size_t length = strlen(word);
    for (const char *at = name; *at != '\0'; at++) {
        if (strncasecmp(at, word, length) != 0 || (at > name && isalpha((unsigned char)at[-1]))) continue;
        const char *digits = at + length + (at[length] != '\0' && strchr("-_=", at[length]) != NULL);
        if (!isdigit((unsigned char)*digits)) continue;
        char *stop;
        *out = strtod(digits, &stop);
        *end = stop;
        return true;
    }
    return false;
}

static double unit_after(const char *end)
{
    switch (toupper((unsigned char)*end)) {
    case 'K':
        return 1e3;
    case 'M':
        return 1e6;
    case 'B':
    case 'G':
        return 1e9;
    case 'T':
        return 1e12;
    default:
        return 1;
    }
}

void scan_read_name(const char *name, int64_t *step, int64_t *tokens)
{
    static const char *const words[] = {"step", "global_step", "checkpoint", "iter", "ckpt"};
    double value;
    const char *end;
    *step = *tokens = -1;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && *step < 0; i++)
        if (number_after(name, words[i], &value, &end) && value < 1e15) *step = (int64_t)value;
    if (number_after(name, "tokens", &value, &end) && value * unit_after(end) < 9e18) *tokens = (int64_t)(value * unit_after(end));
}

/* Whether the directory holds something to register; a cheap look, the real check comes after. */
static bool looks_like_checkpoint(const char *directory)
{
    static const char *const endings[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf"};
    char path[PATH_MAX];
    bool weights = false;
    (void)snprintf(path, sizeof path, "%s/config.json", directory);
    if (access(path, F_OK) != 0) return false;
    DIR *stream = opendir(directory);
    for (const struct dirent *entry; stream != NULL && !weights && (entry = readdir(stream)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++) weights |= strcmp(dot, endings[i]) == 0;
    }
    if (stream != NULL) (void)closedir(stream);
    return weights;
}

static void make_name(const struct scan *scan, const char *path, char *out, size_t size)
{
    const char *rest = path + strlen(scan->top);
    while (*rest == '/') rest++;
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, size, "%s", *rest != '\0' ? rest : slash != NULL ? slash + 1 : path);
    for (char *at = out; *at != '\0'; at++)
        if (*at == '/') *at = '-';
}

static enum status register_one(struct scan *scan, const char *path, struct error *error)
{
    char name[PATH_MAX];
    struct checkpoint_guess guess;
    enum store_outcome outcome;
    json_t *document = NULL;
    make_name(scan, path, name, sizeof name);
    scan_read_name(name, &guess.step, &guess.tokens);
    struct checkpoint_new new = {.trajectory = scan->trajectory, .name = name, .path = path};
    if (++scan->seen > SCAN_MOST)
        return error_set_at(error, STATUS_INVALID, "/path", "more than %d checkpoints below it: scan smaller directories",
                            SCAN_MOST);
    enum status status = roots_check_links(scan->roots, path, "/path", error);
    if (status == STATUS_OK) status = checkpoint_files_register(scan->connection, &new, &guess, &outcome, &document, error);
    if (status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY) return status;
    if (status != STATUS_OK)
        return json_array_append_new(scan->failed, json_pack("{ss ss ss}", "path", name, "status", status_info(status)->name,
                                                             "detail", error->detail)) == 0
                   ? STATUS_OK
                   : error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    if (outcome == STORE_EXISTED) {
        scan->existing++;
        json_decref(document);
        return STATUS_OK;
    }
    return json_array_append_new(scan->registered, document) == 0 ? STATUS_OK
                                                                  : error_set(error, STATUS_NO_MEMORY, "no memory for a list");
}

/* Links are not followed below the top: a tree cannot lead in circles or out of the roots. */
static enum status walk(struct scan *scan, const char *directory, int depth, struct error *error)
{
    struct dirent **entries = NULL;
    enum status status = STATUS_OK;
    if (looks_like_checkpoint(directory)) status = register_one(scan, directory, error);
    if (status != STATUS_OK || depth == SCAN_DEPTH) return status;
    const int count = scandir(directory, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat found;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (status == STATUS_OK && entries[i]->d_name[0] != '.' && length < (int)sizeof path && lstat(path, &found) == 0 &&
            S_ISDIR(found.st_mode))
            status = walk(scan, path, depth + 1, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

enum status scan_directory(struct connection *connection, const char *const *roots, const char *trajectory, const char *path,
                           json_t **document, struct error *error)
{
    char top[PATH_MAX];
    struct scan scan = {.connection = connection, .roots = roots, .trajectory = trajectory, .top = top};
    enum status status = roots_resolve(roots, path, "/path", top, sizeof top, error);
    if (status != STATUS_OK) return status;
    scan.registered = json_array();
    scan.failed = json_array();
    status = walk(&scan, top, 0, error);
    if (status == STATUS_OK && scan.seen == 0)
        status = error_set_at(error, STATUS_INVALID, "/path",
                              "no checkpoint below it: expected directories with config.json and .safetensors files");
    if (status == STATUS_OK) {
        *document =
            json_pack("{sO sI sO}", "registered", scan.registered, "existing", (json_int_t)scan.existing, "failed", scan.failed);
        if (*document == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    }
    json_decref(scan.registered);
    json_decref(scan.failed);
    return status;
}
