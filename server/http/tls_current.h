/* tls_current.h: the certificate that new connections are given, which may be replaced while others go on. GnuTLS lends
 * what a session was given until that ends, so a pair that was replaced stays until its last connection closes. Any
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
void tls_current_free(struct tls_current *current); /* when all was returned; NULL is fine */

/* On failure everything stays as it was. STATUS_NO_MEMORY. */
MUST_CHECK enum status tls_current_replace(struct tls_current *current, const struct tls_identity *identity,
                                           struct error *error);

/* Gives `session`, whose handshake is still to come, the pair of this moment. The caller returns it when the connection
 * closes. NULL: it did not work, and the session keeps what libmicrohttpd gave it, the pair of the start. */
struct tls_credentials *tls_current_lend(struct tls_current *current, gnutls_session_t session);
void tls_current_return(struct tls_current *current, struct tls_credentials *credentials); /* NULL is fine */

#endif
