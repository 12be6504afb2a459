#include "watch/watcher.h"

#include "base/clock.h"
#include "base/monitor.h"
#include "log/log.h"
#include "store/trajectories.h"
#include "watch/standing.h"
#include "watch/tree.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The list of watched directories and the needs of standing sweeps are read once a second in any case, because a
 * notification may get lost. */
enum { TICK_MILLISECONDS = 1000 };
/* So many directories have a descriptor for the kernel's notices; the others are polled. The server needs descriptors
 * for its clients, too. */
enum { NOTICES_MOST = 256 };
#define LEAST_SECONDS 0.2 /* least time between two turns, however many notifications come */
/* Reading checkpoints takes up to a second each, so thousands of them in one directory are taken in slices, between
 * which the other directories and the standing sweeps have their turn. */
static const double SLICE_SECONDS = 2;

struct slot {
    struct tree *tree;  /* owned */
    struct store_id id; /* id of its trajectory */
    json_t *state;      /* owned: as last written */
    bool listed;        /* in the list that was read last */
};

struct watcher {
    struct watcher_options options;
    struct connection *connection;
    int stop;               /* eventfd */
    struct monitor monitor; /* ends a request that is under way when the watcher stops */
    pthread_t thread;
    struct standing_looks looks;
    struct slot *slots; /* owned */
    size_t count, capacity;
    size_t next;                                  /* the slot that the next turn begins with */
    char said[sizeof((struct error *)0)->detail]; /* the failure of the last turn, which is in the log; "": none */
    struct pollfd files[NOTICES_MOST + 2];
};

static enum status check_stop(void *owner, struct error *error)
{
    const struct watcher *watcher = owner;
    struct pollfd stop = {.fd = watcher->stop, .events = POLLIN};
    if (poll(&stop, 1, 0) <= 0) return STATUS_OK;
    return error_set(error, STATUS_CANCELLED, "the server stops");
}

/* ---- the list of what is watched ---- */

static void slot_reset(struct slot *slot)
{
    tree_free(slot->tree);
    json_decref(slot->state);
    *slot = (struct slot){0};
}

static bool has_notices(const struct slot *slot)
{
    return tree_descriptor(slot->tree) >= 0;
}

static size_t count_notices(const struct watcher *watcher)
{
    size_t count = 0;
    for (size_t i = 0; i < watcher->count; i++) count += has_notices(&watcher->slots[i]);
    return count;
}

static enum status grow(struct watcher *watcher, struct error *error)
{
    const size_t capacity = watcher->capacity == 0 ? 16 : 2 * watcher->capacity;
    struct slot *larger = realloc(watcher->slots, capacity * sizeof *larger);
    if (larger == NULL) return error_no_memory(error, "the watched directories");
    watcher->slots = larger;
    watcher->capacity = capacity;
    return STATUS_OK;
}

