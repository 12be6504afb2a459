#include "hub/hub.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* ---- its answers ---- */

/* `code` is the hub's X-Error-Code. */
static const struct transfer_meaning meanings[] = {
    {401, 401, "GatedRepo", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the repository is gated: accept its conditions on the hub and set HF_TOKEN to a token of that account"},
    {403, 403, "GatedRepo", TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the repository is gated and HF_TOKEN's account has no access: ask for it on the hub"},
    {403, 403, "DisabledRepo", TRANSFER_FAILED, STATUS_FORBIDDEN, "the hub has disabled the repository"},
    {404, 404, "RevisionNotFound", TRANSFER_FAILED, STATUS_NOT_FOUND, "the repository has no such revision"},
    {404, 404, "EntryNotFound", TRANSFER_FAILED, STATUS_NOT_FOUND, "the repository has no such file at that revision"},
    {401, 401, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN,
     "the hub wants a token: the repository is private, gated, or does not exist; set HF_TOKEN or look at its name"},
    {403, 403, NULL, TRANSFER_FAILED, STATUS_FORBIDDEN, "the hub refuses access"},
    {404, 404, NULL, TRANSFER_FAILED, STATUS_NOT_FOUND, "the hub has no such repository"},
    {408, 408, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub ran out of time"},
    {429, 429, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub limits the rate of requests"},
    {500, 599, NULL, TRANSFER_AGAIN, STATUS_UNAVAILABLE, "the hub is in trouble"},
    {0, 999, NULL, TRANSFER_FAILED, STATUS_CORRUPT, "an answer that the hub does not give"},
};

static enum status add_token(const struct transfer_server *server, const struct transfer_request *request,
                             struct transfer *transfer, struct error *error)
{
    const struct hub *hub = (const void *)server;
    (void)request;
    if (hub->token == NULL) return STATUS_OK;
    char *value = NULL;
    bool good = asprintf(&value, "Bearer %s", hub->token) >= 0;
    if (good) {
        good = transfer_secret_header(transfer, "Authorization", value);
        explicit_bzero(value, strlen(value));
        free(value);
    }
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a request to the hub");
}

/* ---- its options ---- */

static enum status read_endpoint(const char *text, struct hub *hub, struct error *error)
{
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '/') length--;
    if (length >= sizeof hub->endpoint)
        return error_set(error, STATUS_INVALID, "--hub-endpoint (HF_ENDPOINT): address too long");
    memcpy(hub->endpoint, text, length);
    if (!origin_read(hub->endpoint, &hub->server.origin) || strpbrk(hub->endpoint, "?#") != NULL)
        return error_set(
            error, STATUS_INVALID,
            "--hub-endpoint (HF_ENDPOINT): must be an address like https://huggingface.co, without user or query");
    if (!origin_allowed(&hub->server.origin, &hub->server.origin))
        return error_set(error, STATUS_INVALID,
                         "--hub-endpoint (HF_ENDPOINT): must be https; http is taken on a loopback address only");
    return STATUS_OK;
}

/* Refuses control characters, which would end the header that carries the token. */
static enum status read_token(const char *text, struct hub *hub, struct error *error)
{
    if (text == NULL || text[0] == '\0') return STATUS_OK;
    for (const char *at = text; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            return error_set(error, STATUS_INVALID, "HF_TOKEN: has characters that no token has");
    hub->token = strdup(text);
    return hub->token != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a token");
}

static enum status read_size(const char *text, struct hub *hub, struct error *error)
{
    static const char units[] = "KMGT";
    char *end;
    if (text == NULL || text[0] == '\0') return STATUS_OK;
    double value = strtod(text, &end);
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    for (const char *at = units; unit != NULL && at <= unit; at++) value *= 1024;
    if (end == text || (*end != '\0' && (unit == NULL || end[1] != '\0')) || !isfinite(value) || value < 1 ||
        value > 9e18)
        return error_set(error, STATUS_INVALID, "--hub-cache: must be a size like 200G, found \"%.40s\"", text);
    hub->cache_bytes = (int64_t)value;
    return STATUS_OK;
}

/* Makes the directory; without a given size the bound is half of its file system. */
static enum status make_directory(const char *data_directory, struct hub *hub, struct error *error)
{
    struct statvfs space;
    if (asprintf(&hub->directory, "%s/hub", data_directory) < 0) {
        hub->directory = NULL;
        return error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    }
    if (mkdir(hub->directory, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO, "making %.300s: %s", hub->directory, strerror(errno));
    if (hub->cache_bytes > 0) return STATUS_OK;
    if (statvfs(hub->directory, &space) != 0)
        return error_set(error, STATUS_IO, "looking at the file system of %.300s: %s", hub->directory, strerror(errno));
    hub->cache_bytes = (int64_t)((double)space.f_blocks * (double)space.f_frsize / 2);
    return STATUS_OK;
}

static enum status read_options(const struct hub_options *options, struct hub *hub, struct error *error)
{
    enum status status;
    hub->server = (struct transfer_server){.name = "the hub", .meanings = meanings, .authorize = add_token};
    if ((status = read_endpoint(options->endpoint, hub, error)) != STATUS_OK) return status;
    if ((status = read_token(options->token, hub, error)) != STATUS_OK) return status;
    hub->server.allow_private = options->allow_private;
    return read_size(options->cache, hub, error);
}

static void forget_token(struct hub *hub)
{
    if (hub->token != NULL) explicit_bzero(hub->token, strlen(hub->token));
    free(hub->token);
}

enum status hub_check(const struct hub_options *options, struct error *error)
{
    struct hub hub = {0};
    const enum status status = read_options(options, &hub, error);
    forget_token(&hub);
    return status == STATUS_OK ? objects_check(&options->objects, error) : status;
}

enum status hub_new(const struct hub_options *options, struct hub **out, struct error *error)
{
    enum status status;
    struct hub *hub = calloc(1, sizeof *hub);
    *out = NULL;
    if (hub == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(hub);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the hub");
    }
    if ((hub->visitors = calloc(1, sizeof *hub->visitors)) == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the hub");
        goto done;
    }
    if ((status = read_options(options, hub, error)) != STATUS_OK) goto done;
    if ((status = objects_new(&options->objects, &hub->objects, error)) != STATUS_OK) goto done;
    status = make_directory(options->data_directory, hub, error);
done:
    if (status != STATUS_OK)
        hub_free(hub);
    else
        *out = hub;
    return status;
}

void hub_free(struct hub *hub)
{
    if (hub == NULL) return;
    forget_token(hub);
    objects_free(hub->objects);
    free(hub->directory);
    free(hub->visitors);
    free(hub);
    curl_global_cleanup();
}

enum status hub_enter(const struct hub *hub, struct error *error)
{
    if (atomic_fetch_add(hub->visitors, 1) < HUB_VISITORS) return STATUS_OK;
    hub_leave(hub);
    return error_set(error, STATUS_TOO_MANY, "%d requests wait for the hub already; try again when they have ended",
                     HUB_VISITORS);
}

void hub_leave(const struct hub *hub)
{
    (void)atomic_fetch_sub(hub->visitors, 1);
}
