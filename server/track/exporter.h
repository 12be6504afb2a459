/* exporter.h: a tracker that points are sent to. One file a tracker, one row each, listed in exporters.c. The caller
 * (track.h) sees to order and to the ledger; an exporter writes batches and can tell afterwards what of one arrived. */
#ifndef TRACK_EXPORTER_H
#define TRACK_EXPORTER_H

#include "track/ledger.h"

enum { EXPORTER_PATH = 4096 };

struct exporter {
    const char *name, *help;
    const char *destination; /* what stands for it in the help: "LOGDIR" */
    int64_t most;            /* points of one batch */
    bool ordered; /* a stream's points must stand in the order of their steps: when some come late, write gets all of
                     them and `anew` */
    bool shared;  /* all streams are kept in one place */
    bool beside;  /* the ledger lies beside the destination, which is a path: DESTINATION.ledger */

    /* Nothing is sent yet. *state is the caller's (close). STATUS_INVALID, STATUS_IO, … */
    enum status (*open)(const char *destination, void **state, struct error *error);

    /* Sends points of one stream, by step. On STATUS_OK they are durable there, and stream->place and length say where.
     * Any other status: they, or some, may have arrived; reconcile tells. STATUS_UNAVAILABLE is worth another try. */
    enum status (*write)(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool anew,
                         struct error *error);

    /* Of a batch whose write did not end: which points arrived (arrived[i], false at first). An exporter that can
     * removes what arrived instead. May change stream->place and length; a length of -1 asks for `anew`. */
    enum status (*reconcile)(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool *arrived,
                             struct error *error);
    void (*close)(void *state); /* NULL is fine */
};

extern const struct exporter exporter_ndjson, exporter_tensorboard, exporter_mlflow;

/* Every tracker, and their names in the same order; both end with NULL. */
extern const struct exporter *const exporters[];
extern const char *const exporter_names[];
const struct exporter *exporter_find(const char *name); /* or NULL */

/* `name` as the name of a file: "/" and what shells and file systems dislike become "_". */
void exporter_file_name(const char *name, char *out, size_t size);

#endif
