/* exporter.h: a tracker that points are sent to. Each is one file with one row, listed in exporters.c. The caller
 * (track.h) is responsible for order and for the ledger; an exporter writes batches, and can find out afterwards which
 * points of a batch arrived. */
#ifndef TRACK_EXPORTER_H
#define TRACK_EXPORTER_H

#include "track/ledger.h"

enum { EXPORTER_PATH = 4096 };

struct exporter {
    const char *name, *help;
    const char *destination; /* placeholder of the destination in the help: "LOGDIR" */
    int64_t most;            /* the most points of a batch */
    bool ordered; /* points of a stream must be stored by step: when some come late, write gets all points and `anew` */
    bool shared;  /* all streams are stored in one place */
    bool beside;  /* the destination is a path, and its ledger is beside it: DESTINATION.ledger */

    /* Opens the tracker; nothing is sent yet. The caller owns *state (close). STATUS_INVALID, STATUS_IO, … */
    enum status (*open)(const char *destination, void **state, struct error *error);

    /* Sends points of one stream, by step. On STATUS_OK they are durable, and stream->place and length say where. After
     * any other status but STATUS_CORRUPT, all or some may have arrived: call reconcile. STATUS_CORRUPT: somebody else
     * wrote there, and nothing was sent. STATUS_UNAVAILABLE is worth a retry. */
    enum status (*write)(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool anew,
                         struct error *error);

    /* For a batch whose write did not finish: sets arrived[i] (false at first) for the points that arrived. An exporter
     * that can instead removes what arrived. May change stream->place and length; a length of -1 asks for `anew`. */
    enum status (*reconcile)(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool *arrived,
                             struct error *error);
    void (*close)(void *state); /* NULL is fine */
};

extern const struct exporter exporter_ndjson, exporter_tensorboard, exporter_mlflow;

/* All trackers, and their names in the same order; both end with NULL. */
extern const struct exporter *const exporters[];
extern const char *const exporter_names[];
const struct exporter *exporter_find(const char *name); /* or NULL */

/* Turns `name` into a file name: "/" and characters that shells and file systems treat specially become "_". */
void exporter_file_name(const char *name, char *out, size_t size);

#endif
