#include "hub/download.h"

#include "base/clock.h"
#include "hub/ranges.h"
#include "transfer/backoff.h"
#include "transfer/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread, one loop: it starts requests in free slots, lets curl transfer bytes, hashes some of those that are
 * there, and checks the monitor. */
enum {
    SLOTS = 8,
    MOVES_MOST = 5,
    WRONG_MOST = 2,
    POLL_MILLISECONDS = 200,
    HASH_BYTES = 16 << 20,
    PROGRESS_BYTES = 64 << 10
};
static const double BUSY_SECONDS = 0.25;

enum route { ROUTE_UNKNOWN, ROUTE_KNOWN }; /* whether the hub has told where the file's bytes are */
enum stage { STAGE_WAITING, STAGE_OPEN, STAGE_DONE };

struct wanted {
    const struct repository_file *file; /* lent */
    enum stage stage;
    struct ranges *ranges; /* owned while open */
    bool *busy;            /* [ranges], owned: a request is under way */
    char *location;        /* owned; NULL: the hub itself */
    enum route route;
    bool said;  /* that another process has it */
    bool whole; /* the server does not support ranges: one request for the whole file */
    int requests, moves, wrong;
    int failures; /* tries that failed */
    struct backoff backoff;
    double not_before;
};

struct slot {
    struct download *download;
    struct transfer *transfer; /* owned; NULL: free */
    struct wanted *wanted;
    int range;
    int64_t at; /* offset of the next byte */
    int64_t came;
    int failures; /* of the file when the request began */
    bool moved;   /* the request is for an address that the hub told */
    bool checked, away, no_ranges;
    enum status status; /* the status of the sink */
    struct error error;
};

struct download {
    const struct download_request *request;
    CURLM *multi;
    struct wanted *wanted; /* [request->count], owned */
    struct slot slots[SLOTS];
    int64_t total, came;
    double not_before; /* the hub asked to wait until then with all requests */
};

/* ---- received bytes ---- */

/* Checks that the head belongs to the requested file, unless another server (after a redirect) answers. */
static enum status check_head(const struct slot *slot, const struct transfer_head *head, struct error *error)
{
    const struct source *source = slot->download->request->source;
    return slot->away ? STATUS_OK : source->check(source, slot->wanted->file, head, error);
}

/* Checks that the following bytes belong to the requested range. */
static enum status check_range(struct slot *slot, const struct transfer_head *head, struct error *error)
{
    const struct repository_file *file = slot->wanted->file;
    const bool ranged = !slot->wanted->whole && (slot->at > 0 || ranges_count(slot->wanted->ranges) > 1);
    if (head->status == 206 && (head->range_first != slot->at || head->range_total != file->bytes))
        return error_set(error, STATUS_CORRUPT, "%.200s: the server answers with another range than was asked for",
                         file->name);
    if (head->status == 200 && ranged) {
        slot->no_ranges = true;
        return error_set(error, STATUS_CORRUPT, "%.200s: the server knows no ranges", file->name);
    }
    if (head->status == 200 && head->length >= 0 && head->length != file->bytes)
        return error_set(error, STATUS_CORRUPT, "%.200s: %lld bytes are announced, %lld are sent", file->name,
                         (long long)file->bytes, (long long)head->length);
    return STATUS_OK;
}

static bool sink(void *owner, const struct transfer_head *head, const char *bytes, size_t length)
{
    struct slot *slot = owner;
    if (!slot->checked) {
        slot->status = check_head(slot, head, &slot->error);
        if (slot->status == STATUS_OK) slot->status = check_range(slot, head, &slot->error);
        slot->checked = true;
    }
    while (slot->status == STATUS_OK && length > 0) {
        const int range = slot->wanted->whole ? (int)(slot->at / RANGES_BYTES) : slot->range;
        const int64_t left = (int64_t)(range + 1) * RANGES_BYTES - slot->at;
        const size_t part = slot->wanted->whole && (int64_t)length > left ? (size_t)left : length;
        if (range >= ranges_count(slot->wanted->ranges))
            slot->status = error_set(&slot->error, STATUS_CORRUPT, "the server sends more bytes than it announced");
        else
            slot->status = ranges_write(slot->wanted->ranges, range, bytes, part, &slot->error);
        if (slot->status != STATUS_OK) break;
        slot->at += (int64_t)part;
        slot->came += (int64_t)part;
        slot->download->came += (int64_t)part;
        bytes += part;
        length -= part;
    }
    return slot->status == STATUS_OK;
}

