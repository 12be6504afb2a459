#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, HOST_SIZE = 256 };

static enum status parse(const char *address, char *host, size_t host_size, char *port, size_t port_size,
                         struct error *error)
{
    const char *colon = strrchr(address, ':');
    const size_t host_length = colon != NULL ? (size_t)(colon - address) : 0;
    const bool bracket = address[0] == '[' && host_length > 2 && address[host_length - 1] == ']';
    const size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    const bool plain =
        host_length > 0 && memchr(address, ':', host_length) == NULL && memchr(address, '[', host_length) == NULL;
    if (colon == NULL || (!bracket && !plain) || digits == 0 || digits > 5 || colon[1 + digits] ||
        strtol(colon + 1, NULL, 10) > 65535 || host_length >= host_size)
        return error_set(error, STATUS_INVALID,
                         "--listen: expected ADDRESS:PORT (127.0.0.1:8642, [::1]:8642), found \"%.80s\"", address);
    (void)snprintf(host, host_size, "%.*s", (int)(bracket ? host_length - 2 : host_length),
                   bracket ? address + 1 : address);
    (void)snprintf(port, port_size, "%s", colon + 1);
    if (strcmp(host, "localhost") == 0) (void)snprintf(host, host_size, "127.0.0.1");
    return STATUS_OK;
}

/* loopback: 127.0.0.0/8, ::1; wildcard: 0.0.0.0, :: */
static void classify(const struct sockaddr *address, bool *loopback, bool *wildcard)
{
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        *loopback = IN6_IS_ADDR_LOOPBACK(ip);
        *wildcard = IN6_IS_ADDR_UNSPECIFIED(ip);
        return;
    }
    const uint32_t ip = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    *loopback = ip >> 24 == 127;
    *wildcard = ip == 0;
}

