#include "cli/place.h"

#include "backend/backend.h"
#include "backup/restore.h"
#include "base/directory.h"
#include "hub/hub.h"
#include "kinds/artifact_store.h"
#include "log/crash.h"
#include "log/log.h"
#include "postgres/conninfo.h"
#include "postgres/embedded.h"
#include "schema/form.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIGRATION_MILLISECONDS = 60000, LABEL_BYTES = 100, DEVICE_WORD = 64 };

/* For errors that only the user who started the program sees: paths of the server do not go into answers. */
static enum status path_failed(const char *action, const char *path, struct error *error)
{
    return error_set(error, STATUS_IO, "%s %.300s: %s", action, path, strerror(errno));
}

enum status place_data_path(const struct options *options, char *out, struct error *error)
{
    const char *given = options_text(options, "--data-dir"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length;
    if (given != NULL)
        length = snprintf(out, PLACE_PATH, "%s", given);
    else if (data != NULL && data[0] == '/')
        length = snprintf(out, PLACE_PATH, "%s/deltaq", data);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, PLACE_PATH, "%s/.local/share/deltaq", home);
    else
        return error_set(error, STATUS_INVALID, "no home directory: give --data-dir");
    if (length == 0) return error_set(error, STATUS_INVALID, "--data-dir: expected a directory, found nothing");
    return length < PLACE_PATH ? STATUS_OK : error_set(error, STATUS_INVALID, "--data-dir: path too long");
}

