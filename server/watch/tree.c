#include "watch/tree.h"

#include "base/clock.h"
#include "inputs/roots.h"
#include "store/checkpoints.h"
#include "watch/bucket_scan.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    SHOWN = 20,
    SAFETY_FACTOR = 12,
    LIST_SECONDS = 15,
    LIST_TRIES = 2,
    BACKOFF_MOST = 16,
    FAILURES_MOST = 16,
    TRIES_MOST = 6
};
#define LEAST_SECONDS 0.25 /* least time between two looks, however many notices come */

enum candidate_state { CANDIDATE_PENDING, CANDIDATE_REGISTERED, CANDIDATE_FAILED };

struct candidate {
    char *path, *detail; /* owned */
    uint64_t signature;
    double since; /* when this signature was first seen, or last tried in vain */
    enum candidate_state state;
    int tries; /* that failed for a reason which may pass, up to TRIES_MOST */
    bool seen; /* seen in the current look */
};

struct tree {
    struct tree_options options;
    char *trajectory, *path; /* owned */
    char top[PATH_MAX];      /* canonical; "" while the directory is missing */
    char trouble[240];
    int notices; /* inotify; -1: none */
    bool touched, polling;
    double due;
    struct candidate *candidates; /* owned */
    size_t count, capacity, hint;
    bool of_bucket;
    int failures;   /* consecutive looks at a bucket that did not answer, up to FAILURES_MOST */
    json_t *listed; /* owned: for a bucket, the result of the last look (bucket_scan_register) */
    bool known;     /* the registered checkpoints were read from the database */
    /* State of the current scan. */
    struct connection *connection;
    double now, until; /* when the scan began, and from when on it opens no further checkpoint */
    bool opened, more; /* whether it has opened one, and whether one is left for the next look */
    int64_t registered;
};

/* ---- its life ---- */

enum status tree_new(const struct tree_options *options, struct tree **out, struct error *error)
{
    struct tree *tree = calloc(1, sizeof *tree);
    *out = NULL;
    if (tree == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a watched directory");
    tree->options = *options;
    tree->trajectory = strdup(options->trajectory);
    tree->path = strdup(options->path);
    tree->of_bucket = objects_place_is(options->path);
    tree->polling = options->poll || tree->of_bucket;
    tree->notices = tree->polling ? -1 : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (tree->notices < 0) tree->polling = true;
    if (tree->trajectory == NULL || tree->path == NULL) {
        tree_free(tree);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a watched directory");
    }
    *out = tree;
    return STATUS_OK;
}

static void candidate_reset(struct candidate *candidate)
{
    free(candidate->path);
    free(candidate->detail);
}

void tree_free(struct tree *tree)
{
    if (tree == NULL) return;
    for (size_t i = 0; i < tree->count; i++) candidate_reset(&tree->candidates[i]);
    free(tree->candidates);
    json_decref(tree->listed);
    free(tree->trajectory);
    free(tree->path);
    if (tree->notices >= 0) (void)close(tree->notices);
    free(tree);
}

const char *tree_path(const struct tree *tree)
{
    return tree->path;
}

int tree_descriptor(const struct tree *tree)
{
    return tree->polling ? -1 : tree->notices;
}

void tree_touched(struct tree *tree)
{
    char events[4096];
    while (read(tree->notices, events, sizeof events) > 0) continue; /* the contents of events do not matter */
    tree->touched = true;
}

double tree_due(const struct tree *tree)
{
    return tree->touched ? fmin(tree->due, tree->now + LEAST_SECONDS) : tree->due;
}

/* ---- when the kernel cannot tell ---- */

/* File systems on which other machines write without a notice here: NFS, CIFS and SMB, Lustre, GPFS, Ceph, BeeGFS,
 * FUSE, 9p. */
static bool is_remote(const char *path)
{
    static const unsigned long remote[] = {0x6969,     0xFF534D42, 0xFE534D42, 0x517B,     0x0BD00BD0,
                                           0x47504653, 0x00C36400, 0x19830326, 0x65735546, 0x01021997};
    struct statfs found;
    if (statfs(path, &found) != 0) return false;
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if (((unsigned long)found.f_type & 0xFFFFFFFFul) == remote[i]) return true;
    return false;
}

/* Watching a directory twice is one watch. When no more watches can be made, polling remains. */
static void listen_at(void *context, const char *path)
{
    struct tree *tree = context;
    const uint32_t events =
        IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR;
    if (!tree->polling && inotify_add_watch(tree->notices, path, events) < 0) tree->polling = true;
}

/* A descriptor that tells nothing is not kept: the server has only so many. */
static void stop_listening(struct tree *tree)
{
    if (tree->notices >= 0) (void)close(tree->notices);
    tree->notices = -1;
}

/* ---- candidates ---- */

/* Searches from the last result on, because walks visit directories in the same order each time. */
static struct candidate *candidate_find(struct tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->count; i++) {
        const size_t at = (tree->hint + i) % tree->count;
        if (strcmp(tree->candidates[at].path, path) != 0) continue;
        tree->hint = at + 1;
        return &tree->candidates[at];
    }
    return NULL;
}

