/* client_address.h: the address that a request counts for in limits, in the backoff after wrong tokens and in the log.
 * It is the address of the connection's other end. When that is a proxy that the operator trusts, it is the address
 * that the proxy reports (X-Forwarded-For). The header of any other client is ignored, because everybody can send it.
 * Any thread. */
#ifndef HTTP_CLIENT_ADDRESS_H
#define HTTP_CLIENT_ADDRESS_H

#include "http/request.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* AF_INET (4 bytes, also of an IPv4 client of an IPv6 socket), AF_INET6 (16) or AF_UNIX (none). The users of this
 * machine have one address together, but each is a client. */
struct client_address {
    sa_family_t family;
    unsigned char bytes[16];
    uint32_t user; /* the user's number + 1; 0: of another machine, or not known */
};

enum { CLIENT_NETWORKS_MOST = 32 };

/* Networks of proxies, each given by the first `bits` of an address. */
struct client_networks {
    size_t count;
    struct client_network {
        struct client_address address;
        unsigned bits;
    } items[CLIENT_NETWORKS_MOST];
};

/* Parses "10.0.0.7", "10.0.0.0/8", "2001:db8::/32", "unix" (any client of the unix socket); `texts` ends with NULL.
 * STATUS_INVALID names the text that is none of these. */
MUST_CHECK enum status client_networks_parse(const char *const *texts, struct client_networks *out,
                                             struct error *error);

struct client_address client_address_of(const struct sockaddr *peer);

/* The client of a request that came from `peer`. Each proxy appends the address that connected to it to
 * X-Forwarded-For. The client is the last address there that is not a trusted proxy; a word that is no address ends the
 * search, because no known proxy wrote what is before it. *proxied: a trusted proxy passed the request on. */
struct client_address client_address_forwarded(const struct client_address *peer, const struct client_networks *trusted,
                                               const struct request *request, bool *proxied);

/* The network that counts as one client: an address of IPv4, the first 64 bits of IPv6. */
struct client_address client_address_network(const struct client_address *address);
bool client_address_is_here(const struct client_address *address); /* a loopback address, or the unix socket */
bool client_address_same(const struct client_address *a, const struct client_address *b);

/* Bytes that tell networks and users apart. */
void client_address_key(const struct client_address *address, unsigned char out[16]);

/* "192.0.2.7", "2001:db8::1", "unix". */
void client_address_text(const struct client_address *address, char out[INET6_ADDRSTRLEN]);

#endif
