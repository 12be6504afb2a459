/* One file with a line for each checkpoint of a series: {"trajectory", "series", "name", "checkpoint",
 * "checkpoint_name", "step", "time", "metrics": {NAME: NUMBER}}. Numbers that come later are in a further line; the
 * last value of a name counts. For scripts of other trackers. */
#include "track/append_file.h"
#include "track/exporter.h"

#include "base/buffer.h"
#include "json/written.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ndjson {
    char path[EXPORTER_PATH];
};

static enum status ndjson_open(const char *destination, void **state, struct error *error)
{
    struct ndjson *ndjson = calloc(1, sizeof *ndjson);
    *state = ndjson;
    if (ndjson == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a tracker");
    if (snprintf(ndjson->path, sizeof ndjson->path, "%s", destination) < (int)sizeof ndjson->path) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "the path is too long");
}

/* "2026-11-22T15:04:26.123Z" */
static void put_time(int64_t milliseconds, char out[40])
{
    struct tm parts;
    const time_t seconds = (time_t)(milliseconds / 1000);
    char text[24] = "";
    if (gmtime_r(&seconds, &parts) != NULL) (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out, 40, "%s.%03dZ", text, (int)(milliseconds % 1000));
}

/* Appends the points from *at on that belong to the same checkpoint. */
static enum status append_line(const struct ledger_stream *stream, const struct ledger_batch *batch, int64_t *at,
                               struct buffer *out, struct error *error)
{
    const struct ledger_point *first = &batch->points[*at];
    char time[40];
    int64_t newest = first->time_ms;
    json_t *metrics = json_object();
    for (; *at < batch->count && strcmp(batch->points[*at].checkpoint, first->checkpoint) == 0; (*at)++) {
        const struct ledger_point *point = &batch->points[*at];
        if (point->time_ms > newest) newest = point->time_ms;
        (void)json_object_set_new(metrics, point->metric, json_real(point->value));
    }
    put_time(newest, time);
    json_t *line = json_pack("{ss ss ss ss ss sI ss so}", "trajectory", stream->trajectory, "series", stream->series,
                             "name", stream->name, "checkpoint", first->checkpoint, "checkpoint_name",
                             first->checkpoint_name, "step", (json_int_t)first->step, "time", time, "metrics", metrics);
    char *text = line != NULL ? written_json(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (text == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a line");
    buffer_puts(out, text);
    buffer_puts(out, "\n");
    free(text);
    return STATUS_OK;
}

static enum status ndjson_write(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool anew,
                                struct error *error)
{
    const struct ndjson *ndjson = state;
    struct buffer out = {0};
    enum status status = STATUS_OK;
    (void)anew;
    for (int64_t at = 0; status == STATUS_OK && at < batch->count;)
        status = append_line(stream, batch, &at, &out, error);
    if (status == STATUS_OK) status = buffer_status(&out, "lines", error);
    if (status == STATUS_OK) status = append_file_write(ndjson->path, &stream->length, out.bytes, out.length, error);
    buffer_reset(&out);
    return status;
}

static enum status ndjson_reconcile(void *state, struct ledger_stream *stream, const struct ledger_batch *batch,
                                    bool *arrived, struct error *error)
{
    const struct ndjson *ndjson = state;
    bool found;
    (void)batch;
    (void)arrived;
    const enum status status = append_file_cut(ndjson->path, stream->length, &found, error);
    if (status != STATUS_OK || found || stream->length == 0) return status;
    return error_set(error, STATUS_CORRUPT,
                     "the file that the ledger tells of is gone; remove the ledger to begin anew");
}

const struct exporter exporter_ndjson = {
    .name = "ndjson",
    .help = "A file of lines of JSON, for scripts and other trackers",
    .destination = "FILE",
    .most = 4096,
    .shared = true,
    .beside = true,
    .open = ndjson_open,
    .write = ndjson_write,
    .reconcile = ndjson_reconcile,
    .close = free,
};