static struct candidate *candidate_new(struct tree *tree, const char *path)
{
    if (tree->count == tree->capacity) {
        const size_t capacity = tree->capacity == 0 ? 64 : 2 * tree->capacity;
        struct candidate *larger = realloc(tree->candidates, capacity * sizeof *larger);
        if (larger == NULL) return NULL;
        tree->candidates = larger;
        tree->capacity = capacity;
    }
    struct candidate *made = &tree->candidates[tree->count];
    *made = (struct candidate){.path = strdup(path), .since = tree->now};
    if (made->path == NULL) return NULL;
    tree->count++;
    return made;
}

static void candidate_is(struct candidate *candidate, enum candidate_state state, const char *detail)
{
    free(candidate->detail);
    candidate->detail = detail != NULL ? strdup(detail) : NULL;
    candidate->state = state;
}

/* How long its files must have been as they are; longer after each try that failed. */
static double candidate_rest(const struct tree *tree, const struct candidate *candidate)
{
    const double quiet = tree->options.quiet_seconds;
    return candidate->tries == 0 ? quiet : ldexp(fmax(quiet, LEAST_SECONDS), candidate->tries);
}

/* Reading failed for a reason that may pass: a disk error, no descriptors. */
static void candidate_retry(struct tree *tree, struct candidate *candidate, const char *detail)
{
    candidate->tries += candidate->tries < TRIES_MOST;
    candidate->since = tree->now;
    candidate_is(candidate, CANDIDATE_PENDING, detail);
}

static enum status candidate_register(struct tree *tree, struct candidate *candidate, struct error *error)
{
    const struct scan_place place = {tree->options.roots, tree->trajectory, tree->top, tree->options.monitor};
    enum store_outcome outcome;
    json_t *document = NULL;
    tree->opened = true;
    const enum status status = scan_register(tree->connection, &place, candidate->path, &outcome, &document, error);
    json_decref(document);
    if (scan_ends_with(status)) return status;
    if (status_info(status)->retry) {
        candidate_retry(tree, candidate, error->detail);
        return STATUS_OK;
    }
    candidate_is(candidate, status == STATUS_OK ? CANDIDATE_REGISTERED : CANDIDATE_FAILED,
                 status == STATUS_OK ? NULL : error->detail);
    if (status == STATUS_OK && outcome == STORE_CREATED) tree->registered++;
    return STATUS_OK;
}

