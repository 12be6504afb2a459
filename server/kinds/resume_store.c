#include "kinds/resume_store.h"

#include "kinds/resume_object.h"
#include "json/written.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_FILE "lease" /* in the work directory: the last lease whose state it contains */
enum { LIST_MOST = 1 << 16, CHUNK = 1 << 20 };

static bool is_resumed(const struct resume_place *place, const char *name)
{
    if (name[0] == '.' || strlen(name) >= RESUME_STORE_NAME || strchr(name, '/') != NULL) return false;
    for (const char *const *pattern = place->resumes; *pattern != NULL; pattern++)
        if (fnmatch(*pattern, name, 0) == 0) return true;
    return false;
}

/* ---- the files ---- */

static int compare_files(const void *left, const void *right)
{
    return strcmp(((const struct resume_file *)left)->name, ((const struct resume_file *)right)->name);
}

static void identify(const struct stat *found, struct resume_file *out)
{
    out->device = found->st_dev;
    out->inode = found->st_ino;
    out->bytes = found->st_size;
    out->changed = (int64_t)found->st_mtim.tv_sec * 1000000000 + found->st_mtim.tv_nsec;
}

/* Lists the files of the state by name. *alone: the work directory contains no directory. */
static enum status list_files(const struct resume_place *place, struct resume_file *files, int64_t *count, bool *alone,
                              struct error *error)
{
    struct stat found;
    enum status status = STATUS_OK;
    DIR *stream = opendir(place->directory);
    *count = 0;
    *alone = true;
    if (stream == NULL) return error_set_errno(error, "cannot list a work directory");
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fstatat(dirfd(stream), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue; /* just replaced */
        if (S_ISDIR(found.st_mode)) *alone = false;
        if (!S_ISREG(found.st_mode) || !is_resumed(place, entry->d_name)) continue;
        if (*count == RESUME_STORE_FILES) {
            status = error_set(error, STATUS_UNSUPPORTED, "a state of more than %d files", RESUME_STORE_FILES);
            continue;
        }
        struct resume_file *file = &files[(*count)++];
        (void)snprintf(file->name, sizeof file->name, "%.63s", entry->d_name);
        file->sha256[0] = '\0';
        identify(&found, file);
    }
    (void)closedir(stream);
    qsort(files, (size_t)*count, sizeof files[0], compare_files);
    return status;
}

/* ---- fetching ---- */

static int64_t lease_here(const char *directory)
{
    char path[PATH_MAX], text[32] = "";
    (void)snprintf(path, sizeof path, "%s/" LEASE_FILE, directory);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    (void)close(fd);
    return length > 0 ? strtoll(text, NULL, 10) : 0;
}

static enum status note_lease(const struct resume_place *place, struct error *error)
{
    char path[PATH_MAX], beside[PATH_MAX], text[32];
    (void)snprintf(path, sizeof path, "%s/" LEASE_FILE, place->directory);
    (void)snprintf(beside, sizeof beside, "%s/" LEASE_FILE ".new", place->directory);
    const int length = snprintf(text, sizeof text, "%" PRId64 "\n", place->epoch);
    const int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool good = fd >= 0 && write(fd, text, (size_t)length) == length && fsync(fd) == 0;
    if (fd >= 0) (void)close(fd);
    if (good && rename(beside, path) == 0) return STATUS_OK;
    return error_set_errno(error, "cannot note which lease a work directory is of");
}

/* The last list of any lease before this one. */
static const struct listing_item *newest_list(const struct listing *listing, int64_t before, struct resume_object *out)
{
    const struct listing_item *newest = NULL;
    for (size_t i = 0; i < listing->count; i++) {
        struct resume_object object;
        if (!resume_object_read(listing->items[i].name, &object) || object.number == 0 || object.epoch >= before)
            continue;
        if (newest != NULL &&
            (object.epoch < out->epoch || (object.epoch == out->epoch && object.number <= out->number)))
            continue;
        newest = &listing->items[i];
        *out = object;
    }
    return newest;
}

static enum status read_list(const struct resume_place *place, const struct listing_item *item,
                             const struct resume_object *object, const struct monitor *monitor, json_t **out,
                             struct error *error)
{
    char name[RESUME_OBJECT_NAME];
    int fd = -1;
    json_error_t cause;
    *out = NULL;
    if (item->bytes > LIST_MOST) return error_set(error, STATUS_CORRUPT, "the list of a run's state is too long");
    (void)snprintf(name, sizeof name, RESUME_OBJECT_FOLDER "/%s/%.150s", place->run, item->name);
    const enum status status =
        artifact_store_get_as(place->store, name, object->sha256, item->bytes, place->directory, monitor, &fd, error);
    if (status != STATUS_OK) return status;
    *out = json_loadfd(fd, JSON_REJECT_DUPLICATES, &cause);
    (void)close(fd);
    if (json_is_array(*out) && json_array_size(*out) <= RESUME_STORE_FILES) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "the list of a run's state is not one");
}

