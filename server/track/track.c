#include "track/track.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 500 /* changes in one request */, LONGEST_BACKOFF = 60 };

struct track {
    const struct track_options *options;
    struct ledger *ledger; /* NULL until it is opened */
    json_t *trajectories;  /* ids of the chosen ones, which stay what they are when one gets another name */
    void *state;           /* the exporter's */
    bool reconciled;
};

/* ---- in: changes at the server ---- */

static enum status find_trajectory(struct track *track, const char *name, struct error *error)
{
    struct buffer path = {0};
    struct client_reply reply = {0};
    buffer_puts(&path, "/v1/trajectories/");
    client_escape(&path, name);
    enum status status = buffer_status(&path, "an address", error);
    if (status == STATUS_OK)
        status = client_call(track->options->client, &(struct client_request){.method = "GET", .path = path.bytes},
                             &reply, error);
    json_t *id = json_object_get(reply.document, "id");
    if (status == STATUS_OK && !json_is_string(id))
        status = error_set(error, STATUS_NOT_FOUND, "the server has no trajectory \"%.200s\"", name);
    if (status == STATUS_OK && json_array_append(track->trajectories, id) != 0)
        status = error_no_memory(error, "a tracker");
    client_reply_reset(&reply);
    buffer_reset(&path);
    return status;
}

/* The ledger is opened last: it must know which trajectories are chosen. */
static enum status begin(struct track *track, struct error *error)
{
    const struct track_options *options = track->options;
    struct buffer place = {0}, of = {0};
    enum status status = STATUS_OK;
    json_array_clear(track->trajectories);
    for (const char *const *name = options->trajectories; status == STATUS_OK && *name != NULL; name++)
        status = find_trajectory(track, *name, error);
    if (status != STATUS_OK) return status;
    buffer_printf(&place, "%s %s", options->exporter->name, options->destination);
    buffer_puts(&of, options->trajectories[0] == NULL ? "all trajectories" : options->trajectories[0]);
    for (int i = 1; options->trajectories[0] != NULL && options->trajectories[i] != NULL; i++)
        buffer_printf(&of, " %s", options->trajectories[i]);
    status = buffer_status(&place, "a ledger's name", error);
    if (status == STATUS_OK) status = buffer_status(&of, "a ledger's name", error);
    if (status == STATUS_OK)
        status = ledger_open(options->ledger,
                             &(struct ledger_owner){.place = place.bytes,
                                                    .of = of.bytes,
                                                    .trajectories = track->trajectories,
                                                    .shared = options->exporter->shared},
                             &track->ledger, error);
    buffer_reset(&place);
    buffer_reset(&of);
    return status;
}

static void first_page(const struct track *track, const char *cursor, struct buffer *path)
{
    size_t i;
    const json_t *id;
    buffer_printf(path, "/v1/measurements?limit=%d&updated_since=", PAGE);
    client_escape(path, cursor);
    json_array_foreach(track->trajectories, i, id)
    {
        buffer_puts(path, "&trajectory=");
        client_escape(path, json_string_value(id));
    }
}

/* Reads one page; *path becomes the address of the next one, or empty. */
static enum status take_page(struct track *track, struct buffer *path, int64_t *left_out, struct error *error)
{
    struct client_reply reply = {0};
    enum status status = buffer_status(path, "an address", error);
    if (status == STATUS_OK)
        status = client_call(track->options->client, &(struct client_request){.method = "GET", .path = path->bytes},
                             &reply, error);
    const json_t *rows = json_object_get(reply.document, "items");
    const char *next = json_string_value(json_object_get(reply.document, "next"));
    const char *cursor = json_string_value(json_object_get(reply.document, "cursor"));
    if (status == STATUS_OK && (!json_is_array(rows) || (next == NULL && cursor == NULL)))
        status = error_set(error, STATUS_UNSUPPORTED, "the server does not tell changes of measurements; is it older?");
    if (status == STATUS_OK) status = ledger_take(track->ledger, rows, next == NULL ? cursor : NULL, left_out, error);
    buffer_reset(path);
    if (status == STATUS_OK && next != NULL) buffer_puts(path, next);
    client_reply_reset(&reply);
    return status;
}

static enum status take_since_cursor(struct track *track, struct track_counts *counts, struct error *error)
{
    char cursor[LEDGER_CURSOR];
    struct buffer path = {0};
    int64_t left_out = 0; /* rows of pages that are read again after a failed one are counted once */
    enum status status = ledger_cursor(track->ledger, cursor, error);
    if (status == STATUS_OK) first_page(track, cursor, &path);
    do
        if (status == STATUS_OK) status = take_page(track, &path, &left_out, error);
    while (status == STATUS_OK && path.length > 0);
    buffer_reset(&path);
    if (status == STATUS_OK) counts->left_out += left_out;
    return status;
}

/* The server does not know the ledger's cursor when its database was restored from a backup. What the ledger has
 * already has no effect when it is read again. */
static enum status take_changes(struct track *track, struct track_counts *counts, struct error *error)
{
    enum status status = take_since_cursor(track, counts, error);
    if (status != STATUS_GONE) return status;
    counts->again = true;
    status = ledger_read_again(track->ledger, error);
    return status == STATUS_OK ? take_since_cursor(track, counts, error) : status;
}

/* ---- out: points that the tracker lacks ---- */