static enum status slot_add(struct watcher *watcher, const char *id, const char *name, const char *path,
                            struct error *error)
{
    const struct tree_options options = {
        .roots = watcher->options.roots,
        .hub = watcher->options.hub,
        .monitor = &watcher->monitor,
        .trajectory = name,
        .path = path,
        .look_seconds = SLICE_SECONDS,
        .quiet_seconds = watcher->options.quiet_seconds,
        .poll_seconds = watcher->options.poll_seconds,
        .poll = count_notices(watcher) >= NOTICES_MOST,
    };
    struct slot slot = {.listed = true};
    enum status status = watcher->count < watcher->capacity ? STATUS_OK : grow(watcher, error);
    if (status == STATUS_OK) status = tree_new(&options, &slot.tree, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(slot.id.text, sizeof slot.id.text, "%s", id);
    watcher->slots[watcher->count++] = slot;
    return STATUS_OK;
}

/* Searches from `from` on, because the list comes in the same order each time. */
static struct slot *slot_find(const struct watcher *watcher, size_t from, const char *id, const char *path)
{
    for (size_t i = 0; i < watcher->count; i++) {
        struct slot *slot = &watcher->slots[(from + i) % watcher->count];
        if (strcmp(slot->id.text, id) == 0 && strcmp(tree_path(slot->tree), path) == 0) return slot;
    }
    return NULL;
}

static enum status list_refresh(struct watcher *watcher, struct error *error)
{
    size_t i, next = 0, kept = 0;
    json_t *list = NULL, *item;
    enum status status = trajectory_watched(watcher->connection, &list, error);
    if (status != STATUS_OK) return status;
    for (size_t k = 0; k < watcher->count; k++) watcher->slots[k].listed = false;
    json_array_foreach(list, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id")),
                   *name = json_string_value(json_object_get(item, "name")),
                   *path = json_string_value(json_object_get(item, "watch"));
        struct slot *slot = slot_find(watcher, next, id, path);
        if (slot != NULL) {
            slot->listed = true;
            next = (size_t)(slot - watcher->slots) + 1;
        } else if (status == STATUS_OK) {
            status = slot_add(watcher, id, name, path, error);
        }
    }
    for (size_t k = 0; k < watcher->count; k++)
        if (watcher->slots[k].listed)
            watcher->slots[kept++] = watcher->slots[k];
        else
            slot_reset(&watcher->slots[k]);
    watcher->count = kept;
    json_decref(list);
    return status;
}

/* ---- looking ---- */

/* The time is asked for again at each look, because the one before may have taken half a minute. */
static enum status slot_look(struct watcher *watcher, struct slot *slot, int64_t *registered, struct error *error)
{
    enum status status = tree_look(slot->tree, watcher->connection, clock_seconds(), registered, error);
    json_t *state = status == STATUS_OK ? tree_state(slot->tree) : NULL;
    if (state == NULL || json_equal(state, slot->state)) {
        json_decref(state);
        return status;
    }
    status = trajectory_set_watch_state(watcher->connection, slot->id.text, tree_path(slot->tree), state, error);
    json_decref(slot->state);
    slot->state = status == STATUS_OK ? state : NULL;
    if (status != STATUS_OK) json_decref(state);
    return status;
}

/* Looks at the slots that are due, in a circle, until a slice is over. */
static enum status look_around(struct watcher *watcher, double now, struct error *error)
{
    enum status status = STATUS_OK;
    int64_t registered = 0;
    const size_t first = watcher->count > 0 ? watcher->next % watcher->count : 0;
    for (size_t i = 0; i < watcher->count && status == STATUS_OK && clock_seconds() < now + SLICE_SECONDS; i++) {
        struct slot *slot = &watcher->slots[(first + i) % watcher->count];
        watcher->next = first + i + 1;
        if (tree_due(slot->tree) <= now) status = slot_look(watcher, slot, &registered, error);
    }
    if (registered > 0) store_notify(watcher->connection);
    return status;
}

/* Says a failure once: a statement that is too slow for its time limit keeps all waiting. */
static void note_failure(struct watcher *watcher, enum status status, const struct error *error)
{
    const bool told = status != STATUS_OK && status != STATUS_CANCELLED;
    if (told && strcmp(error->detail, watcher->said) != 0)
        log_warning(LOG_COMPONENT_SERVE, "watched directories and standing sweeps wait: %s", error->detail);
    (void)snprintf(watcher->said, sizeof watcher->said, "%s", told ? error->detail : "");
}

/* Anything that fails here (the database is unavailable, memory is short) is retried at the next turn. */
static double turn(struct watcher *watcher, double now)
{
    struct error error;
    bool more = false;
    double due = now + 1e-3 * TICK_MILLISECONDS;
    enum status status = list_refresh(watcher, &error);
    if (status == STATUS_OK) status = look_around(watcher, now, &error);
    for (size_t i = 0; i < watcher->count; i++) due = fmin(due, tree_due(watcher->slots[i].tree));
    if (status == STATUS_OK)
        status = standing_extend(watcher->connection, watcher->options.roots, watcher->options.data_directory,
                                 watcher->options.queued_most, &watcher->looks, &more, &error);
    note_failure(watcher, status, &error);
    return status != STATUS_OK ? now + 1e-3 * TICK_MILLISECONDS : more ? now : due;
}

/* What to wait for: the stop, the database, then the trees with notices. */
static nfds_t gather(struct watcher *watcher)
{
    nfds_t count = 0;
    watcher->files[count++] = (struct pollfd){.fd = watcher->stop, .events = POLLIN};
    watcher->files[count++] = (struct pollfd){.fd = connection_socket(watcher->connection), .events = POLLIN};
    for (size_t i = 0; i < watcher->count; i++)
        if (has_notices(&watcher->slots[i]))
            watcher->files[count++] = (struct pollfd){.fd = tree_descriptor(watcher->slots[i].tree), .events = POLLIN};
    return count;
}

static void hear(struct watcher *watcher)
{
    const struct pollfd *file = &watcher->files[1];
    if (file->revents != 0) (void)connection_notified(watcher->connection);
    for (size_t i = 0; i < watcher->count; i++)
        if (has_notices(&watcher->slots[i]) && (++file)->revents != 0) tree_touched(watcher->slots[i].tree);
}

static void *watch(void *context)
{
    struct watcher *watcher = context;
    for (double due = 0, last = 0;;) {
        double wait = due - clock_seconds();
        const nfds_t count = gather(watcher);
        wait = fmax(0, fmin(1e3 * wait, TICK_MILLISECONDS));
        (void)poll(watcher->files, count, (int)ceil(wait));
        if (watcher->files[0].revents != 0) return NULL;
        hear(watcher);
        wait = last + LEAST_SECONDS - clock_seconds();
        if (wait > 0 && poll(watcher->files, 1, (int)ceil(1e3 * wait)) > 0) return NULL;
        last = clock_seconds();
        due = turn(watcher, last);
    }
}

enum status watcher_start(const struct watcher_options *options, struct watcher **out, struct error *error)
{
    struct watcher *watcher = calloc(1, sizeof *watcher);
    enum status status;
    *out = NULL;
    if (watcher == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    watcher->options = *options;
    watcher->monitor = (struct monitor){.owner = watcher, .check = check_stop};
    watcher->stop = eventfd(0, EFD_CLOEXEC);
    status = watcher->stop < 0 ? error_set_errno(error, "making an event descriptor")
                               : connection_new(options->conninfo, "deltaq watch", &watcher->connection, error);
    if (status == STATUS_OK) status = connection_listen(watcher->connection, STORE_CHANNEL, error);
    if (status == STATUS_OK && (errno = pthread_create(&watcher->thread, NULL, watch, watcher)) != 0)
        status = error_set_errno(error, "starting a thread");
    if (status == STATUS_OK) {
        *out = watcher;
        return STATUS_OK;
    }
    connection_free(watcher->connection);
    if (watcher->stop >= 0) (void)close(watcher->stop);
    free(watcher);
    return status;
}

void watcher_stop(struct watcher *watcher)
{
    if (watcher == NULL) return;
    (void)eventfd_write(watcher->stop, 1);
    (void)pthread_join(watcher->thread, NULL);
    for (size_t i = 0; i < watcher->count; i++) slot_reset(&watcher->slots[i]);
    free(watcher->slots);
    standing_looks_reset(&watcher->looks);
    connection_free(watcher->connection);
    (void)close(watcher->stop);
    free(watcher);
}
