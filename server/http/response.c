#include "http/response.h"

#include "http/exchange.h"
#include "http/json_answer.h"
#include "http/stream_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void response_init(struct response *response, struct streams *streams)
{
    *response = (struct response){.file = -1, .streams = streams};
}

void response_drop_headers(struct response *response)
{
    for (size_t i = 0; i < response->header_count; i++) free(response->headers[i].value);
    response->header_count = 0;
}

void response_reset(struct response *response)
{
    struct streams *streams = response->streams;
    const char *client = response->client, *token = response->token;
    if (!response->lent) free(response->bytes);
    if (response->file >= 0) (void)close(response->file);
    response_drop_headers(response);
    json_decref(response->errors);
    streams_discard(response->stream);
    response_init(response, streams);
    response->client = client;
    response->token = token;
}

/* Drops an earlier body; headers and errors stay. */
static void response_clear(struct response *response)
{
    if (!response->lent) free(response->bytes);
    if (response->file >= 0) (void)close(response->file);
    streams_discard(response->stream);
    response->bytes = NULL;
    response->length = 0;
    response->lent = response->gzip = false;
    response->file = -1;
    response->stream = NULL;
    response->kind = RESPONSE_UNSET;
}

enum status response_take(struct response *response, int http_status, const char *content_type, char *bytes,
                          size_t length, struct error *error)
{
    response_clear(response);
    if (bytes == NULL && length > 0) return error_set(error, STATUS_NO_MEMORY, "out of memory for the answer");
    response->kind = RESPONSE_BYTES;
    response->http_status = http_status;
    (void)snprintf(response->content_type, sizeof response->content_type, "%s", content_type);
    response->bytes = bytes;
    response->length = length;
    return STATUS_OK;
}

enum status response_json(struct response *response, int http_status, json_t *value, struct error *error)
{
    char *text = value != NULL ? json_answer_dump(value) : NULL;
    json_decref(value);
    if (text == NULL) return error_set(error, STATUS_NO_MEMORY, "the answer could not be rendered as JSON");
    return response_take(response, http_status, "application/json", text, strlen(text), error);
}

enum status response_bytes(struct response *response, int http_status, const char *content_type, const void *bytes,
                           size_t length, struct error *error)
{
    char *copy = malloc(length + 1);
    if (copy == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the answer");
    if (length) memcpy(copy, bytes, length);
    copy[length] = '\0';
    return response_take(response, http_status, content_type, copy, length, error);
}

enum status response_file(struct response *response, const char *content_type, int file, int64_t size, const char *etag,
                          struct error *error)
{
    response_clear(response);
    if (file < 0 || size < 0) {
        if (file >= 0) (void)close(file);
        return error_set(error, STATUS_INTERNAL, "a file answer needs an open file and its size");
    }
    response->kind = RESPONSE_FILE;
    response->http_status = 200;
    (void)snprintf(response->content_type, sizeof response->content_type, "%s", content_type);
    (void)snprintf(response->etag, sizeof response->etag, "%s", etag != NULL ? etag : "");
    response->file = file;
    response->file_from = 0;
    response->file_size = size;
    return STATUS_OK;
}

void response_empty(struct response *response, int http_status)
{
    response_clear(response);
    response->kind = RESPONSE_EMPTY;
    response->http_status = http_status;
}

void response_recorded(struct response *response)
{
    response->recorded = true;
}

enum status response_header(struct response *response, const char *name, const char *value, struct error *error)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return error_set(error, STATUS_INTERNAL, "header %s: control character", name);
    if (response->header_count == RESPONSE_HEADERS_MAX || strlen(name) >= sizeof response->headers[0].name)
        return error_set(error, STATUS_INTERNAL, "header %s: too many, or too long a name", name);
    char *copy = strdup(value);
    if (copy == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for a header");
    struct response_header *header = &response->headers[response->header_count++];
    (void)snprintf(header->name, sizeof header->name, "%s", name);
    header->value = copy;
    return STATUS_OK;
}

void response_add_error(struct response *response, const char *pointer, const char *detail)
{
    if (response->errors == NULL) response->errors = json_array();
    if (json_array_size(response->errors) >= RESPONSE_ERRORS_MAX) return;
    json_t *entry = json_pack("{s:s, s:s}", "pointer", pointer, "detail", detail);
    if (entry != NULL) (void)json_array_append_new(response->errors, entry);
}

void response_to_work(struct response *response)
{
    response->kind = RESPONSE_TO_WORK;
}

void response_wait(struct response *response, const char *topic, double seconds)
{
    response_clear(response);
    response->kind = RESPONSE_WAIT;
    response->wait_seconds = seconds;
    (void)snprintf(response->topic, sizeof response->topic, "%s", topic);
}

void response_remember(struct response *response, const char *memo)
{
    (void)snprintf(response->memo, sizeof response->memo, "%s", memo);
}

enum status response_stream(struct response *response, const char *topic, const struct stream_ops *ops, void *state,
                            struct error *error)
{
    response_clear(response);
    const struct stream_owner owner = {.client = response->client, .token = response->token};
    enum status status = streams_new(response->streams, &owner, topic, ops, state, &response->stream, error);
    if (status != STATUS_OK) return status;
    response->kind = RESPONSE_STREAM;
    response->http_status = 200;
    (void)snprintf(response->content_type, sizeof response->content_type, "text/event-stream");
    return STATUS_OK;
}

enum status response_escape_segment(const char *text, char *out, size_t size, struct error *error)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t used = 0;
    for (const char *c = text; *c; c++) {
        const bool escape = strchr(plain, *c) == NULL;
        if (used + (escape ? 3 : 1) >= size)
            return error_set(error, STATUS_TOO_LARGE, "the name is too long for an address");
        if (escape) {
            (void)snprintf(out + used, 4, "%%%02X", (unsigned)(unsigned char)*c);
            used += 3;
        } else {
            out[used++] = *c;
        }
    }
    if (size == 0) return error_set(error, STATUS_TOO_LARGE, "no space for an address");
    out[used] = '\0';
    return STATUS_OK;
}
