#include "hub/fetch.h"

#include "hub/bucket_files.h"
#include "hub/download.h"
#include "hub/repository.h"
#include "hub/selection.h"
#include "hub/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Small numbers: while the hub is unavailable a run does not hold its worker, but returns to the queue and is retried.
 * Downloaded bytes are kept. */
enum { REQUEST_SECONDS = 120, ASK_TRIES = 2, DOWNLOAD_TRIES = 6 };
static const double LONGEST_WAIT_SECONDS = 5;
/* Short, because a plan or a question holds a handler thread of the server. */
enum { PLAN_SECONDS = 15 };

/* ---- the files of a snapshot ---- */

struct manifest {
    struct repository_file *files; /* owned */
    size_t count;
    int64_t missing; /* bytes */
};

static struct repository_caller caller_of(const struct fetch_request *request, int seconds)
{
    return (struct repository_caller){
        .hub = request->hub,
        .asking = {
            .monitor = request->monitor, .seconds = seconds, .tries = ASK_TRIES, .longest_wait = LONGEST_WAIT_SECONDS}};
}

static enum status list_all(const struct fetch_request *request, const char *commit, int seconds,
                            struct repository_file **files, size_t *count, struct error *error)
{
    const struct repository_caller caller = caller_of(request, seconds);
    bool deep = false;
    for (size_t i = 0; i < request->file_count; i++) deep = deep || strchr(request->files[i], '/') != NULL;
    return objects_place_is(request->repo)
               ? bucket_files_list(&caller, request->repo, deep, files, count, error)
               : repository_files(&caller, request->repo, commit, deep, files, count, error);
}

/* Lists the files of `commit`; of a bucket the present ones, whose commit is `found`. */
static enum status list_selected(const struct fetch_request *request, const char *commit, int seconds,
                                 struct manifest *out, char found[NAMES_COMMIT], struct error *error)
{
    size_t count = 0;
    enum status status = list_all(request, commit, seconds, &out->files, &count, error);
    if (status == STATUS_OK)
        status = selection_make(out->files, count, request->files, request->file_count, &out->count, error);
    if (status == STATUS_OK && objects_place_is(request->repo))
        status = bucket_files_commit(out->files, out->count, found, error);
    return status;
}

static enum status commit_find(const struct fetch_request *request, int seconds, char out[NAMES_COMMIT],
                               struct error *error)
{
    const struct repository_caller caller = caller_of(request, seconds);
    struct manifest manifest = {0};
    enum status status = STATUS_OK;
    if (request->commit != NULL)
        (void)snprintf(out, NAMES_COMMIT, "%s", request->commit);
    else if (objects_place_is(request->repo))
        status = list_selected(request, NULL, seconds, &manifest, out, error);
    else
        status = repository_commit(&caller, request->repo, request->revision, out, error);
    free(manifest.files);
    return status;
}

static enum status list(const struct fetch_request *request, const char *commit, int seconds, struct manifest *out,
                        struct error *error)
{
    char found[NAMES_COMMIT] = "";
    const enum status status = list_selected(request, commit, seconds, out, found, error);
    if (status != STATUS_OK || found[0] == '\0' || strcmp(found, commit) == 0) return status;
    return error_set(
        error, STATUS_INPUT_CHANGED,
        "%.300s: its objects are not the registered ones (other names, ETags or sizes): register them under"
        " another name",
        request->repo);
}