static enum status found(void *context, const char *path, struct error *error)
{
    struct tree *tree = context;
    uint64_t signature;
    double newest;
    struct candidate *candidate = candidate_find(tree, path);
    if (candidate == NULL && tree->count >= SCAN_MOST) {
        (void)snprintf(tree->trouble, sizeof tree->trouble,
                       "more than %d checkpoints below it: watch smaller directories", SCAN_MOST);
        return STATUS_OK;
    }
    if (candidate == NULL) candidate = candidate_new(tree, path);
    if (candidate == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a watched directory");
    candidate->seen = true;
    if (candidate->state == CANDIDATE_REGISTERED || !scan_signature(path, &signature, &newest)) return STATUS_OK;
    if (signature != candidate->signature) {
        candidate->signature = signature;
        candidate->since = tree->now;
        candidate->tries = 0;
        candidate_is(candidate, CANDIDATE_PENDING, NULL);
    }
    if (candidate->state == CANDIDATE_FAILED || tree->now - candidate->since < candidate_rest(tree, candidate))
        return STATUS_OK;
    if (tree->opened && clock_seconds() >= tree->until) {
        tree->more = true;
        return STATUS_OK;
    }
    return candidate_register(tree, candidate, error);
}

static void forget_gone(struct tree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->candidates[i].seen)
            tree->candidates[kept++] = tree->candidates[i];
        else
            candidate_reset(&tree->candidates[i]);
    tree->count = kept;
}

/* Checkpoints that were registered before this server started are not read again. */
static enum status learn(struct tree *tree, struct error *error)
{
    struct checkpoint *rows = NULL;
    size_t count = 0;
    enum status status = checkpoint_of_trajectory(tree->connection, tree->trajectory, &rows, &count, error);
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        struct candidate *candidate = rows[i].path[0] != '\0' ? candidate_new(tree, rows[i].path) : NULL;
        if (candidate != NULL) candidate->state = CANDIDATE_REGISTERED;
    }
    free(rows);
    tree->known = status == STATUS_OK;
    return status;
}

/* ---- a look ---- */

static bool waiting(const struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->candidates[i].state == CANDIDATE_PENDING) return true;
    return false;
}

static double rest(const struct tree *tree)
{
    if (tree->more) return 0;
    if (waiting(tree)) return fmin(fmax(0.5 * tree->options.quiet_seconds, LEAST_SECONDS), 1);
    return tree->polling || tree->top[0] == '\0' ? tree->options.poll_seconds
                                                 : SAFETY_FACTOR * tree->options.poll_seconds;
}

/* A bucket that does not answer is listed less and less often: each look may take half a minute, for which all other
 * trees wait. */
static double bucket_rest(const struct tree *tree)
{
    const bool soon = json_array_size(json_object_get(tree->listed, "pending")) > 0;
    const double usual = SAFETY_FACTOR * tree->options.poll_seconds, first = soon ? tree->options.poll_seconds : usual;
    return tree->failures == 0 ? first : fmin(ldexp(first, tree->failures - 1), BACKOFF_MOST * usual);
}

/* A refusal of the server, or its absence, is shown in the state. */
static enum status look_at_bucket(struct tree *tree, double now, struct error *error)
{
    const struct bucket_scan_request request = {
        .caller = {.hub = tree->options.hub,
                   .asking = {.monitor = tree->options.monitor,
                              .seconds = LIST_SECONDS,
                              .tries = LIST_TRIES,
                              .longest_wait = 1}},
        .trajectory = tree->trajectory,
        .place = tree->path,
        .quiet_seconds = tree->options.quiet_seconds,
        .may_be_empty = true,
    };
    struct bucket_scan_found *found = NULL;
    struct error cause;
    json_t *listed = NULL;
    const enum status looked = bucket_scan_look(&request, &found, &cause);
    (void)snprintf(tree->top, sizeof tree->top, "%s", looked == STATUS_OK ? tree->path : "");
    if (looked != STATUS_OK) (void)snprintf(tree->trouble, sizeof tree->trouble, "%.230s", cause.detail);
    tree->failures = looked == STATUS_OK ? 0 : tree->failures < FAILURES_MOST ? tree->failures + 1 : FAILURES_MOST;
    enum status status =
        looked == STATUS_OK ? bucket_scan_register(tree->connection, &request, found, &listed, error) : STATUS_OK;
    bucket_scan_free(found);
    if (status != STATUS_OK && !status_info(status)->retry)
        (void)snprintf(tree->trouble, sizeof tree->trouble, "%.230s", error->detail);
    if (status == STATUS_OK) {
        tree->registered = (int64_t)json_array_size(json_object_get(listed, "registered"));
        json_decref(tree->listed);
        tree->listed = listed;
    }
    tree->due = now + (status == STATUS_OK ? bucket_rest(tree) : tree->options.poll_seconds);
    return status;
}

