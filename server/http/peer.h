/* peer.h: which user of this machine is at the other end of a connection. A loopback address is open to every user of
 * the machine, a login node's hundreds too; the kernel knows whose socket the other end is. */
#ifndef HTTP_PEER_H
#define HTTP_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the other end of the connection `descriptor` is a socket of our own user or of root, on this machine. A unix
 * socket tells by its peer's credentials, a TCP socket of a loopback address by the kernel's sock_diag. False whenever
 * that cannot be known: another machine, another network namespace, a socket whose process has closed it already. *user
 * is that user then, and else (uid_t)-1. */
bool peer_is_ours(int descriptor, uid_t *user);

#endif