/* "127.0.0.1:8642" or "[::1]:8642"; *port points at the digits in `out`. */
static bool literal(const struct sockaddr *address, socklen_t length, char *out, size_t size, const char **port)
{
    char host[HOST_SIZE], service[16];
    if (getnameinfo(address, length, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    host[strcspn(host, "%")] = '\0'; /* a scope has no place in Host */
    if (strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') != NULL) memmove(host, host + 7, strlen(host + 7) + 1);
    const bool colons = strchr(host, ':') != NULL;
    (void)snprintf(out, size, "%s%s%s:%s", colons ? "[" : "", host, colons ? "]" : "", service);
    *port = strrchr(out, ':') + 1;
    return true;
}

bool listen_local_name(int descriptor, char *out, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    const char *port;
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0) return false;
    return literal((const struct sockaddr *)&address, length, out, size, &port);
}

/* Adds "name:port", or the name as it is when `port` is NULL. */
static bool host_add(char **hosts, size_t *count, const char *name, const char *port)
{
    char text[HOST_SIZE];
    (void)snprintf(text, sizeof text, "%s%s%s", name, port != NULL ? ":" : "", port != NULL ? port : "");
    hosts[*count] = strdup(text);
    return hosts[(*count)++] != NULL;
}

static bool has_port(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon != NULL && strchr(colon, ']') == NULL;
}

/* An extra name without a port is accepted with our port and with none, because behind a proxy the port is the
 * proxy's. */
static enum status hosts_build(const char *own, const char *port, bool tls, const char *const *extra, char ***out,
                               struct error *error)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t extras = 0, count = 0;
    bool good = true;
    while (extra != NULL && extra[extras] != NULL) extras++;
    char **hosts = calloc(2 * (extras + 4) + 1, sizeof *hosts);
    *out = NULL;
    if (hosts == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for host names");
    const bool standard = strcmp(port, tls ? "443" : "80") == 0;
    good = host_add(hosts, &count, own, NULL);
    for (size_t i = 0; i < 3 && good; i++) {
        good = host_add(hosts, &count, always[i], port);
        if (standard) good = good && host_add(hosts, &count, always[i], NULL);
    }
    for (size_t i = 0; i < extras && good; i++) {
        good = host_add(hosts, &count, extra[i], NULL);
        if (!has_port(extra[i])) good = good && host_add(hosts, &count, extra[i], port);
    }
    if (!good) {
        listen_hosts_free(hosts);
        return error_set(error, STATUS_NO_MEMORY, "out of memory for host names");
    }
    *out = hosts;
    return STATUS_OK;
}

void listen_hosts_free(char **hosts)
{
    for (size_t i = 0; hosts != NULL && hosts[i] != NULL; i++) free(hosts[i]);
    free(hosts);
}

static enum status bind_failed(const char *address, struct error *error)
{
    if (errno == EADDRINUSE)
        return error_set(error, STATUS_UNAVAILABLE, "%.80s is in use; stop the other server or choose another --listen",
                         address);
    if (errno == EADDRNOTAVAIL) return error_set(error, STATUS_INVALID, "%.80s is no address of this machine", address);
    return error_set(error, errno == EACCES ? STATUS_FORBIDDEN : STATUS_IO, "cannot listen on %.120s: %s", address,
                     strerror(errno));
}

/* The only numeric address that the text names; freeaddrinfo on STATUS_OK. */
static enum status resolve(const char *address, struct addrinfo **found, bool *loopback, bool *wildcard,
                           struct error *error)
{
    char host[HOST_SIZE], port[16];
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    const enum status status = parse(address, host, sizeof host, port, sizeof port, error);
    if (status != STATUS_OK) return status;
    if (getaddrinfo(host, port, &hints, found) != 0)
        return error_set(error, STATUS_INVALID,
                         "--listen: \"%.80s\" is not a numeric address; names other than localhost are not looked up",
                         host);
    classify((*found)->ai_addr, loopback, wildcard);
    return STATUS_OK;
}

/* -1 with errno on failure. */
static int open_bound(const struct addrinfo *found)
{
    const int on = 1;
    const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(descriptor, found->ai_addr, found->ai_addrlen) == 0)
        return descriptor;
    const int why = errno;
    (void)close(descriptor);
    errno = why;
    return -1;
}

enum status listen_check(const char *address, bool *loopback, struct error *error)
{
    bool wildcard;
    struct addrinfo *found = NULL;
    enum status status = resolve(address, &found, loopback, &wildcard, error);
    if (status != STATUS_OK) return status;
    const int descriptor = open_bound(found);
    if (descriptor < 0) status = bind_failed(address, error);
    freeaddrinfo(found);
    if (descriptor >= 0) (void)close(descriptor);
    return status;
}

enum status listen_refuse(const char *address, struct error *error)
{
    return error_set(
        error, STATUS_FORBIDDEN,
        "refusing to listen on %.80s without a token: others could use it; make one first (deltaq token create "
        "--scope admin, with the same --data-dir or --database-url) or listen on 127.0.0.1",
        address);
}

/* Whether a server answers on the socket. */
static bool is_served(const struct sockaddr_un *address)
{
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool served = probe >= 0 && (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 ||
                                       (errno != ECONNREFUSED && errno != ENOENT));
    if (probe >= 0) (void)close(probe);
    return served;
}

enum status listen_open_socket(const char *path, struct listener *out, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    *out = (struct listener){.descriptor = -1};
    if (strlen(path) >= sizeof address.sun_path)
        return error_set(error, STATUS_INVALID, "--socket: a path of at most %zu bytes", sizeof address.sun_path - 1);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode) && !is_served(&address)) (void)unlink(path);
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return bind_failed(path, error);
    const bool bound = bind(descriptor, (const struct sockaddr *)&address, sizeof address) == 0;
    if (!bound || chmod(path, 0666) != 0 || listen(descriptor, BACKLOG) != 0) {
        const enum status status = bind_failed(path, error);
        (void)close(descriptor);
        if (bound) (void)unlink(path);
        return status;
    }
    out->descriptor = descriptor;
    out->loopback = true;
    return STATUS_OK;
}

enum status listen_open(const char *address, const char *const *extra, bool token_configured, bool tls,
                        struct listener *out, struct error *error)
{
    char own[HOST_SIZE];
    const char *bound_port = NULL;
    struct addrinfo *found = NULL;
    struct sockaddr_storage bound;
    socklen_t bound_length = sizeof bound;
    bool loopback;
    *out = (struct listener){.descriptor = -1};
    enum status status = resolve(address, &found, &loopback, &out->wildcard, error);
    if (status != STATUS_OK) return status;
    out->ipv6 = found->ai_family == AF_INET6;
    out->loopback = loopback;
    if (!loopback && !token_configured) {
        status = listen_refuse(address, error);
        goto done;
    }
    out->descriptor = open_bound(found);
    if (out->descriptor < 0 || listen(out->descriptor, BACKLOG) != 0 ||
        getsockname(out->descriptor, (struct sockaddr *)&bound, &bound_length) != 0) {
        status = bind_failed(address, error);
        goto done;
    }
    if (!literal((const struct sockaddr *)&bound, bound_length, own, sizeof own, &bound_port)) {
        status = error_set(error, STATUS_IO, "cannot name the address that was bound");
        goto done;
    }
    (void)snprintf(out->url, sizeof out->url, "http%s://%.100s", tls ? "s" : "", own);
    status = hosts_build(own, bound_port, tls, extra, &out->hosts, error);
done:
    freeaddrinfo(found);
    if (status != STATUS_OK && out->descriptor >= 0) (void)close(out->descriptor);
    if (status != STATUS_OK) out->descriptor = -1;
    return status;
}