/* ---- slots ---- */

static void slot_free(struct slot *slot)
{
    if (slot->transfer == NULL) return;
    (void)curl_multi_remove_handle(slot->download->multi, slot->transfer->easy);
    transfer_free(slot->transfer);
    slot->transfer = NULL;
    slot->wanted->requests--;
    if (!slot->wanted->whole) slot->wanted->busy[slot->range] = false;
}

/* Ends all requests for a file and starts it from its first byte. */
static enum status begin_again(struct download *download, struct wanted *wanted, struct error *error)
{
    for (int i = 0; i < SLOTS; i++)
        if (download->slots[i].transfer != NULL && download->slots[i].wanted == wanted) slot_free(&download->slots[i]);
    memset(wanted->busy, 0, (size_t)ranges_count(wanted->ranges) * sizeof *wanted->busy);
    return ranges_restart(wanted->ranges, error);
}

static enum status slot_start(struct download *download, struct slot *slot, struct wanted *wanted, int range,
                              struct error *error)
{
    const struct source *source = download->request->source;
    char url[BUCKET_URL], header[256];
    const char *const headers[] = {header, NULL};
    int64_t first, last;
    struct origin origin;
    ranges_missing(wanted->ranges, range, &first, &last);
    if (wanted->whole || (first == 0 && ranges_count(wanted->ranges) == 1)) last = -1;
    enum status status = source->address(source, wanted->file, url, sizeof url, error);
    if (status != STATUS_OK) return status;
    source->header(wanted->file, header, sizeof header);
    *slot = (struct slot){.download = download,
                          .wanted = wanted,
                          .range = range,
                          .at = first,
                          .failures = wanted->failures,
                          .moved = wanted->location != NULL};
    const struct transfer_request asked = {.server = source->server,
                                           .headers = headers,
                                           .url = wanted->location != NULL ? wanted->location : url,
                                           .first = first,
                                           .last = last,
                                           .sink = sink,
                                           .owner = slot};
    slot->away = wanted->location != NULL && origin_read(wanted->location, &origin) &&
                 !origin_equal(&origin, &source->server->origin);
    status = transfer_new(&asked, &slot->transfer, error);
    if (status != STATUS_OK) return status;
    wanted->requests++;
    if (!wanted->whole) wanted->busy[range] = true;
    if (curl_multi_add_handle(download->multi, slot->transfer->easy) == CURLM_OK) return STATUS_OK;
    slot_free(slot);
    return error_no_memory(error, "a download");
}

/* ---- files ---- */

static void wanted_close(struct wanted *wanted)
{
    ranges_close(wanted->ranges);
    wanted->ranges = NULL;
    free(wanted->busy);
    wanted->busy = NULL;
    free(wanted->location);
    wanted->location = NULL;
}

/* Links the file if it is in the cache, perhaps because another process has just fetched it. Otherwise opens it, unless
 * another process has it open. */
