/* TensorBoard: LOGDIR/TRAJECTORY/SERIES/events.out.tfevents.NUMBER.deltaq, one file for each series with its points by
 * step, because readers draw and drop points in the order of the file. A late point makes a new file with the next
 * number and all points. Its first record says so, and readers forget the old file. */
#include "track/append_file.h"
#include "track/event_record.h"
#include "track/exporter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tensorboard {
    char directory[EXPORTER_PATH];
};

enum { PATH_SIZE = EXPORTER_PATH + 3 * LEDGER_NAME };

static enum status tensorboard_open(const char *destination, void **state, struct error *error)
{
    struct tensorboard *tensorboard = calloc(1, sizeof *tensorboard);
    *state = tensorboard;
    if (tensorboard == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a tracker");
    const int length = snprintf(tensorboard->directory, sizeof tensorboard->directory, "%s", destination);
    return length < EXPORTER_PATH ? STATUS_OK : error_set(error, STATUS_INVALID, "the path is too long");
}

/* `place` is the file's number. Names that give the same file name are distinguished by their ids. */
static void file_path(const struct tensorboard *tensorboard, const struct ledger_stream *stream, long number,
                      char out[PATH_SIZE])
{
    char trajectory[LEDGER_NAME], name[LEDGER_NAME];
    exporter_file_name(stream->trajectory, trajectory, sizeof trajectory);
    exporter_file_name(stream->name, name, sizeof name);
    if (strcmp(trajectory, stream->trajectory) != 0)
        (void)snprintf(trajectory + strlen(trajectory), sizeof trajectory - strlen(trajectory), " %.8s",
                       stream->trajectory_id);
    if (strcmp(name, stream->name) != 0)
        (void)snprintf(name + strlen(name), sizeof name - strlen(name), " %lld", (long long)stream->id);
    (void)snprintf(out, PATH_SIZE, "%s/%s/%s/events.out.tfevents.%010ld.deltaq", tensorboard->directory, trajectory,
                   name, number);
}

/* Makes one record for each step. */
static enum status make_records(const struct ledger_batch *batch, bool begins, bool anew, struct buffer *out,
                                struct error *error)
{
    const struct ledger_point *points = batch->points;
    struct event_scalars scalars = {0};
    if (begins) event_record_version(out, (double)points[0].time_ms / 1e3);
    if (anew) event_record_start(out, (double)points[0].time_ms / 1e3, points[0].step);
    for (int64_t i = 0; i < batch->count; i++) {
        event_scalars_add(&scalars, points[i].metric, points[i].value);
        const bool last = i + 1 == batch->count || strcmp(points[i + 1].checkpoint, points[i].checkpoint) != 0;
        if (last) event_record_scalars(out, (double)points[i].time_ms / 1e3, points[i].step, &scalars);
    }
    return buffer_status(out, "event records", error);
}

static enum status remove_file(const char *path, struct error *error)
{
    if (unlink(path) == 0) return append_file_sync_directory(path, error);
    return errno == ENOENT ? STATUS_OK : error_set_errno(error, "removing the older file");
}

/* Writes the file completely or not at all. The temporary file has a fixed name, so that the next writer replaces what
 * a killed one left, and a name that readers do not take for an event file. */
static enum status put_file(const char *path, const struct buffer *records, struct error *error)
{
    char temporary[PATH_SIZE + 8];
    int64_t length = 0;
    (void)snprintf(temporary, sizeof temporary, "%.*s/.anew", (int)(strrchr(path, '/') - path), path);
    enum status status = remove_file(temporary, error);
    if (status == STATUS_OK) status = append_file_write(temporary, &length, records->bytes, records->length, error);
    if (status != STATUS_OK) return status;
    if (rename(temporary, path) != 0) return error_set_errno(error, "putting the new file in place");
    return append_file_sync_directory(path, error);
}

/* The new file is complete before the old one is removed. A killed writer may leave the old one, which contains nothing
 * that the new one lacks. */
static enum status write_anew(const struct tensorboard *tensorboard, struct ledger_stream *stream, long number,
                              const struct buffer *records, struct error *error)
{
    char path[PATH_SIZE], old[PATH_SIZE];
    file_path(tensorboard, stream, number + 1, path);
    file_path(tensorboard, stream, number, old);
    enum status status = put_file(path, records, error);
    if (status == STATUS_OK && number > 0) status = remove_file(old, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(stream->place, sizeof stream->place, "%ld", number + 1);
    stream->length = (int64_t)records->length;
    return STATUS_OK;
}

static enum status tensorboard_write(void *state, struct ledger_stream *stream, const struct ledger_batch *batch,
                                     bool anew, struct error *error)
{
    const struct tensorboard *tensorboard = state;
    const long number = strtol(stream->place, NULL, 10);
    char path[PATH_SIZE];
    struct buffer records = {0};
    enum status status = make_records(batch, anew || number == 0, anew, &records, error);
    if (status == STATUS_OK && anew) {
        status = write_anew(tensorboard, stream, number, &records, error);
    } else if (status == STATUS_OK) {
        const long first = number > 0 ? number : 1;
        file_path(tensorboard, stream, first, path);
        status = append_file_write(path, &stream->length, records.bytes, records.length, error);
        if (status == STATUS_NOT_FOUND && stream->length > 0) /* reconcile will ask for all points */
            status = error_set(error, STATUS_UNAVAILABLE, "an event file is gone and is written anew");
        if (status == STATUS_OK) (void)snprintf(stream->place, sizeof stream->place, "%ld", first);
    }
    buffer_reset(&records);
    return status;
}

static enum status tensorboard_reconcile(void *state, struct ledger_stream *stream, const struct ledger_batch *batch,
                                         bool *arrived, struct error *error)
{
    const struct tensorboard *tensorboard = state;
    const long number = strtol(stream->place, NULL, 10);
    char path[PATH_SIZE];
    bool found;
    (void)batch;
    (void)arrived;
    file_path(tensorboard, stream, number > 0 ? number : 1, path);
    const enum status status = append_file_cut(path, stream->length > 0 ? stream->length : 0, &found, error);
    if (status == STATUS_OK && !found && number > 0) stream->length = -1;
    return status;
}

const struct exporter exporter_tensorboard = {
    .name = "tensorboard",
    .help = "TensorBoard's event files, a directory a series",
    .destination = "LOGDIR",
    .most = 20000,
    .ordered = true,
    .beside = true,
    .open = tensorboard_open,
    .write = tensorboard_write,
    .reconcile = tensorboard_reconcile,
    .close = free,
};
