#include "hub/source.h"

#include "transfer/escape.h"

#include <stdio.h>
#include <string.h>

/* ---- the hub ---- */

static enum status hub_address(const struct source *source, const struct repository_file *file, char *out, size_t size,
                               struct error *error)
{
    const struct source_of_hub *from = (const void *)source;
    char name[3 * NAMES_FILE_MOST + 8];
    if (escape_text(file->name, true, name, sizeof name) &&
        snprintf(out, size, "%s/%s/resolve/%s/%s", from->hub->endpoint, from->repo, from->commit, name) < (int)size)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%.200s: the name is too long", file->name);
}

static void hub_header(const struct repository_file *file, char *out, size_t size)
{
    (void)file;
    (void)snprintf(out, size, "Accept-Encoding: identity");
}

/* The hub's own answers name commit, hash and size. */
static enum status hub_check_answer(const struct source *source, const struct repository_file *file,
                                    const struct transfer_head *head, struct error *error)
{
    const struct source_of_hub *from = (const void *)source;
    const bool large = strncmp(file->oid, "sha256-", 7) == 0;
    if (head->commit[0] != '\0' && strcmp(head->commit, from->commit) != 0)
        return error_set(error, STATUS_INPUT_CHANGED, "%.200s: the hub answers with commit %.40s instead of %.40s",
                         file->name, head->commit, from->commit);
    if (large && ((head->linked_etag[0] != '\0' && strcmp(head->linked_etag, file->oid + 7) != 0) ||
                  (head->linked_bytes >= 0 && head->linked_bytes != file->bytes)))
        return error_set(error, STATUS_INPUT_CHANGED, "%.200s: the hub names another content than in its list of files",
                         file->name);
    return STATUS_OK;
}

void source_of_hub_init(struct source_of_hub *source, const struct hub *hub, const char *repo, const char *commit)
{
    *source = (struct source_of_hub){
        .source = {.server = &hub->server, .address = hub_address, .header = hub_header, .check = hub_check_answer},
        .hub = hub,
        .repo = repo,
        .commit = commit,
    };
}

/* ---- a bucket ---- */

static enum status bucket_address(const struct source *source, const struct repository_file *file, char *out,
                                  size_t size, struct error *error)
{
    const struct source_of_bucket *from = (const void *)source;
    char key[OBJECTS_PLACE_KEY];
    if (size >= BUCKET_URL && objects_place_key(&from->place, file->name, key))
        return bucket_url(&from->bucket, key, "", out, error);
    return error_set(error, STATUS_INVALID, "%.200s: the key is too long", file->name);
}

/* Sent with every range, so that an object which is replaced between two of them is refused. */
static void bucket_header(const struct repository_file *file, char *out, size_t size)
{
    (void)snprintf(out, size, "If-Match: \"%s\"", file->etag);
}

static enum status bucket_check_answer(const struct source *source, const struct repository_file *file,
                                       const struct transfer_head *head, struct error *error)
{
    (void)source;
    if (head->etag[0] == '\0' || strcmp(head->etag, file->etag) == 0) return STATUS_OK;
    return error_set(error, STATUS_INPUT_CHANGED, "%.200s: the object is not the one any more that was listed",
                     file->name);
}

enum status source_of_bucket_init(struct source_of_bucket *source, const struct hub *hub, const char *repo,
                                  struct error *error)
{
    *source = (struct source_of_bucket){.source = {.server = &source->bucket.server,
                                                   .direct = true,
                                                   .address = bucket_address,
                                                   .header = bucket_header,
                                                   .check = bucket_check_answer}};
    const enum status status = objects_place_read(repo, "", &source->place, error);
    return status == STATUS_OK ? bucket_init(hub->objects, source->place.bucket, &source->bucket, error) : status;
}