static enum status wanted_open(struct download *download, struct wanted *wanted, struct error *error)
{
    bool found = false;
    const struct download_request *request = download->request;
    const struct repository_file *file = wanted->file;
    enum status status =
        ranges_open(request->cache->partial, file->oid, file->check, file->bytes, &wanted->ranges, error);
    if (status == STATUS_OK) status = hub_cache_link(request->hold, file->oid, file->bytes, file->name, &found, error);
    if (status != STATUS_OK) return status;
    if (found) {
        if (wanted->ranges != NULL) ranges_discard(wanted->ranges);
        wanted->stage = STAGE_DONE;
        wanted_close(wanted);
        return STATUS_OK;
    }
    if (wanted->ranges == NULL) {
        if (!wanted->said) monitor_log(request->monitor, "%s: waits until another process has fetched it", file->name);
        wanted->said = true;
        wanted->not_before = clock_seconds() + BUSY_SECONDS;
        return STATUS_OK;
    }
    wanted->not_before = 0;
    wanted->stage = STAGE_OPEN;
    wanted->route = request->source->direct ? ROUTE_KNOWN : ROUTE_UNKNOWN;
    wanted->backoff = (struct backoff){.most = request->tries, .longest = request->longest_wait};
    wanted->busy = calloc((size_t)ranges_count(wanted->ranges) + 1, sizeof *wanted->busy);
    return wanted->busy != NULL ? STATUS_OK : error_no_memory(error, "a download");
}

/* Hashes the bytes that are there, and puts a complete file with the right hash in place. *idle becomes false while
 * there is more to hash. */
static enum status wanted_check(struct download *download, struct wanted *wanted, bool *idle, struct error *error)
{
    bool done = false, right = false;
    const struct download_request *request = download->request;
    enum status status = ranges_hash(wanted->ranges, HASH_BYTES, &done, error);
    if (status != STATUS_OK) return status;
    if (!done || wanted->requests > 0) { /* a request whose bytes are all there may not have ended yet */
        if (!done && ranges_there(wanted->ranges) == wanted->file->bytes) *idle = false;
        return STATUS_OK;
    }
    if ((status = ranges_finish(wanted->ranges, &right, error)) != STATUS_OK) return status;
    if (right) {
        if ((status = hub_cache_adopt(request->hold, request->cache, wanted->file->oid, wanted->file->name, error)) !=
            STATUS_OK)
            return status;
        ranges_forget(wanted->ranges);
        wanted_close(wanted);
        wanted->stage = STAGE_DONE;
        return STATUS_OK;
    }
    if (++wanted->wrong >= WRONG_MOST)
        return error_set(error, STATUS_CORRUPT, "%.200s: the bytes are not those that %s announces; fetched %d times",
                         wanted->file->name, request->source->server->name, wanted->wrong);
    monitor_log(request->monitor, "%s: the bytes are not those that %s announces; fetched once more",
                wanted->file->name, request->source->server->name);
    free(wanted->location);
    wanted->location = NULL;
    wanted->route = request->source->direct ? ROUTE_KNOWN : ROUTE_UNKNOWN;
    return begin_again(download, wanted, error);
}

/* The next range to request; -1: none now. Until the hub has told the address of a file, only one request for it is
 * made at a time. */
static int wanted_next(const struct wanted *wanted)
{
    int64_t first, last;
    if (wanted->requests > 0 && (wanted->whole || wanted->route == ROUTE_UNKNOWN)) return -1;
    if (wanted->whole) return ranges_there(wanted->ranges) < wanted->file->bytes ? 0 : -1;
    for (int i = 0; i < ranges_count(wanted->ranges); i++) {
        ranges_missing(wanted->ranges, i, &first, &last);
        if (!wanted->busy[i] && first <= last) return i;
    }
    return -1;
}

static enum status fill_slots(struct download *download, struct error *error)
{
    const double now = clock_seconds();
    size_t at = 0;
    enum status status = STATUS_OK;
    if (now < download->not_before) return STATUS_OK;
    for (int i = 0; i < SLOTS && status == STATUS_OK; i++) {
        if (download->slots[i].transfer != NULL) continue;
        for (; at < download->request->count && status == STATUS_OK; at++) {
            struct wanted *wanted = &download->wanted[at];
            if (now < wanted->not_before) continue;
            if (wanted->stage == STAGE_WAITING) status = wanted_open(download, wanted, error);
            const int range = status == STATUS_OK && wanted->stage == STAGE_OPEN ? wanted_next(wanted) : -1;
            if (range < 0) continue;
            status = slot_start(download, &download->slots[i], wanted, range, error);
            break;
        }
    }
    return status;
}

