/* peer.h: which user of this machine is at the other end of a connection. Every user of the machine can connect to a
 * loopback address, which on a login node may be hundreds; the kernel knows the owner of the other socket. */
#ifndef HTTP_PEER_H
#define HTTP_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the other end of the connection `descriptor` is a socket of our own user or of root, on this machine: for a
 * unix socket by its peer's credentials, for a TCP socket of a loopback address by the kernel's sock_diag. False
 * whenever that is not known: another machine, another network namespace, a socket that its process has already closed.
 * *user is that user, or (uid_t)-1. */
bool peer_is_ours(int descriptor, uid_t *user);

#endif