enum status place_has_database(const struct options *options, bool *out, struct error *error)
{
    char path[PLACE_PATH], cluster[PLACE_PATH + 16];
    struct stat found;
    const enum status status = place_data_path(options, path, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(cluster, sizeof cluster, "%s/pg/data", path);
    *out = stat(cluster, &found) == 0 || (errno != ENOENT && errno != ENOTDIR);
    return STATUS_OK;
}

enum status place_data_directory(const struct options *options, char *out, struct error *error)
{
    char path[PLACE_PATH], inside[PLACE_PATH + 1];
    const enum status status = place_data_path(options, path, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(inside, sizeof inside, "%s/", path);
    if (directory_make_above(inside, 0700) != 0) return path_failed("making the data directory", path, error);
    if (realpath(path, out) == NULL) return path_failed("opening the data directory", path, error);
    return restore_check_finished(out, error);
}

enum status place_data_look(const struct options *options, char *out, bool *there, struct error *error)
{
    char path[PLACE_PATH];
    enum status status = place_data_path(options, path, error);
    *there = false;
    if (status != STATUS_OK) return status;
    if (realpath(path, out) != NULL) {
        *there = true;
        return restore_check_finished(out, error);
    }
    while (errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (slash != NULL)
            slash[slash == path] = '\0';
        else
            (void)snprintf(path, sizeof path, ".");
        if (realpath(path, out) != NULL) return STATUS_OK;
    }
    return path_failed("opening the data directory", path, error);
}

static enum status root_failed(const char *path, struct error *error)
{
    return error_set(error, STATUS_INVALID, "--root %.300s: %s", path, strerror(errno));
}

static enum status add_root(struct place_roots *roots, size_t *count, const char *path, struct error *error)
{
    if (*count >= PLACE_ROOTS + 1) return error_set(error, STATUS_INVALID, "more than %d roots", PLACE_ROOTS);
    roots->paths[*count] = realpath(path, NULL);
    if (roots->paths[*count] == NULL) return root_failed(path, error);
    (*count)++;
    return STATUS_OK;
}

/* Whether `root` is the data directory or above it, compared as text: `root` will exist when the directory is made. */
static bool comes_with(const char *data_directory, const char *root)
{
    size_t length = strlen(root);
    while (length > 1 && root[length - 1] == '/') length--;
    return strncmp(data_directory, root, length) == 0 &&
           (data_directory[length] == '/' || data_directory[length] == '\0');
}

static enum status check_roots(const struct options *options, const char *data_directory, struct error *error)
{
    struct stat found;
    int count = 0;
    for (const char *const *root = options_all(options, "--root"); *root != NULL; root++) {
        if (++count > PLACE_ROOTS) return error_set(error, STATUS_INVALID, "more than %d roots", PLACE_ROOTS);
        const bool there = stat(*root, &found) == 0;
        if (there && S_ISDIR(found.st_mode)) continue;
        if (!there && errno == ENOENT && comes_with(data_directory, *root)) continue;
        if (there) errno = ENOTDIR;
        return root_failed(*root, error);
    }
    return STATUS_OK;
}

static struct hub_options hub_options_of(const struct options *options, const char *data_directory)
{
    return (struct hub_options){
        .endpoint = options_text(options, "--hub-endpoint"),
        .token = getenv("HF_TOKEN"),
        .allow_private = options_text(options, "--allow-private-hub") != NULL,
        .data_directory = data_directory,
        .cache = options_text(options, "--hub-cache"),
        .objects = {.endpoint = options_text(options, "--s3-endpoint"), .region = options_text(options, "--s3-region")},
    };
}

static enum status check_database_url(const struct options *options, struct error *error)
{
    const char *conninfo = options_text(options, "--database-url");
    return conninfo != NULL ? place_name(conninfo_check(conninfo, error), "--database-url", error) : STATUS_OK;
}

enum status place_check(const struct options *options, struct error *error)
{
    char path[PLACE_PATH];
    const struct hub_options hub = hub_options_of(options, NULL);
    enum status status = place_data_path(options, path, error);
    if (status == STATUS_OK) status = check_roots(options, path, error);
    if (status == STATUS_OK) status = check_database_url(options, error);
    if (status == STATUS_OK) status = artifact_store_check(options_text(options, "--artifacts"), error);
    return status == STATUS_OK ? hub_check(&hub, error) : status;
}

enum status place_roots(const struct options *options, const char *data_directory, struct place_roots *out,
                        struct error *error)
{
    char checkpoints[PLACE_PATH];
    size_t count = 0;
    enum status status = STATUS_OK;
    const char *const *given = options_all(options, "--root");
    *out = (struct place_roots){0};
    for (const char *const *root = given; *root != NULL && status == STATUS_OK; root++)
        status = add_root(out, &count, *root, error);
    if (*given == NULL) {
        status = add_root(out, &count, data_directory, error);
        if (status == STATUS_OK) status = add_root(out, &count, ".", error);
    }
    if ((size_t)snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", data_directory) >= sizeof checkpoints)
        status = error_set(error, STATUS_INVALID, "--data-dir: path too long");
    else if (status == STATUS_OK && mkdir(checkpoints, 0700) != 0 && errno != EEXIST)
        status = path_failed("making", checkpoints, error);
    else if (status == STATUS_OK)
        status = add_root(out, &count, checkpoints, error);
    if (status == STATUS_OK) status = secret_files_list(options, out->secrets, error);
    out->roots = (struct roots){.paths = (const char *const *)out->paths,
                                .data_directory = data_directory,
                                .secrets = (const char *const *)out->secrets};
    if (status != STATUS_OK) place_roots_reset(out);
    return status;
}

static enum status check_open(const void *context, int directory, const char *path, int descriptor, struct error *error)
{
    return roots_check_open(context, directory, path, descriptor, error);
}

void place_guard(struct place_roots *roots)
{
    roots->guard = (struct file_guard){.context = &roots->roots, .check = check_open};
    file_guard_set(&roots->guard);
}

void place_roots_reset(struct place_roots *roots)
{
    if (roots->guard.check != NULL) file_guard_set(NULL);
    for (size_t i = 0; i < PLACE_ROOTS + 2; i++) free(roots->paths[i]);
    for (size_t i = 0; i < SECRET_FILES_MOST; i++) free(roots->secrets[i]);
    *roots = (struct place_roots){0};
}

size_t place_words(const struct options *options, const char *data_directory, const struct place_roots *roots,
                   const char **words, size_t count)
{
    static const char *const passed_on[] = {"--hub-endpoint", "--hub-cache", "--s3-endpoint", "--s3-region",
                                            "--artifacts"};
    words[count++] = "--data-dir";
    words[count++] = data_directory;
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        if (options_text(options, passed_on[i]) == NULL) continue;
        words[count++] = passed_on[i];
        words[count++] = options_text(options, passed_on[i]);
    }
    if (options_text(options, "--allow-private-hub") != NULL) words[count++] = "--allow-private-hub";
    for (size_t i = 0; roots->paths[i] != NULL; i++) {
        words[count++] = "--root";
        words[count++] = roots->paths[i];
    }
    return count;
}

enum status place_hub(const struct options *options, const char *data_directory, struct hub **out, struct error *error)
{
    const struct hub_options how = hub_options_of(options, data_directory);
    return hub_new(&how, out, error);
}

enum status place_artifacts(const struct options *options, const struct hub *hub, struct artifact_store **out,
                            struct error *error)
{
    const char *place = options_text(options, "--artifacts");
    *out = NULL;
    return place != NULL ? artifact_store_new(hub->objects, place, out, error) : STATUS_OK;
}

enum status place_store_open(const struct options *options, struct place_store *out, struct error *error)
{
    const char *place = options_text(options, "--artifacts");
    const struct objects_options how = {.endpoint = options_text(options, "--s3-endpoint"),
                                        .region = options_text(options, "--s3-region")};
    *out = (struct place_store){0};
    if (place == NULL) return STATUS_OK;
    const enum status status = objects_new(&how, &out->objects, error);
    return status == STATUS_OK ? artifact_store_new(out->objects, place, &out->artifacts, error) : status;
}

void place_store_close(struct place_store *store)
{
    artifact_store_free(store->artifacts);
    objects_free(store->objects);
    *store = (struct place_store){0};
}

bool place_find(const char *name, int index, char *out, size_t size)
{
    static const char *const places[] = {"../share/deltaq", "..", "../..", "."};
    char binary[PLACE_PATH];
    const ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    if (length <= 0) return false;
    binary[length] = '\0';
    char *slash = strrchr(binary, '/');
    if (slash != NULL) *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int used = snprintf(out, size, "%s/%s/%s", binary, places[i], name);
        if (used > 0 && (size_t)used < size && access(out, R_OK) == 0 && index-- == 0) return true;
    }
    return false;
}

/* Reads the next word of the list at *at and moves past it and a comma: a device's number, or another name of it. */
static bool next_device(const char **at, char word[DEVICE_WORD])
{
    const size_t length = strcspn(*at, ",");
    const bool number = length <= 4 && strspn(*at, "0123456789") == length;
    if (length == 0 || length >= DEVICE_WORD || ((*at)[length] == ',' && (*at)[length + 1] == '\0')) return false;
    (void)snprintf(word, DEVICE_WORD, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    return number || strncasecmp(word, "GPU-", 4) == 0 || strpbrk(word, ":.") != NULL;
}

/* The number of the device that a word of --device names; -1, with an explanation in `text`, when there is none. */
static long device_number(const char *word, char *text, size_t size)
{
    const long number = strtol(word, NULL, 10);
    if (word[strspn(word, "0123456789")] != '\0') return backend_cuda_find(word, text, size);
    return number < backend_cuda_count(text, size) ? number : -1;
}

enum status place_device(const char *device, int64_t which, char out[PLACE_DEVICE_NAME], int64_t *count,
                         struct error *error)
{
    const char *list = device + strlen("cuda:");
    char found[400], word[DEVICE_WORD];
    *count = 1;
    (void)snprintf(out, PLACE_DEVICE_NAME, "cpu");
    if (strcmp(device, "cpu") == 0) return STATUS_OK;
    if (strcmp(device, "auto") == 0) {
        const int all = backend_cuda_count(found, sizeof found);
        if (all > 0) (void)snprintf(out, PLACE_DEVICE_NAME, "cuda:%d", (int)(which % all));
        if (all > 0) *count = all;
        return STATUS_OK;
    }
    const bool cuda = strncmp(device, "cuda:", 5) == 0;
    const char *at = cuda ? list : "";
    for (*count = 0; cuda && *at != '\0'; ++*count)
        if (!next_device(&at, word)) break;
    if (!cuda || *at != '\0' || *count == 0)
        return error_set(error, STATUS_INVALID,
                         "--device %.60s: expected auto, cpu, or cuda:0 or cuda:0,1, with UUIDs (GPU-…) or PCI "
                         "addresses (3b:00.0) in the place of numbers if you like",
                         device);
    at = list;
    for (int64_t i = 0; i < *count; i++) {
        (void)next_device(&at, word);
        const long number = device_number(word, found, sizeof found);
        if (number < 0)
            return error_set(error, STATUS_UNSUPPORTED, "--device %.60s: %s; use --device cpu", device, found);
        if (i == which % *count) (void)snprintf(out, PLACE_DEVICE_NAME, "cuda:%ld", number);
    }
    return STATUS_OK;
}

enum status place_name(enum status status, const char *place, struct error *error)
{
    struct error cause = *error;
    if (status == STATUS_OK) return status;
    return error_set(error, status, "%.200s: %.250s", place, cause.detail);
}

/* Adds the data directory to the error. */
static enum status name_directory(enum status status, const char *data_directory, struct error *error)
{
    struct error cause = *error;
    if (status == STATUS_OK) return status;
    return error_set(error, status, "%.*s (data directory %.150s)", (int)sizeof cause.detail - 200, cause.detail,
                     data_directory);
}

enum status place_embedded_start_as(const struct embedded_options *how, struct embedded **out, struct error *error)
{
    return name_directory(embedded_start(how, out, error), how->data_directory, error);
}

enum status place_embedded_start(const char *data_directory, struct embedded **out, struct error *error)
{
    const struct embedded_options how = {.data_directory = data_directory, .ballast_bytes = -1};
    return place_embedded_start_as(&how, out, error);
}

enum status place_embedded_attach(const char *data_directory, char *conninfo, size_t size, struct error *error)
{
    return name_directory(embedded_attach(data_directory, conninfo, size, error), data_directory, error);
}

static enum status database_open(const struct options *options, int64_t ballast_bytes, struct place_database *out,
                                 struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct place_database){.conninfo = options_text(options, "--database-url")};
    if (out->conninfo == NULL) {
        if ((status = place_data_directory(options, out->data_directory, error)) != STATUS_OK) return status;
        const struct embedded_options how = {.data_directory = out->data_directory, .ballast_bytes = ballast_bytes};
        status = place_embedded_start_as(&how, &out->embedded, error);
        if (status == STATUS_OK) {
            out->conninfo = embedded_conninfo(out->embedded);
        } else if (status == STATUS_CONFLICT) { /* a server runs the cluster */
            status = place_embedded_attach(out->data_directory, out->attached, sizeof out->attached, error);
            out->conninfo = out->attached;
        }
    }
    if (status == STATUS_OK) status = connection_new(out->conninfo, "deltaq", &out->connection, error);
    if (status == STATUS_OK)
        connection_set_deadline(out->connection, MIGRATION_MILLISECONDS);
    else
        place_database_close(out);
    return status;
}

enum status place_database_open(const struct options *options, struct place_database *out, struct error *error)
{
    return database_open(options, -1, out, error);
}

enum status place_database_look(const struct options *options, struct place_database *out, struct error *error)
{
    char path[PLACE_PATH];
    bool there = true;
    enum status status = STATUS_OK;
    *out = (struct place_database){0};
    if (options_text(options, "--database-url") == NULL) {
        status = place_data_look(options, path, &there, error);
        if (status == STATUS_OK && there) status = place_has_database(options, &there, error);
    }
    if (status != STATUS_OK) return status;
    if (there) return database_open(options, 0, out, error);
    return error_set(error, STATUS_NOT_FOUND,
                     "there is no database yet: `deltaq serve` or `deltaq migrate` makes one in the data directory");
}

void place_database_close(struct place_database *database)
{
    connection_free(database->connection);
    embedded_stop(database->embedded);
    *database = (struct place_database){0};
}

enum status place_log(const struct options *options, struct error *error)
{
    crash_report();
    return log_set(options_text(options, "--log-format"), options_text(options, "--log-level"), error);
}

int place_fail(const char *command, const struct error *error)
{
    (void)fprintf(stderr, "deltaq %s: %s\n", command, error->detail);
    return 1;
}

static bool has_label(const json_t *labels, const char *label)
{
    size_t i;
    const json_t *item;
    json_array_foreach(labels, i, item) if (strcmp(json_string_value(item), label) == 0) return true;
    return false;
}

static enum status add_labels(json_t *labels, const char *text, struct error *error)
{
    while (*text != '\0') {
        char label[LABEL_BYTES + 1];
        const size_t length = strcspn(text, ",");
        if (length <= LABEL_BYTES) (void)snprintf(label, sizeof label, "%.*s", (int)length, text);
        if (length > LABEL_BYTES || !form_label.fits(label))
            return error_set(error, STATUS_INVALID, "--label %.*s: %s, at most %d", (int)(length > 100 ? 100 : length),
                             text, form_label.wanted, LABEL_BYTES);
        if (!has_label(labels, label) && json_array_append_new(labels, json_string(label)) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for labels");
        text += length + (text[length] == ',');
    }
    return STATUS_OK;
}

enum status place_labels(const struct options *options, json_t **out, struct error *error)
{
    enum status status = STATUS_OK;
    json_t *labels = json_array();
    *out = NULL;
    for (const char *const *text = options_all(options, "--label"); *text != NULL && status == STATUS_OK; text++)
        status = labels != NULL ? add_labels(labels, *text, error)
                                : error_set(error, STATUS_NO_MEMORY, "no memory for labels");
    if (status == STATUS_OK && json_array_size(labels) > 0) {
        *out = labels;
        return STATUS_OK;
    }
    json_decref(labels);
    return status;
}

enum status place_memory(const struct options *options, int64_t *bytes, struct error *error)
{
    const enum status status = options_integer(options, "--memory", 0, 1 << 30, bytes, error);
    *bytes <<= 20;
    return status;
}

enum status place_device_memory(const struct options *options, int64_t *bytes, struct error *error)
{
    return options_size(options, "--device-memory", bytes, error);
}

enum status place_save_every(const struct options *options, double *seconds, struct error *error)
{
    int64_t whole = 0;
    const enum status status = options_integer(options, "--save-every", 0, 86400, &whole, error);
    *seconds = (double)whole;
    return status;
}

enum status place_affinity_grace(const struct options *options, double *seconds, struct error *error)
{
    int64_t whole = 0;
    const enum status status = options_integer(options, "--affinity-grace", 0, 3600, &whole, error);
    *seconds = (double)whole;
    return status;
}
