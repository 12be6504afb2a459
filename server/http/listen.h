/* listen.h: the address that a server listens on, and the Host names that belong to it. Used by server/http, and by
 * commands that check an address before they start anything. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/error.h"

struct listener {
    int descriptor; /* bound and listening; owned by the caller that opened it */
    bool ipv6;
    bool wildcard; /* bound to all addresses */
    bool loopback;
    char url[128]; /* "http://127.0.0.1:8642" with the actual port; https for a listener with `tls` */
    char **hosts;  /* every accepted Host, owned, ends with NULL (listen_hosts_free) */
};

/* Opens `address` ("127.0.0.1:8642", "[::1]:0", "localhost:80"). An address beyond loopback needs `token_configured`.
 * `extra`: more host names (ends with NULL; NULL: none). STATUS_INVALID, STATUS_UNAVAILABLE (in use), STATUS_FORBIDDEN,
 * STATUS_IO, STATUS_NO_MEMORY; nothing is open then. */
MUST_CHECK enum status listen_open(const char *address, const char *const *extra, bool token_configured, bool tls,
                                   struct listener *out, struct error *error);
/* Opens a unix socket at `path`. Every user who can reach the directory may connect. A socket that nobody listens on is
 * replaced. It has no hosts and no url. */
MUST_CHECK enum status listen_open_socket(const char *path, struct listener *out, struct error *error);
/* Whether listen_open could open `address` now, apart from the token. *loopback: it is a loopback address. Leaves
 * nothing open. */
MUST_CHECK enum status listen_check(const char *address, bool *loopback, struct error *error);

/* Returns STATUS_FORBIDDEN for an address that other machines can reach while there is no token. */
enum status listen_refuse(const char *address, struct error *error);

void listen_hosts_free(char **hosts); /* NULL is fine */

/* The literal address and port that a connection came to ("192.0.2.7:8642"); false when unknown. */
bool listen_local_name(int descriptor, char *out, size_t size);

#endif
