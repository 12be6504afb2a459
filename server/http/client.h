/* client.h: who sends a request, from where, and how often they may. Private to server/http. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "http/exchange.h"

/* The token of "Authorization: Bearer TOKEN", lent; NULL for none or another scheme. */
const char *client_token(const struct request *request);

/* Fills exchange->from, ->local and ->user once the headers are there. Also for a request that is refused by its head.
 * A request that a trusted proxy passed on is nobody's of this machine, whoever runs the proxy. */
void client_identify(struct exchange *exchange);

/* Whom its permits count for (permits.h): the token's id, or the address (of IPv6 the network) where none was
 * needed. */
void client_name(const struct exchange *exchange, char out[PERMITS_CLIENT]);

/* Counts the request, and returns 0 or the seconds until it would be let through; *what then says whose bucket is
 * empty ("this token", "this address"). A token that is known to be right has a bucket of its own, so that clients
 * behind one address do not take from each other; whatever else comes from an address has one bucket together. Our own
 * user and root, who need no token, have none; other users whom --trust-loopback lets in have. */
int client_wait(struct exchange *exchange, const char **what);

#endif
