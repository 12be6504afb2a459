/* track.h: a server's measurements to a tracker: changes into the ledger, pending points out of it, each once. */
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

/* Opens ledger and tracker, and reconciles what a killed process left in doubt. The caller owns *out, which is there
 * after some failures too (track_close); `options` is lent until then. */
MUST_CHECK enum status track_open(const struct track_options *options, struct track **out, struct error *error);
void track_close(struct track *track);

struct track_counts {
    int64_t sent;     /* points */
    int64_t left_out; /* rows without a step */
};

/* Everything that the server has and the tracker has not. STATUS_UNAVAILABLE: the server or the tracker is away, and
 * calling it again goes on where it was. */
MUST_CHECK enum status track_round(struct track *track, struct track_counts *counts, struct error *error);

/* Seconds until the next round: `every`, or after so many failed ones, `away`, a backoff from a second to a minute. */
unsigned track_rest(int away, unsigned every);

#endif
