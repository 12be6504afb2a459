#include "watch/scan.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "files/file.h"
#include "formats/gguf/gguf_split.h"
#include "inputs/checkpoint_files.h"
#include "inputs/roots.h"
#include "schema/form.h"
#include "weights/weights.h"
#include "json/tree_cost.h"
#include "json/written.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The text of a config.json above the weights, and what it may take as a tree. One that is small enough to be kept
 * takes less than 200 KiB beside its white space. */
enum { CONFIG_READ = 4 << 20, TREE_MOST = 8 << 20 };

/* The number behind `word` and up to one separator, not directly behind another letter. In decimal digits: strtod takes
 * hexadecimal ones, too. */
static bool number_after(const char *name, const char *word, double *out, const char **end)
{
    const size_t length = strlen(word);
    for (const char *at = name; *at != '\0'; at++) {
        if (strncasecmp(at, word, length) != 0 || (at > name && isalpha((unsigned char)at[-1]))) continue;
        const char *digits = at + length + (at[length] != '\0' && strchr("-_=", at[length]) != NULL);
        if (!isdigit((unsigned char)*digits) || (digits[0] == '0' && toupper((unsigned char)digits[1]) == 'X'))
            continue;
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

/* "step-50K" is step 50,000; what goes on behind the letter is no unit. */
static double step_of(double value, const char *end)
{
    const bool ends = !isalnum((unsigned char)*end) || !isalnum((unsigned char)end[1]);
    const double unit = unit_after(end);
    return ends && unit > 1 && unit < 1e9 ? round(value * unit) : value;
}

void scan_read_name(const char *name, int64_t *step, int64_t *tokens)
{
    static const char *const words[] = {"step", "global_step", "checkpoint", "iter", "ckpt"};
    double value;
    const char *end;
    *step = *tokens = -1;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && *step < 0; i++)
        if (number_after(name, words[i], &value, &end) && step_of(value, end) < 1e15)
            *step = (int64_t)step_of(value, end);
    if (number_after(name, "tokens", &value, &end) && value * unit_after(end) < 9e18)
        *tokens = (int64_t)round(value * unit_after(end)); /* 4.1 is a little less in binary */
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

/* Whether the directory looks like a checkpoint. The check is cheap; the real one follows. A sharded training state
 * counts, so that the answer says why it is not a checkpoint. */
static bool looks_like_checkpoint(const char *directory, bool configured)
{
    bool weights = false;
    struct error ignored;
    DIR *stream = NULL;
    if (file_directory_list(directory, &stream, &ignored) != STATUS_OK) return false;
    for (const struct dirent *entry; !weights && (entry = readdir(stream)) != NULL;)
        weights = ends_with(entry->d_name, ".distcp") ||
                  (configured && (ends_with(entry->d_name, ".safetensors") || ends_with(entry->d_name, ".bin")));
    (void)closedir(stream);
    return weights;
}

static bool is_text(const char *path)
{
    return utf8_check(path, strlen(path)) == strlen(path);
}

/* Replaces bytes beyond ASCII by \xHH, as far as there is space. */
static void escape(char *name, size_t size)
{
    char raw[PATH_MAX];
    size_t length = 0;
    (void)snprintf(raw, sizeof raw, "%s", name);
    for (const char *at = raw; *at != '\0' && length + sizeof "\\xff" <= size; at++)
        length +=
            (size_t)snprintf(name + length, size - length, (*at & 0x80) != 0 ? "\\x%02x" : "%c", (unsigned char)*at);
}

void scan_name(const char *top, const char *path, char *out, size_t size)
{
    const char *rest = path + strlen(top), *slash = strrchr(path, '/');
    while (*rest == '/') rest++;
    (void)snprintf(out, size, "%s", *rest != '\0' ? rest : slash != NULL ? slash + 1 : path);
    int part, count;
    char *dot = strrchr(out, '.');
    if (gguf_split_read(out, &part, &count)) /* X-00001-of-00003.gguf becomes X */
        out[strlen(out) - strlen("-00001-of-00003.gguf")] = '\0';
    else if (dot != NULL && dot != out && weights_file_is_whole(out))
        *dot = '\0';
    for (char *at = out; *at != '\0'; at++)
        if (*at == '/') *at = '-';
    if (!is_text(out)) escape(out, size);
}

json_t *scan_failed_item(const char *name, enum status status, const char *detail)
{
    return json_pack("{ss ss ss}", "path", name, "status", status_info(status)->name, "detail", detail);
}

enum status scan_check_name(const char *name, struct error *error)
{
    size_t characters = 0;
    for (const char *at = name; *at != '\0'; at += utf8_width(*at)) characters++;
    if (form_name.fits(name) && characters <= STORE_NAME_GIVEN) return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "its name would have %zu characters, at most %d without control characters are possible: rename it", characters,
        STORE_NAME_GIVEN);
}

bool scan_is_unfinished(const char *name)
{
    static const char *const endings[] = {".tmp", ".partial", ".incomplete"};
    if (name[0] == '.' || strncmp(name, "tmp", 3) == 0) return true;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (ends_with(name, endings[i])) return true;
    return false;
}

/* Names that trainers give directories beside the weights. */
static bool is_training_state(const char *name)
{
    return strncmp(name, "optimizer", strlen("optimizer")) == 0 || strncmp(name, "rng_state", strlen("rng_state")) == 0;
}

/* What the parents of a directory say about it. A config.json applies to everything below its directory, unless that
 * directory is a checkpoint. */
enum above { NOTHING, CONFIGURED, WITHIN_CHECKPOINT };

/* A directory whose entries are being read. */
struct level {
    const struct roots *roots;
    const struct scan_visitor *visitor;
    int depth;
    bool whole, configured; /* whole: it is a checkpoint; configured: a config.json applies to its files */
    enum above above;       /* for its subdirectories */
};

static enum status walk(const struct level *outer, const char *directory, struct error *error);

static enum status walk_entry(const struct level *level, const char *path, const char *name, struct error *error)
{
    struct stat found;
    if (scan_is_unfinished(name) || lstat(path, &found) != 0) return STATUS_OK;
    if (S_ISDIR(found.st_mode))
        return level->depth < SCAN_DEPTH && !is_training_state(name) ? walk(level, path, error) : STATUS_OK;
    if (!S_ISREG(found.st_mode) || level->whole || !weights_file_is_whole(name)) return STATUS_OK;
    if (!level->configured && !ends_with(path, ".gguf")) return STATUS_OK;
    const enum status status = monitor_check(level->visitor->monitor, error);
    return status == STATUS_OK ? level->visitor->found(level->visitor->context, path, error) : status;
}

static enum status walk(const struct level *outer, const char *directory, struct error *error)
{
    struct dirent **entries = NULL;
    struct error ignored;
    char config[PATH_MAX];
    int descriptor;
    const struct scan_visitor *visitor = outer->visitor;
    enum status status = monitor_check(visitor->monitor, error);
    if (status != STATUS_OK || roots_closed(outer->roots, directory)) return status;
    (void)snprintf(config, sizeof config, "%s/config.json", directory);
    const bool own = access(config, F_OK) == 0, configured = own || outer->above == CONFIGURED;
    const bool whole = (own || outer->above != WITHIN_CHECKPOINT) && looks_like_checkpoint(directory, configured);
    const struct level level = {.roots = outer->roots,
                                .visitor = visitor,
                                .depth = outer->depth + 1,
                                .whole = whole,
                                .configured = configured,
                                .above = whole ? WITHIN_CHECKPOINT
                                         : own ? CONFIGURED
                                               : outer->above};
    if (visitor->directory != NULL) visitor->directory(visitor->context, directory);
    if (whole) status = visitor->found(visitor->context, directory, error);
    if (status != STATUS_OK) return status;
    if (file_directory(AT_FDCWD, directory, &descriptor, &ignored) != STATUS_OK) return STATUS_OK; /* exchanged, away */
    const int count = scandirat(descriptor, ".", &entries, NULL, versionsort);
    (void)close(descriptor);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (status == STATUS_OK && length < (int)sizeof path)
            status = walk_entry(&level, path, entries[i]->d_name, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

enum status scan_walk(const struct roots *roots, const char *top, const struct scan_visitor *visitor,
                      struct error *error)
{
    return walk(&(struct level){.roots = roots, .visitor = visitor, .depth = -1, .above = NOTHING}, top, error);
}

static void add_facts(struct checksum *sum, const char *name, const struct stat *found, double *newest)
{
    const int64_t facts[] = {(int64_t)found->st_size, (int64_t)found->st_mtim.tv_sec, (int64_t)found->st_mtim.tv_nsec,
                             (int64_t)found->st_ino};
    checksum_add(sum, name, strlen(name) + 1);
    checksum_add(sum, facts, sizeof facts);
    *newest = fmax(*newest, (double)found->st_mtim.tv_sec + 1e-9 * (double)found->st_mtim.tv_nsec);
}

bool scan_signature(const char *path, uint64_t *signature, double *newest)
{
    struct dirent **entries = NULL;
    struct checksum sum;
    struct stat found;
    *newest = 0;
    checksum_init(&sum);
    if (stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
        int part, count = 1;
        char other[PATH_MAX];
        add_facts(&sum, "", &found, newest);
        if (!gguf_split_read(path, &part, &count)) count = 1;
        for (int i = 2; i <= count && i <= GGUF_SPLIT_MOST; i++)
            if (gguf_split_name(path, i, other, sizeof other) && stat(other, &found) == 0)
                add_facts(&sum, "", &found, newest);
        *signature = checksum_value(&sum);
        return true;
    }
    const int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];
        const int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (length < (int)sizeof file && stat(file, &found) == 0 && !S_ISDIR(found.st_mode))
            add_facts(&sum, entries[i]->d_name, &found, newest);
        free(entries[i]);
    }
    free(entries);
    *signature = checksum_value(&sum);
    return count >= 0;
}

static enum status config_too_large(struct error *error)
{
    return error_set(error, STATUS_TOO_LARGE,
                     "the config.json above it has more than %d bytes; put it beside the weights",
                     CHECKPOINT_CONFIG_SIZE / 2 - 1);
}

/* {"path", "config"} with the config.json above `directory`, up to the top, when it has none of its own; else NULL,
 * which stands for the path only. */
static enum status inherited_source(const struct scan_place *place, const char *directory, const char *path,
                                    json_t **out, struct error *error)
{
    char at[PATH_MAX], config[PATH_MAX + 16];
    const size_t top = strlen(place->top);
    *out = NULL;
    if (ends_with(path, ".gguf")) return STATUS_OK;
    (void)snprintf(at, sizeof at, "%s", directory);
    for (;;) {
        (void)snprintf(config, sizeof config, "%s/config.json", at);
        if (access(config, F_OK) == 0) break;
        char *slash = strrchr(at, '/');
        if (slash == NULL || (size_t)(slash - at) < top) return STATUS_OK;
        *slash = '\0';
    }
    if (strcmp(at, directory) == 0) return STATUS_OK;
    char *text = NULL;
    size_t size = 0;
    enum status status = roots_check_links(place->roots, at, "/path", error);
    if (status == STATUS_OK) status = file_read_all(AT_FDCWD, config, CONFIG_READ, &text, &size, error);
    if (status != STATUS_OK) return status;
    if (tree_cost(text, size) > TREE_MOST) {
        memory_free(text);
        return config_too_large(error);
    }
    json_t *read = json_loadb(text, size, 0, NULL);
    memory_free(text);
    text = written_json(read, JSON_COMPACT);
    const bool large = text != NULL && strlen(text) >= CHECKPOINT_CONFIG_SIZE / 2;
    free(text);
    if (large) {
        json_decref(read);
        return config_too_large(error);
    }
    if (json_is_object(read)) *out = json_pack("{ss sO}", "path", path, "config", read);
    json_decref(read);
    return *out != NULL ? STATUS_OK : error_set(error, STATUS_INVALID, "the config.json above it is no JSON object");
}

enum status scan_register(struct connection *connection, const struct scan_place *place, const char *path,
                          enum store_outcome *outcome, json_t **document, struct error *error)
{
    char name[PATH_MAX], directory[PATH_MAX];
    struct checkpoint_guess guess;
    struct stat found;
    json_t *source = NULL;
    *document = NULL;
    (void)snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (!is_text(path))
        return error_set(error, STATUS_INVALID, "its path is not UTF-8: rename the file or a directory above it");
    if (slash != NULL && stat(path, &found) == 0 && S_ISREG(found.st_mode)) *slash = '\0';
    scan_name(place->top, path, name, sizeof name);
    scan_read_name(name, &guess.step, &guess.tokens);
    enum status status = scan_check_name(name, error);
    if (status == STATUS_OK) status = roots_check_links(place->roots, directory, "/path", error);
    if (status == STATUS_OK) status = inherited_source(place, directory, path, &source, error);
    const struct checkpoint_new new = {.trajectory = place->trajectory, .name = name, .path = path, .source = source};
    if (status == STATUS_OK)
        status = checkpoint_files_register(connection, &new, &guess, place->monitor, outcome, document, error);
    json_decref(source);
    return status;
}

bool scan_ends_with(enum status status)
{
    return status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY || status == STATUS_CANCELLED;
}

/* ---- one scan ---- */

struct scan {
    struct connection *connection;
    const struct scan_request *request;
    struct scan_place place;
    json_t *registered, *pending, *failed; /* owned */
    int64_t existing, seen;
};

static enum status append(json_t *list, json_t *item, struct error *error)
{
    return json_array_append_new(list, item) == 0 ? STATUS_OK
                                                  : error_set(error, STATUS_NO_MEMORY, "no memory for a list");
}

/* Whether the checkpoint was written a moment ago, so that a writer may not be finished. Files from the future do not
 * count, so that a wrong clock does not delay it for ever. */
static bool restless(const char *path, double quiet_seconds)
{
    struct timespec now;
    uint64_t signature;
    double newest;
    if (quiet_seconds <= 0 || !scan_signature(path, &signature, &newest)) return false;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const double age = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - newest;
    return age >= 0 && age < quiet_seconds;
}

static enum status found(void *context, const char *path, struct error *error)
{
    struct scan *scan = context;
    char name[PATH_MAX];
    enum store_outcome outcome;
    json_t *document = NULL;
    scan_name(scan->place.top, path, name, sizeof name);
    if (++scan->seen > SCAN_MOST)
        return error_set_at(error, STATUS_INVALID, "/path",
                            "more than %d checkpoints below it: scan smaller directories", SCAN_MOST);
    if (restless(path, scan->request->quiet_seconds)) return append(scan->pending, json_string(name), error);
    const enum status status = scan_register(scan->connection, &scan->place, path, &outcome, &document, error);
    if (scan_ends_with(status)) return status;
    if (status != STATUS_OK) return append(scan->failed, scan_failed_item(name, status, error->detail), error);
    if (outcome == STORE_CREATED) return append(scan->registered, document, error);
    scan->existing++;
    json_decref(document);
    return STATUS_OK;
}

enum status scan_directory(struct connection *connection, const struct scan_request *request, json_t **document,
                           struct error *error)
{
    char top[PATH_MAX];
    struct scan scan = {.connection = connection,
                        .request = request,
                        .place = {request->roots, request->trajectory, top, request->monitor}};
    const struct scan_visitor visitor = {.context = &scan, .found = found, .monitor = request->monitor};
    enum status status = roots_resolve(request->roots, request->path, "/path", top, sizeof top, error);
    if (status != STATUS_OK) return status;
    scan.registered = json_array();
    scan.pending = json_array();
    scan.failed = json_array();
    status = scan_walk(request->roots, top, &visitor, error);
    if (status == STATUS_OK && scan.seen == 0 && !request->may_be_empty)
        status =
            error_set_at(error, STATUS_INVALID, "/path",
                         "no checkpoint below it: expected directories with config.json and weights, or .gguf files");
    if (status == STATUS_OK) {
        *document = json_pack("{sO sI sO sO}", "registered", scan.registered, "existing", (json_int_t)scan.existing,
                              "pending", scan.pending, "failed", scan.failed);
        if (*document == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    }
    json_decref(scan.registered);
    json_decref(scan.pending);
    json_decref(scan.failed);
    return status;
}