/* How many bytes of an unfinished file an earlier try has downloaded. */
static int64_t partly_there(const struct hub_cache *cache, const struct repository_file *file)
{
    struct stat found;
    if (fstatat(cache->partial, file->oid, &found, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    const int64_t there = (int64_t)found.st_blocks * 512;
    return there < file->bytes ? there : file->bytes;
}

/* Links the files that are in the cache, and moves the missing ones to the front of the list. */
static enum status link_known(const struct hub_cache *cache, const struct hub_cache_hold *hold,
                              struct manifest *manifest, size_t *absent, struct error *error)
{
    enum status status = STATUS_OK;
    *absent = 0;
    for (size_t i = 0; i < manifest->count && status == STATUS_OK; i++) {
        bool found = false;
        const struct repository_file file = manifest->files[i];
        status = hub_cache_link(hold, file.oid, file.bytes, file.name, &found, error);
        if (status != STATUS_OK || found) continue;
        manifest->missing += file.bytes - partly_there(cache, &file);
        manifest->files[i] = manifest->files[*absent];
        manifest->files[(*absent)++] = file;
    }
    return status;
}

/* Downloads the first `absent` files of the manifest. */
static enum status download(const struct fetch_request *request, const char *commit, const struct hub_cache *cache,
                            const struct hub_cache_hold *hold, struct manifest *manifest, size_t absent, int64_t *came,
                            struct error *error)
{
    struct source_of_hub hub;
    struct source_of_bucket bucket;
    const struct repository_caller caller = caller_of(request, REQUEST_SECONDS);
    const bool of_bucket = objects_place_is(request->repo);
    enum status status = STATUS_OK;
    source_of_hub_init(&hub, request->hub, request->repo, commit);
    if (of_bucket) status = source_of_bucket_init(&bucket, request->hub, request->repo, error);
    for (size_t i = 0; of_bucket && status == STATUS_OK && i < absent; i++)
        status = bucket_files_ask_check(&caller, request->repo, &manifest->files[i], error);
    const struct download_request download = {.source = of_bucket ? &bucket.source : &hub.source,
                                              .files = manifest->files,
                                              .count = absent,
                                              .cache = cache,
                                              .hold = hold,
                                              .monitor = request->monitor,
                                              .tries = DOWNLOAD_TRIES,
                                              .longest_wait = LONGEST_WAIT_SECONDS};
    return status == STATUS_OK ? download_run(&download, came, error) : status;
}

static enum status make(const struct fetch_request *request, const char *commit, const struct hub_cache *cache,
                        const struct hub_cache_hold *hold, int64_t *came, struct error *error)
{
    enum status status;
    struct manifest manifest = {0};
    size_t absent = 0;
    if ((status = list(request, commit, REQUEST_SECONDS, &manifest, error)) != STATUS_OK) goto done;
    if ((status = hub_cache_begin(hold, error)) != STATUS_OK) goto done;
    if ((status = link_known(cache, hold, &manifest, &absent, error)) != STATUS_OK) goto done;
    monitor_log(request->monitor, "%s@%.10s: %zu files, %zu of them, %.1f MiB, are to be fetched", request->repo,
                commit, manifest.count, absent, (double)manifest.missing / (1 << 20));
    const struct eviction_request space = {.hold = hold,
                                           .files = manifest.files,
                                           .count = absent,
                                           .needs = request->needs,
                                           .need_count = request->need_count,
                                           .monitor = request->monitor};
    status = eviction_make_space(cache, &space, error);
    if (status != STATUS_OK) goto done;
    status = download(request, commit, cache, hold, &manifest, absent, came, error);
    if (status != STATUS_OK) goto done;
    status = hub_cache_publish(hold, error);
done:
    free(manifest.files);
    return status;
}

/* ---- the result ---- */

/* The length of the longest directory that all names share, with its slash. */
static size_t common_directory(const char *const *files, size_t count)
{
    size_t common = 0, end = count > 0 ? strlen(files[0]) : 0;
    for (size_t i = 1; i < count; i++) {
        size_t same = 0;
        while (same < end && files[i][same] == files[0][same]) same++;
        end = same;
    }
    for (size_t i = 0; i < end; i++)
        if (files[0][i] == '/') common = i + 1;
    return common;
}

static enum status describe(const struct fetch_request *request, struct fetch_result *out, struct error *error)
{
    const size_t common = common_directory(request->files, request->file_count);
    const int length =
        snprintf(out->path, sizeof out->path, "%s%s%.*s", hub_cache_path(out->hold), common > 0 ? "/" : "",
                 common > 0 ? (int)common - 1 : 0, request->file_count > 0 ? request->files[0] : "");
    if (length >= (int)sizeof out->path)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    out->bytes = hub_cache_bytes(out->hold);
    return STATUS_OK;
}

/* Repeats until the snapshot is made and held, because it may be evicted between the two. */
static enum status take(const struct fetch_request *request, const struct hub_cache *cache, const char *key,
                        struct fetch_result *out, struct error *error)
{
    const struct monitor waits = {0};
    const struct monitor *monitor = request->monitor != NULL ? request->monitor : &waits;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && out->hold == NULL) {
        struct hub_cache_hold *hold = NULL;
        if ((status = hub_cache_take(cache, key, monitor, &out->hold, error)) != STATUS_OK || out->hold != NULL) break;
        if ((status = hub_cache_take_to_make(cache, key, monitor, &hold, error)) == STATUS_OK && hold != NULL)
            status = make(request, out->commit, cache, hold, &out->came, error);
        hub_cache_release(hold);
    }
    return status;
}

enum status fetch_run(const struct fetch_request *request, struct fetch_result *out, struct error *error)
{
    struct hub_cache *cache = NULL;
    *out = (struct fetch_result){0};
    enum status status = commit_find(request, REQUEST_SECONDS, out->commit, error);
    if (status == STATUS_OK)
        status = hub_cache_key(request->repo, out->commit, request->files, request->file_count, out->key, error);
    if (status == STATUS_OK) status = hub_cache_open(request->hub->directory, request->hub->cache_bytes, &cache, error);
    if (status == STATUS_OK) status = take(request, cache, out->key, out, error);
    if (status == STATUS_OK) status = describe(request, out, error);
    if (status != STATUS_OK) {
        hub_cache_release(out->hold);
        out->hold = NULL;
    }
    hub_cache_close(cache);
    return status;
}

enum status fetch_find(const char *directory, const struct fetch_request *request, struct fetch_result *out,
                       struct error *error)
{
    struct hub_cache *cache = NULL;
    *out = (struct fetch_result){0};
    (void)snprintf(out->commit, sizeof out->commit, "%s", request->commit);
    enum status status =
        hub_cache_key(request->repo, out->commit, request->files, request->file_count, out->key, error);
    if (status == STATUS_OK) status = hub_cache_open(directory, 0, &cache, error);
    if (status == STATUS_OK) status = hub_cache_take(cache, out->key, NULL, &out->hold, error);
    if (status == STATUS_OK && out->hold != NULL) status = describe(request, out, error);
    if (status != STATUS_OK) {
        hub_cache_release(out->hold);
        out->hold = NULL;
    }
    hub_cache_close(cache);
    return status;
}

enum status fetch_commit(const struct fetch_request *request, char out[NAMES_COMMIT], struct error *error)
{
    enum status status = hub_enter(request->hub, error);
    if (status != STATUS_OK) return status;
    status = commit_find(request, PLAN_SECONDS, out, error);
    hub_leave(request->hub);
    return status;
}

/* ---- the plan ---- */

/* Downloaded bytes are written, and read once more for their hash; a file that is partly there is read as a whole. */
static enum status plan_files(const struct hub_cache *cache, const struct manifest *manifest, struct run_plan *out,
                              struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < manifest->count && status == STATUS_OK; i++) {
        const struct repository_file *file = &manifest->files[i];
        bool found = false;
        status = hub_cache_has(cache, file->oid, file->bytes, &found, error);
        if (status != STATUS_OK || found) continue;
        out->read_bytes += file->bytes;
        out->fetched_bytes += file->bytes - partly_there(cache, file);
    }
    out->written_bytes = out->fetched_bytes;
    plan_take(out, PLAN_DISK, out->fetched_bytes);
    return status;
}

