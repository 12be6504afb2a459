/* source.h: where the files of a snapshot come from: a commit of a repository, or a directory of a bucket. */
#ifndef HUB_SOURCE_H
#define HUB_SOURCE_H

#include "hub/hub.h"
#include "hub/repository.h"
#include "objects/bucket.h"

struct source {
    const struct transfer_server *server;
    bool direct; /* it serves the bytes itself; else it may redirect, for all ranges of a file alike */
    /* The address of a file. STATUS_INVALID: its name is too long. */
    enum status (*address)(const struct source *source, const struct repository_file *file, char *out, size_t size,
                           struct error *error);
    /* A header of each request for it, "Name: value". */
    void (*header)(const struct repository_file *file, char *out, size_t size);
    /* Whether an answer of the server is about the file that was asked for. STATUS_INPUT_CHANGED. */
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
/* STATUS_INVALID. The source points into itself: it is not to be copied. */
MUST_CHECK enum status source_of_bucket_init(struct source_of_bucket *source, const struct hub *hub, const char *repo,
                                             struct error *error);

#endif
