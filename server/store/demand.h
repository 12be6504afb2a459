/* demand.h: the queued runs and the workers that serve them, for launchers that submit workers to a batch system. */
#ifndef STORE_DEMAND_H
#define STORE_DEMAND_H

#include "store/store.h"

/* Bytes of the host and of a device. */
struct demand_memory {
    int64_t host, device;
};

/* Claims the right to submit workers under `name`, or renews it. *ours is false while another owner has it: for
 * `ahead_seconds` after its last claim, as that claim gave them, and then for `seconds`, as this one gives them.
 * *most: what a run may get of a worker submitted so; 0: not bounded, and of a device: not known. */
MUST_CHECK enum status demand_claim(struct connection *connection, const char *name, const struct store_id *owner,
                                    double seconds, double ahead_seconds, const struct demand_memory *most, bool *ours,
                                    struct error *error);
MUST_CHECK enum status demand_disclaim(struct connection *connection, const char *name, const struct store_id *owner,
                                       struct error *error);

/* {"groups": [{"device", "labels", "memory_bytes", "device_memory_bytes", "seconds", "runs"}],
 *  "workers": [{"job", "busy", "silent"}], "time"}
 * Queued runs that need the same, those of the most memory first: seconds is the longest that one is planned to take,
 * null where a part is not known. Workers are those with the label, `silent` the seconds since they were seen (or, when
 * the clock was set back meanwhile, until then); time is the database's, in seconds since 1970. */
MUST_CHECK enum status demand_read(struct connection *connection, const char *label, json_t **document,
                                   struct error *error);

/* Queued runs that nobody has planned, the first in the queue first, at most `most`: [{"id", "kind", "params",
 * "device", "device_memory_bytes", "labels"}]. */
MUST_CHECK enum status demand_unplanned(struct connection *connection, int most, json_t **document,
                                        struct error *error);
/* Stores the plan of a run. *needed: what the run needs where that is more than the usual worker has; 0: it fits there.
 * `seconds`: NAN when not known. */
MUST_CHECK enum status demand_planned(struct connection *connection, const char *run,
                                      const struct demand_memory *needed, double seconds, struct error *error);

/* Marks the job of this number as gone from the batch system: its workers with the label that have been silent for
 * `silent_seconds` are dead, and their runs return to the queue. *released: the number of those runs. */
MUST_CHECK enum status demand_job_gone(struct connection *connection, const char *label, const char *job,
                                       double silent_seconds, int *released, struct error *error);

/* The batch system killed the job of this number because its worker with the label took more memory than the job had.
 * What the worker held goes back to the queue and asks for twice the memory, at most for `most_bytes` (0: any number).
 * With `most_bytes` already, a run that was executed alone has failed; of several, each is executed again until it
 * would be the last time, and then alone. So is a run that another process put back into the queue meanwhile. */
struct demand_out_of_memory {
    int64_t memory_bytes; /* that the worker had; 0: there is no such worker any more */
    int raised, failed;   /* runs */
};
MUST_CHECK enum status demand_out_of_memory(struct connection *connection, const char *label, const char *job,
                                            int64_t most_bytes, struct demand_out_of_memory *out, struct error *error);

#endif
