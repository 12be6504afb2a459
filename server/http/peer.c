#include "http/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The two ends of a connection from the peer's view, whose own end is the source. */
struct ends {
    int family;
    uint16_t source_port, target_port; /* network order */
    uint32_t source[4], target[4];     /* network order, IPv4 in the first word */
};

/* IPv4 clients of an IPv6 socket have an IPv4 socket themselves. */
static void fill_end(const struct sockaddr_storage *from, int *family, uint16_t *port, uint32_t out[4])
{
    memset(out, 0, 4 * sizeof *out);
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
        *family = AF_INET;
        *port = in->sin_port;
        out[0] = in->sin_addr.s_addr;
        return;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
    *family = mapped ? AF_INET : AF_INET6;
    *port = in6->sin6_port;
    memcpy(out, (const char *)&in6->sin6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
}

static bool is_loopback(int family, const uint32_t address[4])
{
    if (family == AF_INET) return ntohl(address[0]) >> 24 == 127;
    return address[0] == 0 && address[1] == 0 && address[2] == 0 && ntohl(address[3]) == 1;
}

static bool read_ends(int descriptor, struct ends *out)
{
    struct sockaddr_storage near, far;
    socklen_t near_length = sizeof near, far_length = sizeof far;
    int family;
    if (getsockname(descriptor, (struct sockaddr *)&near, &near_length) != 0 ||
        getpeername(descriptor, (struct sockaddr *)&far, &far_length) != 0)
        return false;
    if (near.ss_family != AF_INET && near.ss_family != AF_INET6) return false;
    fill_end(&far, &out->family, &out->source_port, out->source);
    fill_end(&near, &family, &out->target_port, out->target);
    return family == out->family && is_loopback(family, out->source) && is_loopback(family, out->target);
}

/* Asks the kernel for that one socket. A closed socket has no inode and reports user 0, so the user is believed only of
 * a socket that a process holds. The kernel reads the user before the inode. */
static bool ask(int netlink, const struct ends *ends, uid_t *user)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {.head = {.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
                 .body = {.sdiag_family = (uint8_t)ends->family,
                          .sdiag_protocol = IPPROTO_TCP,
                          .idiag_states = ~0U,
                          .id = {.idiag_sport = ends->source_port,
                                 .idiag_dport = ends->target_port,
                                 .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer;
    const struct timeval limit = {.tv_sec = 1};
    memcpy(request.body.id.idiag_src, ends->source, sizeof ends->source);
    memcpy(request.body.id.idiag_dst, ends->target, sizeof ends->target);
    if (setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return false;
    if (send(netlink, &request, sizeof request, 0) != (ssize_t)sizeof request) return false;
    const ssize_t length = recv(netlink, &answer, sizeof answer, 0);
    if (length < (ssize_t)(sizeof answer.head + sizeof(struct inet_diag_msg)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    struct inet_diag_msg found;
    memcpy(&found, answer.bytes + NLMSG_HDRLEN, sizeof found);
    *user = found.idiag_uid;
    return found.idiag_inode != 0 && found.id.idiag_sport == ends->source_port &&
           found.id.idiag_dport == ends->target_port;
}

static bool user_of_tcp(int descriptor, uid_t *user)
{
    struct ends ends = {0};
    if (!read_ends(descriptor, &ends)) return false;
    const int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0) return false;
    const bool known = ask(netlink, &ends, user);
    (void)close(netlink);
    return known;
}

static bool user_of_unix(int descriptor, uid_t *user)
{
    struct ucred credentials = {.uid = (uid_t)-1};
    socklen_t length = sizeof credentials;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
    *user = credentials.uid;
    return credentials.uid != (uid_t)-1;
}

/* The last number of the file's first line; `fallback` when there is none. */
static unsigned long last_number(const char *path, unsigned long fallback)
{
    char line[128] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) return fallback;
    const bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    const char *word = strrchr(line, ' ');
    return read ? strtoul(word != NULL ? word + 1 : line, NULL, 10) : fallback;
}

/* In a user namespace all unknown users are reported as one number, which may also be ours. */
static bool is_anybody(uid_t user)
{
    return user == last_number("/proc/sys/kernel/overflowuid", 65534) &&
           last_number("/proc/self/uid_map", 0) != UINT32_MAX;
}

uid_t peer_user(int descriptor)
{
    int domain = 0;
    socklen_t length = sizeof domain;
    uid_t user = (uid_t)-1;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return (uid_t)-1;
    const bool known = domain == AF_UNIX ? user_of_unix(descriptor, &user) : user_of_tcp(descriptor, &user);
    return known ? user : (uid_t)-1;
}

bool peer_is_ours(uid_t user)
{
    return user != (uid_t)-1 && (user == 0 || (user == geteuid() && !is_anybody(user)));
}