/* ---- requests that have ended ---- */

/* Postpones the file's next try. A rate limit applies to all requests, so it postpones all of them. Requests that were
 * under way when another one failed belong to the same try. */
static enum status put_off(struct download *download, const struct slot *slot, const struct transfer_head *head,
                           struct error *error)
{
    double wait = 0;
    struct wanted *wanted = slot->wanted;
    const struct error why = *error;
    const bool first = slot->failures == wanted->failures;
    wanted->failures += first;
    const enum status status =
        (first ? backoff_fail : backoff_fail_too)(&wanted->backoff, head->wait_seconds, &why, &wait, error);
    if (status != STATUS_OK) return status;
    wanted->not_before = clock_seconds() + wait;
    if (head->status == 429 || head->wait_seconds >= 0) download->not_before = wanted->not_before;
    if (wait >= 1) monitor_log(download->request->monitor, "%s; tried again in %.0f s", why.detail, wait);
    return STATUS_OK;
}

static enum status heed_move(struct slot *slot, const struct transfer_head *head, struct error *error)
{
    struct wanted *wanted = slot->wanted;
    const enum status status = check_head(slot, head, error);
    if (status != STATUS_OK) return status;
    if (++wanted->moves > MOVES_MOST)
        return error_set(error, STATUS_CORRUPT, "%.200s: the hub redirects in circles", wanted->file->name);
    char *location = strdup(head->location);
    if (location == NULL) return error_no_memory(error, "a download");
    free(wanted->location);
    wanted->location = location;
    return STATUS_OK;
}

/* An address that the hub gave is valid for about an hour. */
static bool has_expired(const struct slot *slot, const struct transfer_head *head)
{
    return slot->moved && (head->status == 400 || head->status == 401 || head->status == 403 || head->status == 404 ||
                           head->status == 410 || head->status == 416);
}

static void forget_address(struct wanted *wanted)
{
    free(wanted->location);
    wanted->location = NULL;
    wanted->route = ROUTE_UNKNOWN;
    wanted->moves = 0;
}

static enum status heed_failure(struct download *download, struct slot *slot, enum transfer_verdict verdict,
                                const struct transfer_head *head, struct error *error)
{
    struct wanted *wanted = slot->wanted;
    if (slot->no_ranges) {
        wanted->whole = true;
        return begin_again(download, wanted, error);
    }
    if (slot->status == STATUS_CORRUPT) {
        verdict = TRANSFER_AGAIN;
        *error = slot->error;
    } else if (slot->status != STATUS_OK) {
        *error = slot->error;
        return slot->status;
    }
    if (verdict == TRANSFER_FAILED && has_expired(slot, head)) {
        if (slot->failures == wanted->failures) forget_address(wanted); /* else it may be a newer one */
    } else if (verdict == TRANSFER_FAILED) {
        return error->status;
    }
    enum status status = put_off(download, slot, head, error);
    if (status == STATUS_OK && wanted->whole) status = begin_again(download, wanted, error);
    return status;
}

