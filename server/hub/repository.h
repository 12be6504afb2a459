/* repository.h: asks the hub about a repository: the commit of a revision, its revisions, its files. The answers are
 * not trusted: sizes, counts and lengths are bounded, and files whose names are not plain are left out. */
#ifndef HUB_REPOSITORY_H
#define HUB_REPOSITORY_H

#include "hub/digest.h"
#include "hub/hub.h"
#include "hub/names.h"
#include "objects/listing.h"
#include "transfer/asking.h"

enum { REPOSITORY_REFS_MOST = 20000, REPOSITORY_FILES_MOST = 20000, REPOSITORY_OID = 80 };

struct repository_caller {
    const struct hub *hub;
    struct asking asking;
};

struct repository_ref {
    char name[NAMES_REVISION_MOST + 1];
    char commit[NAMES_COMMIT];
    bool tag;
};

/* Large files are identified by the SHA-256 of their bytes, small ones by git's SHA-1 of a header and their bytes. */
struct repository_file {
    char name[NAMES_FILE_MOST + 1];
    char oid[REPOSITORY_OID]; /* "sha256-…" or "git-…": the name of its blob; "object-…" for a file of a bucket */
    char check[DIGEST_TEXT];  /* expected hash of its bytes (digest.h) */
    char etag[LISTING_ETAG];  /* of a bucket's object; "" for a file of the hub */
    int64_t bytes;
};

/* The present commit of `revision`. STATUS_NOT_FOUND, STATUS_FORBIDDEN (gated, private, or no such repository),
 * STATUS_UNAVAILABLE, STATUS_CORRUPT (an answer that makes no sense), STATUS_TOO_LARGE; statuses of the monitor. */
MUST_CHECK enum status repository_commit(const struct repository_caller *caller, const char *repo, const char *revision,
                                         char out[NAMES_COMMIT], struct error *error);

/* Branches and tags in the hub's order. *out is malloc'ed and the caller's. */
MUST_CHECK enum status repository_refs(const struct repository_caller *caller, const char *repo,
                                       struct repository_ref **out, size_t *count, struct error *error);

/* The files at `commit`: those at the top, or of all directories when `deep`. *out is malloc'ed and the caller's. */
MUST_CHECK enum status repository_files(const struct repository_caller *caller, const char *repo, const char *commit,
                                        bool deep, struct repository_file **out, size_t *count, struct error *error);

#endif
