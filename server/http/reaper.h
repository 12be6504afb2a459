/* reaper.h: deadlines for slow clients. libmicrohttpd's own timeout counts inactivity alone, so a client that sends a
 * byte now and then would hold its connection for ever. Each connection has an entry with one absolute deadline. A
 * thread shuts overdue connections down, and libmicrohttpd notices that. Entries are removed in the close notification,
 * before the descriptor can be reused. */
#ifndef HTTP_REAPER_H
#define HTTP_REAPER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct reaper;
struct reaper_entry;

/* `tick` runs on the reaper's thread ten times a second, with `closure` (the waiters' deadlines). The caller owns
 * *out. */
MUST_CHECK enum status reaper_start(void (*tick)(void *closure), void *closure, unsigned crowded, struct reaper **out,
                                    struct error *error);

struct reaper_entry *reaper_add(struct reaper *reaper, int descriptor, int64_t milliseconds); /* NULL: no memory */
void reaper_remove(struct reaper *reaper, struct reaper_entry *entry);                        /* NULL is fine */

/* The connection must reach its next stage in `milliseconds` from now; negative: no deadline. NULL is fine. */
void reaper_deadline(struct reaper *reaper, struct reaper_entry *entry, int64_t milliseconds);

/* Whether the connection waits for its client's next head, as a new entry does. Such connections are shut down after
 * half a second while there are more than the `crowded` of reaper_start, so that a flood of them leaves space for
 * clients that ask something. So are, after a second, those that have a deadline and move less than 16 KiB/s
 * (transfer.h). NULL is fine. */
void reaper_waits(struct reaper *reaper, struct reaper_entry *entry, bool waits);

/* Moves a deadline that is set further away. */
void reaper_extend(struct reaper *reaper, struct reaper_entry *entry, int64_t milliseconds);

/* When the connection closes, what its client still sends is discarded for a little (late_bytes.h). NULL is fine. */
void reaper_lingers(struct reaper *reaper, struct reaper_entry *entry);

void reaper_stop(struct reaper *reaper); /* joins its thread; NULL is fine */
void reaper_free(struct reaper *reaper); /* after the daemon has stopped; NULL is fine */

#endif