static enum status heed(struct download *download, struct slot *slot, CURLcode code, struct error *error)
{
    struct wanted *wanted = slot->wanted;
    enum status status = STATUS_OK;
    struct transfer_head *head = malloc(sizeof *head);
    if (head == NULL) return error_no_memory(error, "a download");
    enum transfer_verdict verdict = transfer_judge(slot->transfer, code, wanted->file->name, error);
    *head = slot->transfer->head;
    const struct slot ended = *slot;
    slot_free(slot);
    int64_t first, last;
    ranges_missing(wanted->ranges, ended.range, &first, &last);
    if (ended.came >= PROGRESS_BYTES || first > last) backoff_reset(&wanted->backoff);
    if (verdict == TRANSFER_GOOD &&
        (wanted->whole ? ranges_there(wanted->ranges) < wanted->file->bytes : first <= last)) {
        verdict = TRANSFER_AGAIN;
        (void)error_set(error, STATUS_UNAVAILABLE, "%.200s: the connection ended early", wanted->file->name);
    }
    if (verdict == TRANSFER_MOVED) {
        struct slot moved = ended;
        status = heed_move(&moved, head, error);
    } else if (verdict == TRANSFER_GOOD && ended.status == STATUS_OK) {
        wanted->moves = 0;
    } else {
        status = heed_failure(download,
                              &(struct slot){.download = download,
                                             .wanted = wanted,
                                             .failures = ended.failures,
                                             .moved = ended.moved,
                                             .no_ranges = ended.no_ranges,
                                             .status = ended.status,
                                             .error = ended.error},
                              verdict, head, error);
    }
    /* an answer from an address that has expired since does not tell where the other ranges are */
    const bool told = verdict == TRANSFER_GOOD && ended.moved == (wanted->location != NULL);
    if (status == STATUS_OK && (verdict == TRANSFER_MOVED || told)) wanted->route = ROUTE_KNOWN;
    free(head);
    return status;
}

/* ---- the loop ---- */

static void tell_progress(const struct download *download)
{
    int64_t done = 0;
    for (size_t i = 0; i < download->request->count; i++) {
        const struct wanted *wanted = &download->wanted[i];
        if (wanted->stage == STAGE_DONE) done += wanted->file->bytes;
        if (wanted->stage == STAGE_OPEN) done += ranges_there(wanted->ranges);
    }
    monitor_progress(download->request->monitor, done, download->total, "byte");
}

static enum status step(struct download *download, bool *finished, struct error *error)
{
    int running, left;
    bool idle = true;
    enum status status = fill_slots(download, error);
    if (status == STATUS_OK && curl_multi_perform(download->multi, &running) != CURLM_OK)
        status = error_no_memory(error, "a download");
    for (const CURLMsg *message;
         status == STATUS_OK && (message = curl_multi_info_read(download->multi, &left)) != NULL;) {
        char *owner = NULL;
        const CURLcode code = message->data.result;
        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner) != CURLE_OK)
            continue;
        void *slot = owner; /* as transfer_new was given it */
        status = heed(download, slot, code, error);
        idle = false; /* its slot is free now */
    }
    *finished = true;
    for (size_t i = 0; status == STATUS_OK && i < download->request->count; i++) {
        struct wanted *wanted = &download->wanted[i];
        if (wanted->stage == STAGE_OPEN) status = wanted_check(download, wanted, &idle, error);
        *finished = *finished && wanted->stage == STAGE_DONE;
    }
    tell_progress(download);
    if (status == STATUS_OK) status = monitor_check(download->request->monitor, error);
    if (status == STATUS_OK && idle && !*finished)
        (void)curl_multi_poll(download->multi, NULL, 0, POLL_MILLISECONDS, NULL);
    return status;
}

enum status download_run(const struct download_request *request, int64_t *bytes, struct error *error)
{
    enum status status = STATUS_OK;
    bool finished = request->count == 0;
    struct download *download = calloc(1, sizeof *download);
    *bytes = 0;
    if (download == NULL) return error_no_memory(error, "a download");
    download->request = request;
    download->multi = curl_multi_init();
    download->wanted = calloc(request->count + 1, sizeof *download->wanted);
    if (download->multi == NULL || download->wanted == NULL) status = error_no_memory(error, "a download");
    for (size_t i = 0; status == STATUS_OK && i < request->count; i++) {
        download->wanted[i].file = &request->files[i];
        download->total += request->files[i].bytes;
    }
    while (status == STATUS_OK && !finished) status = step(download, &finished, error);
    for (int i = 0; i < SLOTS; i++) slot_free(&download->slots[i]);
    for (size_t i = 0; download->wanted != NULL && i < request->count; i++) wanted_close(&download->wanted[i]);
    (void)curl_multi_cleanup(download->multi);
    *bytes = download->came;
    free(download->wanted);
    free(download);
    return status;
}
