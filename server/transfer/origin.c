#include "transfer/origin.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One part of the address into `out`; false when it is missing or too long. */
static bool part(CURLU *handle, CURLUPart which, unsigned flags, char *out, size_t size)
{
    char *text = NULL;
    const bool good = curl_url_get(handle, which, &text, flags) == CURLUE_OK && text != NULL && strlen(text) < size;
    if (good)
        for (size_t i = 0; i <= strlen(text); i++) out[i] = (char)tolower((unsigned char)text[i]);
    curl_free(text);
    return good;
}

static bool absent(CURLU *handle, CURLUPart which)
{
    char *text = NULL;
    const bool none = curl_url_get(handle, which, &text, 0) != CURLUE_OK;
    curl_free(text);
    return none;
}

bool origin_read(const char *url, struct origin *out)
{
    char port[16];
    CURLU *handle = curl_url();
    *out = (struct origin){0};
    const bool good = handle != NULL && curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK &&
                      absent(handle, CURLUPART_USER) && absent(handle, CURLUPART_PASSWORD) &&
                      part(handle, CURLUPART_SCHEME, 0, out->scheme, sizeof out->scheme) &&
                      part(handle, CURLUPART_HOST, 0, out->host, sizeof out->host) &&
                      part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof port) &&
                      (strcmp(out->scheme, "http") == 0 || strcmp(out->scheme, "https") == 0);
    if (good) out->port = (int)strtol(port, NULL, 10);
    curl_url_cleanup(handle);
    return good;
}

bool origin_equal(const struct origin *a, const struct origin *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->host, b->host) == 0 && a->port == b->port;
}

bool origin_is_loopback(const struct origin *origin)
{
    struct in_addr address;
    if (strcmp(origin->host, "localhost") == 0 || strcmp(origin->host, "[::1]") == 0) return true;
    return inet_pton(AF_INET, origin->host, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

bool origin_allowed(const struct origin *origin, const struct origin *endpoint)
{
    if (strcmp(origin->scheme, "https") == 0) return true;
    return strcmp(endpoint->scheme, "http") == 0 && origin_is_loopback(endpoint) && origin_is_loopback(origin);
}
