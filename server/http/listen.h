/* listen.h: the address that a server listens on, and the Host names that belong to it. Used by server/http, and by
 * commands that check an address before they start anything. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/error.h"

struct listener {
    int descriptor; /* bound and listening; owned by who opened it */
    bool ipv6;
    bool wildcard; /* bound to all addresses */
    bool loopback;
    char url[128]; /* "http://127.0.0.1:8642" with the port that was bound, or https of a `tls` one */
    char **hosts;  /* every Host that is answered, owned, ends with NULL (listen_hosts_free) */
};

/* Opens `address` ("127.0.0.1:8642", "[::1]:0", "localhost:80"). Beyond loopback only with `token_configured`. `extra`:
 * more names (ends with NULL; NULL: none). STATUS_INVALID, STATUS_UNAVAILABLE (in use), STATUS_FORBIDDEN, STATUS_IO,
 * STATUS_NO_MEMORY; nothing is open then. */
MUST_CHECK enum status listen_open(const char *address, const char *const *extra, bool token_configured, bool tls,
                                   struct listener *out, struct error *error);
/* The same of a unix socket at `path`, which any user may connect to who can reach the directory. A socket that nobody
 * listens on any more is replaced. It has no hosts and no url. */
MUST_CHECK enum status listen_open_socket(const char *path, struct listener *out, struct error *error);
/* Whether listen_open could open `address` now, a token apart, and whether it is one of the loopback. Leaves nothing
 * open. */
MUST_CHECK enum status listen_check(const char *address, bool *loopback, struct error *error);

/* Refuses an address that other machines reach while there is no token. Returns STATUS_FORBIDDEN. */
enum status listen_refuse(const char *address, struct error *error);

void listen_hosts_free(char **hosts); /* NULL is fine */

/* The literal address and port that a connection came to ("192.0.2.7:8642"); false when unknown. */
bool listen_local_name(int descriptor, char *out, size_t size);

#endif
