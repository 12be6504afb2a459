/* tls_current.h: the certificate that new connections get, which may be replaced while connections are open. A GnuTLS
 * session borrows its credentials until it ends, so a replaced pair is kept until its last connection closes. Any
 * thread. Private to server/http. */
#ifndef HTTP_TLS_CURRENT_H
#define HTTP_TLS_CURRENT_H

#include "http/tls.h"

#include <gnutls/gnutls.h>

struct tls_current;
struct tls_credentials;

/* `identity` is copied. The caller owns *out (tls_current_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status tls_current_new(const struct tls_identity *identity, struct tls_current **out,
                                       struct error *error);
void tls_current_free(struct tls_current *current); /* after everything was returned; NULL is fine */

/* On failure everything stays as it was. STATUS_NO_MEMORY. */
MUST_CHECK enum status tls_current_replace(struct tls_current *current, const struct tls_identity *identity,
                                           struct error *error);

/* Gives the current pair to `session`, whose handshake has not started. The caller returns it when the connection
 * closes. NULL: the session keeps the pair that libmicrohttpd gave it, that of the server's start. */
struct tls_credentials *tls_current_lend(struct tls_current *current, gnutls_session_t session);
void tls_current_return(struct tls_current *current, struct tls_credentials *credentials); /* NULL is fine */

#endif
