/* library_reads.h: where the bytes of requests pass a guard (head_guard.h) on their way into libmicrohttpd. The library
 * has no hook for that: it calls recv, or gnutls_record_recv, into its own buffer. Both are defined here, in the
 * program, and the dynamic linker prefers the program's. For descriptors that are not watched they do what the
 * originals do. Thus nothing is copied, no thread or descriptor is added, and what is checked is what is read.
 *
 * If a library ever read otherwise, no guard would see a head, and every request would be refused (head_guard_fault).
 * Private to server/http. */
#ifndef HTTP_LIBRARY_READS_H
#define HTTP_LIBRARY_READS_H

#include "http/head_guard.h"

#include <gnutls/gnutls.h>

struct library_reads {
    gnutls_session_t session; /* NULL: a connection without TLS */
    struct head_guard guard;
};

/* Makes everything that is read from `descriptor`, or decrypted by its session, pass the guard. `reads` is lent until
 * library_reads_forget, which must be called before the descriptor is closed. Only the calling thread may read the
 * connection. False: this descriptor cannot be watched and must not be served. */
bool library_reads_watch(int descriptor, struct library_reads *reads);
void library_reads_forget(int descriptor); /* a descriptor that is not watched is fine */

#endif
