/* late_bytes.h: what still comes on connections that we have closed (a lingering close). Closing a socket with unread
 * bytes resets the connection, and a client that is in the middle of its body then loses the answer; a proxy tells its
 * own client of a bad gateway in place of it. So the socket is kept for a little, and what comes is discarded. */
#ifndef HTTP_LATE_BYTES_H
#define HTTP_LATE_BYTES_H

#include "base/error.h"
#include "http/router.h" /* HTTP_BODY_LIMIT_LARGE */

#include <stdint.h>

struct late_bytes;
/* Connections; what comes of one: the largest body, and what a proxy may pass on beyond it (docs/deploy.md). */
enum { LATE_BYTES_MOST = 32, LATE_BYTES_MILLISECONDS = 2000, LATE_BYTES_LIMIT = HTTP_BODY_LIMIT_LARGE + (2 << 20) };

MUST_CHECK enum status late_bytes_new(struct late_bytes **out, struct error *error); /* STATUS_NO_MEMORY */

/* Ends our sending half of the connection `descriptor`, and keeps a duplicate of it, so that the caller may close its
 * own. Where LATE_BYTES_MOST are kept already, or no descriptor is left, nothing is kept. `now`: clock_milliseconds.
 * Any thread. */
void late_bytes_expect(struct late_bytes *late, int descriptor, int64_t now);

/* Discards what came, and closes the connections whose clients have closed, have sent LATE_BYTES_LIMIT, or whose time
 * is over. To be called ten times a second, by one thread. */
void late_bytes_discard(struct late_bytes *late, int64_t now);

void late_bytes_free(struct late_bytes *late); /* closes all; NULL is fine */

#endif
