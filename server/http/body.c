#include "http/body.h"

#include "files/spill.h"

#include <stdlib.h>
#include <string.h>

/* Counts `bytes` more of this body. False when all bodies together would exceed the limit. */
static bool count(struct bodies *bodies, struct body *body, size_t bytes)
{
    if (atomic_fetch_add(&bodies->received, bytes) + bytes > bodies->received_limit) {
        (void)atomic_fetch_sub(&bodies->received, bytes);
        return false;
    }
    body->counted += bytes;
    return true;
}

static enum status too_many(struct error *error)
{
    return error_set(error, STATUS_UNAVAILABLE, "too many bodies are being received; try again later");
}

/* Moves the bytes in memory to a file. */
static enum status spill(struct bodies *bodies, struct body *body, uint64_t declared, struct error *error)
{
    enum status status = spill_open(bodies->directory, (int64_t)declared, "a request's body", &body->file, error);
    if (status == STATUS_OK) status = spill_write(body->file, 0, body->bytes, body->length, error);
    free(body->bytes);
    body->bytes = NULL;
    return status;
}

enum status body_append(struct bodies *bodies, struct body *body, const char *bytes, size_t size, uint64_t declared,
                        struct error *error)
{
    const size_t wanted = body->length + size;
    const size_t all = declared > wanted ? (size_t)declared : wanted;
    enum status status = STATUS_OK;
    if (all > body->counted && !count(bodies, body, all - body->counted)) return too_many(error);
    if (body->file == NULL && all > BODY_SMALL) status = spill(bodies, body, declared, error);
    if (status != STATUS_OK) return status;
    if (body->file != NULL) {
        status = spill_write(body->file, (int64_t)body->length, bytes, size, error);
    } else {
        if (body->bytes == NULL && (body->bytes = malloc(BODY_SMALL)) == NULL)
            return error_set(error, STATUS_NO_MEMORY, "out of memory for the body");
        memcpy(body->bytes + body->length, bytes, size);
    }
    if (status == STATUS_OK) body->length = wanted;
    return status;
}

enum status body_read(const struct body *body, size_t at, void *out, size_t size, struct error *error)
{
    if (body->file != NULL) return spill_read(body->file, (int64_t)at, out, size, error);
    if (size > 0) memcpy(out, body->bytes + at, size);
    return STATUS_OK;
}

void body_reset(struct bodies *bodies, struct body *body)
{
    (void)atomic_fetch_sub(&bodies->received, body->counted);
    free(body->bytes);
    spill_close(body->file);
    *body = (struct body){0};
}

bool bodies_reserve(struct bodies *bodies, size_t bytes)
{
    const size_t before = atomic_fetch_add(&bodies->parsed, bytes);
    if (bytes <= BODY_FREE || before + bytes <= bodies->parsed_limit) return true;
    (void)atomic_fetch_sub(&bodies->parsed, bytes);
    return false;
}

void bodies_release(struct bodies *bodies, size_t bytes)
{
    (void)atomic_fetch_sub(&bodies->parsed, bytes);
}