/* Asks the tracker which points of a doubtful batch arrived; the others become pending again. */
static enum status reconcile_stream(struct track *track, struct ledger_stream *stream, struct error *error)
{
    struct ledger_batch batch;
    enum status status = ledger_points(track->ledger, stream, LEDGER_DOUBTFUL, 0, &batch, error);
    bool *arrived = NULL, *missing = NULL;
    if (status != STATUS_OK || batch.count == 0) return status;
    arrived = calloc((size_t)batch.count, sizeof *arrived);
    missing = calloc((size_t)batch.count, sizeof *missing);
    if (arrived == NULL || missing == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a batch");
    if (status == STATUS_OK) status = track->options->exporter->reconcile(track->state, stream, &batch, arrived, error);
    for (int64_t i = 0; status == STATUS_OK && i < batch.count; i++) missing[i] = !arrived[i];
    if (status == STATUS_OK) status = ledger_mark(track->ledger, &batch, arrived, LEDGER_SENT, stream, error);
    if (status == STATUS_OK) status = ledger_mark(track->ledger, &batch, missing, LEDGER_PENDING, stream, error);
    free(arrived);
    free(missing);
    ledger_batch_reset(&batch);
    return status;
}

static enum status reconcile_all(struct track *track, struct error *error)
{
    struct ledger_stream stream = {.id = 0};
    bool found = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && found) {
        status = ledger_next(track->ledger, LEDGER_DOUBTFUL, &stream, &found, error);
        if (status == STATUS_OK && found) status = reconcile_stream(track, &stream, error);
    }
    track->reconciled = status == STATUS_OK;
    return status;
}

/* `pending`: the next points of the stream. When its file must be rewritten (*anew), these are all pending points, and
 * `all` also has the points that are in the file already, because the new file needs both. */
static enum status read_batch(struct track *track, const struct ledger_stream *stream, bool *anew,
                              struct ledger_batch *pending, struct ledger_batch *all, struct error *error)
{
    const struct exporter *exporter = track->options->exporter;
    enum status status = STATUS_OK;
    *anew = stream->length < 0;
    if (exporter->ordered && !*anew) status = ledger_late(track->ledger, stream, anew, error);
    if (status == STATUS_OK)
        status = ledger_points(track->ledger, stream, LEDGER_PENDING, *anew ? 0 : exporter->most, pending, error);
    return status == STATUS_OK && *anew ? ledger_all(track->ledger, stream, all, error) : status;
}

/* A destination that somebody else has written to was left as it is: in doubt, the next call would cut away what is
 * theirs. */
static void take_back(struct track *track, const struct ledger_stream *stream, const struct ledger_batch *batch)
{
    struct error ignored; /* the caller has the one that is told */
    track->reconciled = ledger_mark(track->ledger, batch, NULL, LEDGER_PENDING, stream, &ignored) == STATUS_OK;
}

/* When a file is rewritten only the pending points are in doubt, because the old file stays until the new one is
 * complete. */
static enum status send_batch(struct track *track, struct ledger_stream *stream, struct track_counts *counts,
                              struct error *error)
{
    bool anew;
    struct ledger_batch pending = {0}, all = {0};
    enum status status = read_batch(track, stream, &anew, &pending, &all, error);
    if (status == STATUS_OK) status = ledger_mark(track->ledger, &pending, NULL, LEDGER_DOUBTFUL, stream, error);
    if (status == STATUS_OK) track->reconciled = false;
    if (status == STATUS_OK)
        status = track->options->exporter->write(track->state, stream, anew ? &all : &pending, anew, error);
    if (status == STATUS_CORRUPT && !track->reconciled) take_back(track, stream, &pending);
    if (status == STATUS_OK) status = ledger_mark(track->ledger, &pending, NULL, LEDGER_SENT, stream, error);
    if (status == STATUS_OK) track->reconciled = true;
    if (status == STATUS_OK) counts->sent += pending.count;
    ledger_batch_reset(&pending);
    ledger_batch_reset(&all);
    return status;
}

static enum status send_pending(struct track *track, struct track_counts *counts, struct error *error)
{
    struct ledger_stream stream;
    bool found = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && found) {
        status = ledger_next(track->ledger, LEDGER_PENDING, &stream, &found, error);
        if (status == STATUS_OK && found) status = send_batch(track, &stream, counts, error);
    }
    return status;
}

/* ---- both ---- */

enum status track_open(const struct track_options *options, struct track **out, struct error *error)
{
    struct track *track = calloc(1, sizeof *track);
    *out = track;
    if (track == NULL) return error_no_memory(error, "a tracker");
    track->options = options;
    track->trajectories = json_array();
    if (track->trajectories == NULL) return error_no_memory(error, "a tracker");
    return options->exporter->open(options->destination, &track->state, error);
}

void track_close(struct track *track)
{
    if (track == NULL) return;
    track->options->exporter->close(track->state);
    ledger_close(track->ledger);
    json_decref(track->trajectories);
    free(track);
}

enum status track_round(struct track *track, struct track_counts *counts, struct error *error)
{
    enum status status = track->ledger != NULL ? STATUS_OK : begin(track, error);
    if (status == STATUS_OK && !track->reconciled) status = reconcile_all(track, error);
    if (status == STATUS_OK) status = take_changes(track, counts, error);
    if (status == STATUS_OK) status = send_pending(track, counts, error);
    return status;
}

unsigned track_rest(int away, unsigned every)
{
    unsigned seconds = 1;
    if (away == 0) return every;
    for (int i = 1; i < away && seconds < LONGEST_BACKOFF; i++) seconds *= 2;
    return seconds < LONGEST_BACKOFF ? seconds : LONGEST_BACKOFF;
}
