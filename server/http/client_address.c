#include "http/client_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MOST = 64 };

static struct client_address of_ipv6(const struct in6_addr *from)
{
    const bool mapped = IN6_IS_ADDR_V4MAPPED(from);
    struct client_address out = {.family = mapped ? AF_INET : AF_INET6};
    memcpy(out.bytes, (const char *)from + (mapped ? 12 : 0), mapped ? 4 : 16);
    return out;
}

struct client_address client_address_of(const struct sockaddr *peer)
{
    struct client_address out = {.family = AF_UNIX};
    if (peer->sa_family == AF_INET6) return of_ipv6(&((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr);
    if (peer->sa_family != AF_INET) return out;
    out.family = AF_INET;
    memcpy(out.bytes, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    return out;
}

static bool parse(const char *text, struct client_address *out)
{
    struct in6_addr six;
    *out = (struct client_address){.family = AF_INET};
    if (inet_pton(AF_INET, text, out->bytes) == 1) return true;
    if (inet_pton(AF_INET6, text, &six) != 1) return false;
    *out = of_ipv6(&six);
    return true;
}

/* ---- trusted proxies ---- */

static unsigned width(const struct client_address *address)
{
    return address->family == AF_INET ? 32 : address->family == AF_INET6 ? 128 : 0;
}

/* Returns false when it is no network; the caller sets STATUS_INVALID. */
static bool parse_network(const char *text, struct client_network *out)
{
    char word[WORD_MOST];
    const size_t length = strcspn(text, "/");
    const char *bits = text[length] == '/' ? text + length + 1 : NULL;
    *out = (struct client_network){.address.family = AF_UNIX};
    if (strcmp(text, "unix") == 0) return true;
    if (length >= sizeof word) return false;
    (void)snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (!parse(word, &out->address)) return false;
    out->bits = width(&out->address);
    if (bits == NULL) return true;
    const size_t digits = strspn(bits, "0123456789");
    if (digits == 0 || digits > 3 || bits[digits] != '\0') return false;
    const unsigned long given = strtoul(bits, NULL, 10);
    const bool fits = given <= out->bits;
    out->bits = (unsigned)given;
    return fits;
}

enum status client_networks_parse(const char *const *texts, struct client_networks *out, struct error *error)
{
    *out = (struct client_networks){0};
    for (; *texts != NULL; texts++) {
        if (out->count == CLIENT_NETWORKS_MOST)
            return error_set(error, STATUS_INVALID, "--trust-proxy: at most %d addresses", CLIENT_NETWORKS_MOST);
        if (!parse_network(*texts, &out->items[out->count++]))
            return error_set(error, STATUS_INVALID,
                             "--trust-proxy: expected an address, a network (10.0.0.0/8) or \"unix\", found \"%.80s\"",
                             *texts);
    }
    return STATUS_OK;
}

static bool is_in(const struct client_address *address, const struct client_network *network)
{
    const unsigned bytes = network->bits / 8, rest = network->bits % 8;
    if (address->family != network->address.family) return false;
    if (memcmp(address->bytes, network->address.bytes, bytes) != 0) return false;
    return rest == 0 || (address->bytes[bytes] ^ network->address.bytes[bytes]) >> (8 - rest) == 0;
}

static bool is_trusted(const struct client_address *address, const struct client_networks *trusted)
{
    for (size_t i = 0; trusted != NULL && i < trusted->count; i++)
        if (is_in(address, &trusted->items[i])) return true;
    return false;
}

/* ---- X-Forwarded-For ---- */

/* "192.0.2.7", "192.0.2.7:4711", "2001:db8::1", "[2001:db8::1]:4711"; some proxies add the port. */
static bool parse_word(const char *text, size_t length, struct client_address *out)
{
    char word[WORD_MOST];
    while (length > 0 && (text[0] == ' ' || text[0] == '\t')) text++, length--;
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) length--;
    if (length == 0 || length >= sizeof word) return false;
    (void)snprintf(word, sizeof word, "%.*s", (int)length, text);
    char *colon = strchr(word, ':'), *bracket = strchr(word, ']');
    if (word[0] == '[' && bracket != NULL && (bracket[1] == '\0' || bracket[1] == ':')) {
        *bracket = '\0';
        return parse(word + 1, out);
    }
    if (colon != NULL && strchr(colon + 1, ':') == NULL) *colon = '\0';
    return parse(word, out);
}

/* Reads one header from its end. True: *address is the client, and earlier addresses do not count. */
static bool walk_back(const char *value, const struct client_networks *trusted, struct client_address *address)
{
    size_t end = strlen(value);
    while (true) {
        size_t begin = end;
        while (begin > 0 && value[begin - 1] != ',') begin--;
        struct client_address found;
        if (!parse_word(value + begin, end - begin, &found)) return true;
        *address = found;
        if (!is_trusted(&found, trusted)) return true;
        if (begin == 0) return false;
        end = begin - 1;
    }
}

struct client_address client_address_forwarded(const struct client_address *peer, const struct client_networks *trusted,
                                               const struct request *request, bool *proxied)
{
    struct client_address address = *peer;
    *proxied = false;
    if (!is_trusted(peer, trusted)) return address;
    for (size_t i = request->header_count; i-- > 0;) {
        if (strcasecmp(request->headers[i].name, "X-Forwarded-For") != 0) continue;
        *proxied = true;
        if (walk_back(request->headers[i].value, trusted, &address)) break;
    }
    return address;
}

/* ---- forms ---- */

struct client_address client_address_network(const struct client_address *address)
{
    struct client_address out = *address;
    if (out.family == AF_INET6) memset(out.bytes + 8, 0, 8);
    return out;
}

bool client_address_is_here(const struct client_address *address)
{
    static const unsigned char six[16] = {[15] = 1};
    if (address->family == AF_INET) return address->bytes[0] == 127;
    return address->family == AF_UNIX || memcmp(address->bytes, six, sizeof six) == 0;
}

bool client_address_same(const struct client_address *a, const struct client_address *b)
{
    return a->family == b->family && a->user == b->user && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* No network has anything in the last eight bytes, so family and user fit there. */
void client_address_key(const struct client_address *address, unsigned char out[16])
{
    const struct client_address network = client_address_network(address);
    memcpy(out, network.bytes, sizeof network.bytes);
    memcpy(out + 8, &network.user, sizeof network.user);
    out[sizeof network.bytes - 1] = (unsigned char)network.family;
}

void client_address_text(const struct client_address *address, char out[INET6_ADDRSTRLEN])
{
    if (address->family == AF_UNIX || inet_ntop(address->family, address->bytes, out, INET6_ADDRSTRLEN) == NULL)
        (void)snprintf(out, INET6_ADDRSTRLEN, "unix");
}