/* Fetched files that have no name yet. */
struct fetched {
    int count, descriptors[RESUME_STORE_FILES];
    char names[RESUME_STORE_FILES][RESUME_STORE_NAME];
};

static enum status fetch_file(const struct resume_place *place, int64_t epoch, const json_t *entry,
                              const struct monitor *monitor, struct fetched *fetched, struct error *error)
{
    char object[RESUME_OBJECT_NAME];
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *sha256 = json_string_value(json_object_get(entry, "sha256"));
    const json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    if (name == NULL || sha256 == NULL || !is_resumed(place, name) || !resume_object_is_digest(sha256) || bytes < 0)
        return error_set(error, STATUS_CORRUPT, "the list of a run's state names what is none of it");
    resume_object_name(place->run, epoch, sha256, object);
    const enum status status = artifact_store_get_as(place->store, object, sha256, bytes, place->directory, monitor,
                                                     &fetched->descriptors[fetched->count], error);
    if (status != STATUS_OK) return status;
    (void)snprintf(fetched->names[fetched->count++], RESUME_STORE_NAME, "%s", name);
    return STATUS_OK;
}

static void remove_older(const struct resume_place *place)
{
    DIR *stream = opendir(place->directory);
    for (const struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;)
        if (is_resumed(place, entry->d_name)) (void)unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream != NULL) (void)closedir(stream);
}

static enum status put_in_place(const struct resume_place *place, const struct fetched *fetched, struct error *error)
{
    remove_older(place);
    for (int i = 0; i < fetched->count; i++) {
        char path[PATH_MAX], open_file[64];
        (void)snprintf(path, sizeof path, "%s/%s", place->directory, fetched->names[i]);
        (void)snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fetched->descriptors[i]);
        if (fsync(fetched->descriptors[i]) != 0 || linkat(AT_FDCWD, open_file, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
            return error_set_errno(error, "cannot put the state of a run in place");
    }
    return STATUS_OK;
}

static enum status fetch_listed(const struct resume_place *place, const struct listing_item *item,
                                const struct resume_object *object, const struct monitor *monitor, struct error *error)
{
    struct fetched *fetched = calloc(1, sizeof *fetched);
    json_t *list = NULL;
    const json_t *entry;
    size_t i;
    if (fetched == NULL) return error_no_memory(error, "the state of a run");
    monitor_log(monitor, "fetching what lease %" PRId64 " of this run left", object->epoch);
    enum status status = read_list(place, item, object, monitor, &list, error);
    json_array_foreach(list, i, entry)
    {
        if (status == STATUS_OK) status = fetch_file(place, object->epoch, entry, monitor, fetched, error);
    }
    if (status == STATUS_OK) status = put_in_place(place, fetched, error);
    for (int k = 0; k < fetched->count; k++) (void)close(fetched->descriptors[k]);
    json_decref(list);
    free(fetched);
    return status;
}

enum status resume_store_fetch(struct resume_published *published, const struct monitor *monitor, bool *found,
                               struct error *error)
{
    const struct resume_place *place = &published->place;
    bool alone; /* only files were fetched, so it is true */
    struct listing listing = {0};
    struct resume_object object = {0};
    *found = false;
    enum status status = STATUS_OK;
    if (place->epoch > 1) { /* there is no lease before the first */
        status = resume_object_list(place->store, place->run, 0, monitor, &listing, error);
        *found = listing.count > 0;
        const struct listing_item *item = newest_list(&listing, place->epoch, &object);
        if (status == STATUS_OK && item != NULL && lease_here(place->directory) < object.epoch) {
            status = fetch_listed(place, item, &object, monitor, error);
            if (status == STATUS_OK) status = list_files(place, published->files, &published->count, &alone, error);
        }
        listing_reset(&listing);
    }
    return status == STATUS_OK ? note_lease(place, error) : status;
}

/* ---- uploading ---- */

static enum status hash_descriptor(int fd, int64_t bytes, const struct monitor *monitor, char out[HASH_TEXT],
                                   struct error *error)
{
    struct hash *hash = NULL;
    char *chunk = malloc(CHUNK);
    enum status status = chunk == NULL ? error_no_memory(error, "the state of a run") : hash_new(&hash, error);
    for (int64_t at = 0; status == STATUS_OK && at < bytes;) {
        const ssize_t length = pread(fd, chunk, CHUNK, at);
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0)
            status = error_set_errno(error, "reading the state of a run");
        else
            status = monitor_check(monitor, error);
        if (status == STATUS_OK) hash_add(hash, chunk, (size_t)length);
        at += length;
    }
    free(chunk);
    if (status == STATUS_OK) return hash_finish(hash, out, error);
    hash_free(hash);
    return status;
}

