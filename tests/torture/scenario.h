/* scenario.h: something that deltaq does, to be done again and again while one call after the other fails. */
#ifndef TORTURE_SCENARIO_H
#define TORTURE_SCENARIO_H

#include "base/checksum.h"
#include "base/error.h"

#include <limits.h>
#include <stdint.h>

enum { SCENARIO_PATH = 512 };

/* What a process that runs scenarios has: folders of its own. */
struct room {
    char inputs[SCENARIO_PATH];  /* filled once by `prepare` */
    char outputs[SCENARIO_PATH]; /* empty before each run, emptied behind it */
    char work[SCENARIO_PATH];    /* likewise */
};

struct scenario {
    const char *name;
    unsigned kinds; /* of faults: bits of 1 << enum fault_kind */
    /* Makes what `run` needs, without a fault, in the process that then runs it. It ends the process when it cannot.
     * NULL: nothing. */
    void (*prepare)(struct room *room);
    /* Does it and gives everything back. What came out goes into *sum: with STATUS_OK it is the same every time. */
    enum status (*run)(const struct room *room, struct checksum *sum, struct error *error);
    void (*finish)(void); /* ends what `prepare` began that outlives the process; or NULL */
    unsigned tolerated;   /* statuses that are right, too, when something fails: bits of 1 << enum status */
};

/* Lists end with an empty row. */
extern const struct scenario scenarios_of_files[], scenarios_of_runs[], scenarios_of_documents[],
    scenarios_of_folders[], scenarios_of_rows[];

/* For `prepare`: ends the process, saying why, unless `good`. */
void scenario_require(bool good, const char *what, const struct error *error);
/* "DIRECTORY/NAME" */
const char *scenario_path(char out[SCENARIO_PATH], const char *directory, const char *name);
void scenario_write(const char *directory, const char *name, const void *bytes, size_t size);
/* Adds the bytes of a file that a run wrote. Nothing fails in it. */
void scenario_add_file(struct checksum *sum, const char *path);

#endif
