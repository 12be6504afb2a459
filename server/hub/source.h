/* source.h: the source of a snapshot's files: a commit of a repository, or a directory of a bucket. */
#ifndef HUB_SOURCE_H
#define HUB_SOURCE_H

#include "hub/hub.h"
#include "hub/repository.h"
#include "objects/bucket.h"

struct source {
    const struct transfer_server *server;
    bool direct; /* the server sends the bytes itself; else it may redirect, in the same way for all ranges of a file */
    /* The address of a file. STATUS_INVALID: its name is too long. */
    enum status (*address)(const struct source *source, const struct repository_file *file, char *out, size_t size,
                           struct error *error);
    /* Writes a header for each request for the file, "Name: value". */
    void (*header)(const struct repository_file *file, char *out, size_t size);
    /* STATUS_OK when an answer of the server is about the requested file. STATUS_INPUT_CHANGED. */
    enum status (*check)(const struct source *source, const struct repository_file *file,
                         const struct transfer_head *head, struct error *error);
};

/* Everything is lent. */
struct source_of_hub {
    struct source source; /* first */
    const struct hub *hub;
    const char *repo, *commit;
};
void source_of_hub_init(struct source_of_hub *source, const struct hub *hub, const char *repo, const char *commit);

struct source_of_bucket {
    struct source source; /* first */
    struct bucket bucket;
    struct objects_place place;
};
/* STATUS_INVALID. The source points into itself, so it must not be copied. */
MUST_CHECK enum status source_of_bucket_init(struct source_of_bucket *source, const struct hub *hub, const char *repo,
                                             struct error *error);

#endif
