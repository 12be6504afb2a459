#include "http/request_body.h"

#include "http/json_body.h"
#include "json/tree_cost.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { TRIM_BYTES = 1 << 20 }; /* freed memory above this size is returned to the system */

/* Takes `bytes` more for this request. False: *wait or the error says why. */
static bool reserve(struct exchange *exchange, size_t bytes, bool *wait, struct error *error)
{
    struct bodies *bodies = &exchange->server->bodies;
    const size_t all = exchange->parsed_bytes + bytes;
    if (all > bodies->parsed_limit) {
        (void)error_set(error, STATUS_TOO_LARGE,
                        "the body takes %zu MiB of memory when it is parsed, at most %zu are taken: send it in parts",
                        (all >> 20) + 1, bodies->parsed_limit >> 20);
        return false;
    }
    *wait = !bodies_reserve(bodies, bytes);
    if (!*wait) exchange->parsed_bytes = all;
    return !*wait;
}

/* Lends the text from memory, or reads it from its file. */
static enum status load(struct exchange *exchange, bool *wait, struct error *error)
{
    struct body *body = &exchange->body;
    if (body->file == NULL) { /* moved, not copied: the body keeps its length for the key's hash */
        exchange->text = body->bytes;
        return STATUS_OK;
    }
    if (!reserve(exchange, body->length, wait, error)) return *wait ? STATUS_OK : error->status;
    if ((exchange->text = malloc(body->length)) == NULL)
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the body");
    return body_read(body, 0, exchange->text, body->length, error);
}

static void unload(struct exchange *exchange)
{
    if (exchange->text != exchange->body.bytes) free(exchange->text);
    exchange->text = NULL;
}

static enum status parse(struct exchange *exchange, const char *text, size_t length, bool *wait, struct error *error)
{
    if (!reserve(exchange, tree_cost(text, length), wait, error)) return *wait ? STATUS_OK : error->status;
    return json_body_parse(text, length, &exchange->request.body, error);
}

/* Finds the member called `name` of the object in the text, and checks the grammar of the whole text. *out is empty
 * when the text is no object or lacks the member. */
static enum status find_member(const char *text, size_t length, const char *name, struct json_reader_text *out,
                               struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key;
    json_reader_init(&reader, "the body", text, length, NULL, error);
    if (json_reader_peek(&reader) == JSON_READER_OBJECT) {
        (void)json_reader_object(&reader);
        while (json_reader_next_key(&reader, &key))
            if (out->size == 0 && json_reader_is(key, name)) (void)json_reader_skip(&reader, out);
    }
    return json_reader_finish(&reader);
}

/* Parses everything except the large member, which is null in the tree. */
static enum status split(struct exchange *exchange, bool *wait, struct error *error)
{
    static const char null[] = "null";
    struct request *request = &exchange->request;
    const char *text = exchange->text;
    const size_t length = exchange->body.length;
    struct json_reader_text large = {0};
    enum status status = find_member(text, length, exchange->route->large, &large, error);
    if (status != STATUS_OK) return status;
    if (large.size == 0) large = (struct json_reader_text){text + length, 0};
    const size_t before = (size_t)(large.bytes - text), behind = length - before - large.size;
    const size_t filler = large.size > 0 ? sizeof null - 1 : 0;
    if (before + behind > HTTP_BODY_LIMIT)
        return error_set(error, STATUS_TOO_LARGE, "the body has %zu bytes beside \"%s\", at most %d are taken",
                         before + behind, exchange->route->large, HTTP_BODY_LIMIT);
    char *rest = malloc(before + filler + behind);
    if (rest == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the body");
    memcpy(rest, text, before);
    memcpy(rest + before, null, filler);
    memcpy(rest + before + filler, large.bytes + large.size, behind);
    status = parse(exchange, rest, before + filler + behind, wait, error);
    free(rest);
    if (large.size > 0 && !json_reader_is(large, null)) request->large = large;
    return status;
}

enum status request_body_parse(struct exchange *exchange, bool *wait, struct error *error)
{
    *wait = false;
    if (exchange->body.length == 0) {
        if (exchange->route->body != ROUTE_BODY_REQUIRED) return STATUS_OK;
        return error_set(error, STATUS_MALFORMED, "this request needs a JSON body");
    }
    enum status status = load(exchange, wait, error);
    if (status == STATUS_OK && !*wait)
        status = exchange->route->large != NULL ? split(exchange, wait, error)
                                                : parse(exchange, exchange->text, exchange->body.length, wait, error);
    if (status != STATUS_OK || *wait) request_body_drop(exchange);
    if (exchange->route->large == NULL) unload(exchange);
    return status;
}

void request_body_drop(struct exchange *exchange)
{
    const size_t reserved = exchange->parsed_bytes;
    unload(exchange);
    json_decref(exchange->request.body);
    exchange->request.body = NULL;
    exchange->request.large = (struct json_reader_text){0};
    exchange->parsed_bytes = 0;
    if (reserved >= TRIM_BYTES) (void)malloc_trim(0); /* before others take it: small blocks stay otherwise */
    bodies_release(&exchange->server->bodies, reserved);
}