/* Plans the missing files. The hub is not asked about a commit that the cache has. */
static enum status plan_absent(const struct fetch_request *request, const struct hub_cache *cache, struct run_plan *out,
                               struct error *error)
{
    char key[HUB_CACHE_KEY], commit[NAMES_COMMIT];
    struct hub_cache_hold *hold = NULL;
    struct manifest manifest = {0};
    enum status status = commit_find(request, PLAN_SECONDS, commit, error);
    if (status == STATUS_OK)
        status = hub_cache_key(request->repo, commit, request->files, request->file_count, key, error);
    if (status == STATUS_OK) status = hub_cache_take(cache, key, NULL, &hold, error);
    if (status == STATUS_OK && hold == NULL) status = list(request, commit, PLAN_SECONDS, &manifest, error);
    if (status == STATUS_OK && hold == NULL) status = plan_files(cache, &manifest, out, error);
    hub_cache_release(hold);
    free(manifest.files);
    return status;
}

enum status fetch_plan(const struct fetch_request *request, int64_t *available, struct run_plan *out,
                       struct error *error)
{
    struct hub_cache *cache = NULL;
    *out = (struct run_plan){.flops = 0};
    *available = 0;
    enum status status = hub_enter(request->hub, error);
    if (status != STATUS_OK) return status;
    status = hub_cache_open(request->hub->directory, request->hub->cache_bytes, &cache, error);
    if (status == STATUS_OK) status = eviction_most(cache, available, error);
    if (status == STATUS_OK) status = plan_absent(request, cache, out, error);
    hub_leave(request->hub);
    if (status == STATUS_OK) {
        plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES);
        status = eviction_check(cache, out->fetched_bytes, error);
    }
    hub_cache_close(cache);
    return status;
}