static enum status put(const struct resume_place *place, const char *rest, int fd, int64_t bytes,
                       const struct monitor *monitor, struct error *error)
{
    char name[RESUME_OBJECT_NAME];
    resume_object_name(place->run, place->epoch, rest, name);
    return artifact_store_put(place->store, name, fd, bytes, monitor, error);
}

static const struct resume_file *find_same(const struct resume_published *published, const struct resume_file *file)
{
    for (int64_t i = 0; i < published->count; i++) {
        const struct resume_file *old = &published->files[i];
        if (strcmp(old->name, file->name) == 0 && old->device == file->device && old->inode == file->inode &&
            old->bytes == file->bytes && old->changed == file->changed)
            return old;
    }
    return NULL;
}

static bool is_new(const struct resume_published *published, const struct resume_published *state)
{
    for (int64_t i = 0; i < state->count; i++)
        if (find_same(published, &state->files[i]) == NULL) return true;
    return state->count != published->count;
}

/* Uploads the file `out->name` unless this lease has uploaded it. *gone: the file no longer exists. */
static enum status take_file(const struct resume_published *published, const struct monitor *monitor,
                             struct resume_file *out, bool *gone, struct error *error)
{
    char path[PATH_MAX];
    struct stat found;
    (void)snprintf(path, sizeof path, "%s/%s", published->place.directory, out->name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    *gone = fd < 0 && errno == ENOENT;
    if (*gone) return STATUS_OK;
    if (fd < 0 || fstat(fd, &found) != 0) {
        const enum status failed = error_set_errno(error, "opening the state of a run");
        if (fd >= 0) (void)close(fd);
        return failed;
    }
    identify(&found, out);
    const struct resume_file *same = find_same(published, out);
    enum status status = STATUS_OK;
    if (same != NULL && same->sha256[0] != '\0') {
        memcpy(out->sha256, same->sha256, sizeof out->sha256);
    } else {
        status = hash_descriptor(fd, out->bytes, monitor, out->sha256, error);
        if (status == STATUS_OK) status = put(&published->place, out->sha256, fd, out->bytes, monitor, error);
    }
    (void)close(fd);
    return status;
}

static enum status take_files(const struct resume_published *published, const struct monitor *monitor,
                              struct resume_published *state, struct error *error)
{
    const int64_t count = state->count;
    enum status status = STATUS_OK;
    state->count = 0;
    for (int64_t i = 0; status == STATUS_OK && i < count; i++) {
        bool gone = false;
        struct resume_file file = state->files[i];
        status = take_file(published, monitor, &file, &gone, error);
        if (!gone) state->files[state->count++] = file;
    }
    return status;
}

static json_t *describe(const struct resume_published *state)
{
    json_t *list = json_array();
    for (int64_t i = 0; list != NULL && i < state->count; i++) {
        const struct resume_file *file = &state->files[i];
        json_t *entry =
            json_pack("{ss ss sI}", "name", file->name, "sha256", file->sha256, "bytes", (json_int_t)file->bytes);
        if (json_array_append_new(list, entry) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Uploads the list of `state`, after its files. */
static enum status put_list(const struct resume_published *state, const struct monitor *monitor, struct error *error)
{
    char sha256[HASH_TEXT], rest[RESUME_OBJECT_DIGITS + 1 + HASH_TEXT];
    json_t *list = describe(state);
    char *text = list != NULL ? written_json(list, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const size_t length = text != NULL ? strlen(text) : 0;
    const int fd = memfd_create("the list of a run's state", MFD_CLOEXEC);
    enum status status = text == NULL ? error_no_memory(error, "the state of a run") : hash_json(list, sha256, error);
    if (status == STATUS_OK && (fd < 0 || write(fd, text, length) != (ssize_t)length))
        status = error_set_errno(error, "cannot make the list of a run's state");
    if (status == STATUS_OK) {
        (void)snprintf(rest, sizeof rest, "%0*" PRId64 "-%s", RESUME_OBJECT_DIGITS, state->number, sha256);
        status = put(&state->place, rest, fd, (int64_t)length, monitor, error);
    }
    if (fd >= 0) (void)close(fd);
    free(text);
    json_decref(list);
    return status;
}

/* Whether `state`, the newest, still needs the object. Objects with other names, or of a later lease, must stay. */
static bool is_needed(const struct resume_published *state, const char *name)
{
    struct resume_object object;
    if (!resume_object_read(name, &object) || object.epoch > state->place.epoch) return true;
    if (object.epoch < state->place.epoch) return false;
    if (object.number > 0) return object.number >= state->number;
    for (int64_t i = 0; i < state->count; i++)
        if (strcmp(state->files[i].sha256, object.sha256) == 0) return true;
    return false;
}

/* A failure only costs space in the bucket until the run ends. */
static void tidy(struct resume_published *state, const struct monitor *monitor)
{
    struct listing listing = {0};
    struct error error;
    const struct resume_place *place = &state->place;
    enum status status = resume_object_list(place->store, place->run, 0, monitor, &listing, &error);
    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++)
        if (!is_needed(state, listing.items[i].name))
            status = resume_object_remove(place->store, place->run, listing.items[i].name, 0, monitor, &error);
    listing_reset(&listing);
    if (status == STATUS_OK || state->untidy) return;
    state->untidy = true;
    monitor_log(monitor, "older states of this run stay in the bucket: %s", error.detail);
}

enum status resume_store_publish(struct resume_published *published, const struct monitor *monitor, bool *done,
                                 struct error *error)
{
    struct resume_published *state = calloc(1, sizeof *state);
    bool alone = false;
    *done = false;
    if (state == NULL) return error_no_memory(error, "the state of a run");
    *state = (struct resume_published){
        .place = published->place, .number = published->number + 1, .untidy = published->untidy};
    enum status status = list_files(&state->place, state->files, &state->count, &alone, error);
    if (status != STATUS_OK || !alone || state->count == 0 || !is_new(published, state)) goto done;
    if ((status = take_files(published, monitor, state, error)) != STATUS_OK) goto done;
    if ((status = put_list(state, monitor, error)) != STATUS_OK) goto done;
    *done = true;
    tidy(state, monitor);
    *published = *state;
done:
    free(state);
    return status;
}

/* ---- removing ---- */

enum status resume_store_remove(const struct artifact_store *store, const char *run, int64_t epoch, double until,
                                struct error *error)
{
    struct listing listing = {0};
    struct resume_object object;
    enum status status = resume_object_list(store, run, until, NULL, &listing, error);
    for (size_t i = 0; status == STATUS_OK && i < listing.count; i++)
        if (resume_object_read(listing.items[i].name, &object) && object.epoch <= epoch)
            status = resume_object_remove(store, run, listing.items[i].name, until, NULL, error);
    listing_reset(&listing);
    return status;
}

/* The length of the run's id in "RUN/LEASE/…", or 0. */
static size_t run_length(const char *name)
{
    struct resume_object object;
    const char *slash = strchr(name, '/');
    return slash != NULL && slash - name < RESUME_OBJECT_NAME && resume_object_read(slash + 1, &object)
               ? (size_t)(slash - name)
               : 0;
}

enum status resume_store_clean(const struct artifact_store *store,
                               enum status (*ended)(void *owner, const char *run, double age, bool *yes,
                                                    struct error *error),
                               void *owner, int *removed, struct error *error)
{
    struct listing listing = {0};
    char run[RESUME_OBJECT_NAME];
    enum status status = artifact_store_list(store, RESUME_OBJECT_FOLDER, 0, NULL, &listing, error);
    for (size_t i = 0, next; status == STATUS_OK && i < listing.count; i = next) {
        const size_t length = run_length(listing.items[i].name);
        double newest = 0;
        bool yes = false;
        next = i + 1;
        if (length == 0) continue;
        (void)snprintf(run, sizeof run, "%.*s", (int)length, listing.items[i].name);
        for (next = i; next < listing.count && strncmp(listing.items[next].name, run, length) == 0 &&
                       run_length(listing.items[next].name) == length;
             next++)
            if (listing.items[next].modified > newest) newest = listing.items[next].modified;
        status = ended(owner, run, listing.time - newest, &yes, error);
        for (size_t k = i; status == STATUS_OK && yes && k < next; k++)
            status = resume_object_remove(store, run, listing.items[k].name + length + 1, 0, NULL, error);
        *removed += yes && status == STATUS_OK;
    }
    listing_reset(&listing);
    return status;
}
