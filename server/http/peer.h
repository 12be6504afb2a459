/* peer.h: which user of this machine is at the other end of a connection. Every user of the machine can connect to a
 * loopback address, which on a login node may be hundreds; the kernel knows the owner of the other socket. */
#ifndef HTTP_PEER_H
#define HTTP_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whose socket the other end of the connection `descriptor` is. A unix socket tells by its peer's credentials, a TCP
 * socket of a loopback address by the kernel's sock_diag. (uid_t)-1 whenever that cannot be known: another machine,
 * another network namespace, a socket whose process has closed it already. */
uid_t peer_user(int descriptor);

/* Whether that is our own user or root, on this machine. */
bool peer_is_ours(uid_t user);

#endif
