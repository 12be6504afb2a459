/* tls.h: the certificate and key that HTTPS is served with. libmicrohttpd encrypts, with GnuTLS. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "base/error.h"

#include <stddef.h>

/* Both are PEM texts, owned. All zero: no HTTPS. */
struct tls_identity {
    char *certificate; /* the server's first, then those that lead to a root */
    char *key;
    size_t key_size;
};

/* TLS 1.2 and 1.3, in the words of GnuTLS. Without what GnuTLS has in NORMAL for old peers: key exchange by RSA alone,
 * with which the certificate's key opens every connection that was recorded, and CBC, whose padding has been attacked
 * again and again. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-AES-128-CBC:-AES-256-CBC"

/* Reads both files and checks that they can be used together; NULL and NULL: *out is all zero. The caller owns *out
 * (tls_identity_reset). STATUS_INVALID names the option and what is wrong: one without the other, a file that is not
 * there, may not be read or holds something else, a key with a password, of another certificate. STATUS_UNSUPPORTED:
 * a libmicrohttpd without TLS. */
MUST_CHECK enum status tls_identity_read(const char *certificate, const char *key, struct tls_identity *out,
                                         struct error *error);

/* The first certificate in words: its end and its serial number. Cut where `size` ends. */
void tls_identity_describe(const struct tls_identity *identity, char *out, size_t size);
void tls_identity_reset(struct tls_identity *identity); /* wipes the key */

#endif
