/* track.h: copies a server's measurements to a tracker: changes go into the ledger, and pending points from the ledger
 * to the tracker, each once. */
#ifndef TRACK_TRACK_H
#define TRACK_TRACK_H

#include "client/client.h"
#include "track/exporter.h"

struct track_options {
    struct client *client; /* lent: the server */
    const struct exporter *exporter;
    const char *destination, *ledger;
    const char *const *trajectories; /* ends with NULL; none: all */
};

struct track;

/* Opens the tracker. The caller owns *out, which may be set after a failure too (track_close); `options` is lent until
 * then. */
MUST_CHECK enum status track_open(const struct track_options *options, struct track **out, struct error *error);
void track_close(struct track *track);

struct track_counts {
    int64_t sent;     /* points */
    int64_t left_out; /* number of rows without a step */
    bool again;       /* the server's database is another one than before: all of its measurements were read again */
};

/* Sends everything that the server has and the tracker lacks. The first call asks the server for the trajectories,
 * opens the ledger, and reconciles the points that a killed process left in doubt. STATUS_UNAVAILABLE: the server or
 * the tracker does not answer; the next call continues. */
MUST_CHECK enum status track_round(struct track *track, struct track_counts *counts, struct error *error);

/* Seconds until the next round: `every`, or after `away` failed rounds a backoff between a second and a minute. */
unsigned track_rest(int away, unsigned every);

#endif
