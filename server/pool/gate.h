/* gate.h: for tests alone. A gate holds a run at a point of its progress until the test lets it go on, so that a test
 * can kill, fill or cancel while a run is certainly in the middle, however fast the machine is.
 *
 * A worker has a gate when DELTAQ_TEST_GATE=DIR stands in its environment when it starts; without it nothing is held
 * and nothing is read. While DIR/hold exists, its lines say which runs are held, four words each; "*" stands for any of
 * the first three:
 *
 *     KIND LEASE UNIT DONE        quantize 1 block 2
 *
 * A run of KIND (or the run whose id stands there), under its lease number LEASE (1 for the first worker that has it, 2
 * for the next), is held when it reports that DONE UNITs or more are done. The file DIR/held-RUN-LEASE tells that it is
 * held, and what it reported; it is removed when the run goes on, and a killed worker leaves it. The run goes on as
 * soon as no line holds it any more (the test removes or replaces DIR/hold), or when it is told to stop. A held run
 * counts as moving and its lease is renewed. Whoever writes DIR/hold renames a whole file to that name. */
#ifndef POOL_GATE_H
#define POOL_GATE_H

#include "base/error.h"
#include "base/monitor.h"

#include <stdint.h>

struct gate;

/* The progress of a run. */
struct gate_progress {
    const char *kind, *run;
    int64_t lease;
    const char *unit;
    int64_t done;
};

/* Reads the environment. *out is the caller's (gate_free), and NULL without DELTAQ_TEST_GATE. STATUS_INVALID: it names
 * no directory; STATUS_NO_MEMORY. */
MUST_CHECK enum status gate_new(struct gate **out, struct error *error);
void gate_free(struct gate *gate); /* NULL is fine */

/* Waits while `gate` (NULL is fine) holds a run at that point. Returns earlier when monitor_check, which is called all
 * the time, returns anything but STATUS_OK. Threads may share a gate. */
void gate_pass(const struct gate *gate, const struct gate_progress *progress, const struct monitor *monitor);

#endif