/* The first that is tried again, where there is no other trouble. */
static void tell_retried(struct tree *tree)
{
    char name[PATH_MAX];
    for (size_t i = 0; i < tree->count && tree->trouble[0] == '\0'; i++) {
        const struct candidate *candidate = &tree->candidates[i];
        if (candidate->state != CANDIDATE_PENDING || candidate->detail == NULL) continue;
        scan_name(tree->top, candidate->path, name, sizeof name);
        (void)snprintf(tree->trouble, sizeof tree->trouble, "%.80s is tried again: %.130s", name, candidate->detail);
    }
}

static enum status look_at_files(struct tree *tree, double now, struct error *error)
{
    const struct scan_visitor visitor = {
        .context = tree, .found = found, .directory = listen_at, .monitor = tree->options.monitor};
    struct error cause;
    enum status status = STATUS_OK;
    if (roots_resolve(tree->options.roots, tree->path, "", tree->top, sizeof tree->top, &cause) != STATUS_OK) {
        tree->top[0] = '\0';
        (void)snprintf(tree->trouble, sizeof tree->trouble, "%.230s", cause.detail);
    } else {
        tree->polling = tree->polling || is_remote(tree->top);
        if (!tree->known) status = learn(tree, error);
        for (size_t i = 0; i < tree->count; i++) tree->candidates[i].seen = false;
        if (status == STATUS_OK) status = scan_walk(tree->options.roots, tree->top, &visitor, error);
        if (status == STATUS_OK) forget_gone(tree);
        tell_retried(tree);
    }
    if (tree->polling) stop_listening(tree);
    tree->due = now + (status == STATUS_OK ? rest(tree) : 1);
    return status;
}

enum status tree_look(struct tree *tree, struct connection *connection, double now, int64_t *registered,
                      struct error *error)
{
    const double began = clock_seconds();
    tree->connection = connection;
    tree->now = now;
    tree->until = began + tree->options.look_seconds;
    tree->opened = tree->more = false;
    tree->registered = 0;
    tree->touched = false;
    tree->trouble[0] = '\0';
    const enum status status = tree->of_bucket ? look_at_bucket(tree, now, error) : look_at_files(tree, now, error);
    const double took = clock_seconds() - began;
    tree->now += took;
    tree->due += took;
    *registered += tree->registered;
    return status;
}

/* Copies the first entries of a list for the state; of objects only path and detail. */
static void show(const json_t *list, json_t *out)
{
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        if (index >= SHOWN) return;
        (void)json_array_append_new(out, json_is_string(item)
                                             ? json_incref(item)
                                             : json_pack("{sO sO}", "path", json_object_get(item, "path"), "detail",
                                                         json_object_get(item, "detail")));
    }
}

json_t *tree_state(const struct tree *tree)
{
    json_t *pending = json_array(), *failed = json_array();
    char name[PATH_MAX];
    for (size_t i = 0; i < tree->count && tree->top[0] != '\0'; i++) {
        const struct candidate *candidate = &tree->candidates[i];
        scan_name(tree->top, candidate->path, name, sizeof name);
        if (candidate->state == CANDIDATE_PENDING && json_array_size(pending) < SHOWN)
            (void)json_array_append_new(pending, json_string(name));
        if (candidate->state == CANDIDATE_FAILED && json_array_size(failed) < SHOWN)
            (void)json_array_append_new(failed, json_pack("{ss ss}", "path", name, "detail",
                                                          candidate->detail != NULL ? candidate->detail : ""));
    }
    show(json_object_get(tree->listed, "pending"), pending);
    show(json_object_get(tree->listed, "failed"), failed);
    return json_pack("{ss ss? so so}", "mode",
                     tree->top[0] == '\0' ? "away"
                     : tree->polling      ? "poll"
                                          : "inotify",
                     "detail", tree->trouble[0] != '\0' ? tree->trouble : NULL, "pending", pending, "failed", failed);
}
