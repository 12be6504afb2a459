/* scan.h: finds the checkpoints below a directory and registers them. */
#ifndef WATCH_SCAN_H
#define WATCH_SCAN_H

#include "base/monitor.h"
#include "postgres/connection.h"
#include "store/store.h"

struct roots;

enum { SCAN_DEPTH = 4, SCAN_MOST = 2000 };

/* A directory that contains a trajectory's checkpoints. Everything is lent. */
struct scan_place {
    const struct roots *roots;
    const char *trajectory;        /* name */
    const char *top;               /* canonical, below a root */
    const struct monitor *monitor; /* may stop the reading of files; NULL: nothing does */
};

/* Registers what it finds at `path` (below a root) and in its subdirectories, at most SCAN_DEPTH deep, under
 * `trajectory`. A checkpoint's name is its path below the directory with "-" for "/"; step, tokens and learning rate
 * come from the training state beside it, else from the name (step1000, checkpoint-500, ckpt_100, iter_0002000,
 * step1000-tokens3B). Files that changed within the last `quiet_seconds` (0: all are taken) are left for later. Answers
 * {"registered": [documents], "existing": n, "pending": [names], "failed": [{"path", "status", "detail"}]}: one broken
 * checkpoint does not stop the others. `may_be_empty`: nothing there is fine. `monitor` may end it before the next
 * checkpoint: what was registered stays. STATUS_INVALID (path; nothing there that looks like a checkpoint; more than
 * SCAN_MOST); statuses of the monitor. */
struct scan_request {
    const struct roots *roots;
    const char *trajectory, *path;
    double quiet_seconds;
    bool may_be_empty;
    const struct monitor *monitor; /* NULL: nothing ends the walk */
};
MUST_CHECK enum status scan_directory(struct connection *connection, const struct scan_request *request,
                                      json_t **document, struct error *error);

/* Calls `found` for every directory below `top` that looks like a checkpoint, for every .pt and .pth with a config.json
 * beside it or above, and for every .gguf (weights_file_is_whole), where the directory itself does not; and `directory`
 * (may be NULL) for every one it looks into, until one gives another status than STATUS_OK. A config.json is also about
 * what lies in the directories below its own, where that is no checkpoint itself and they have none. Links below the
 * top are not followed: a tree cannot lead in circles or out of the roots. What is closed (roots_closed), and what
 * trainers are still to rename (a name that begins with "." or "tmp", or ends with ".tmp", ".partial", ".incomplete"),
 * is passed over. `monitor` (may be NULL) is asked before every directory and file. */
struct scan_visitor {
    void *context;
    enum status (*found)(void *context, const char *path, struct error *error);
    void (*directory)(void *context, const char *path);
    const struct monitor *monitor;
};
MUST_CHECK enum status scan_walk(const struct roots *roots, const char *top, const struct scan_visitor *visitor,
                                 struct error *error);

/* The name of the checkpoint at `path`. */
void scan_name(const char *top, const char *path, char *out, size_t size);
/* A new item of "failed": {"path", "status", "detail"}; NULL: no memory. */
json_t *scan_failed_item(const char *name, enum status status, const char *detail);
/* Whether a checkpoint can have this name. STATUS_INVALID, with what to do. */
MUST_CHECK enum status scan_check_name(const char *name, struct error *error);

/* *signature: a hash of the attributes of the files at `path`, which changes when a file is added, removed, extended or
 * written. *newest: when the last one changed, in seconds since 1970. False when the directory is gone. */
bool scan_signature(const char *path, uint64_t *signature, double *newest);

/* Registers the checkpoint at `path`. Statuses of checkpoint_files_register and of roots_check_links. The caller owns
 * *document. */
MUST_CHECK enum status scan_register(struct connection *connection, const struct scan_place *place, const char *path,
                                     enum store_outcome *outcome, json_t **document, struct error *error);

/* Whether the status ends the scan instead of being a fault of the checkpoint that was being registered. */
bool scan_ends_with(enum status status);

/* Whether the name is one that trainers use before they rename a file or directory. */
bool scan_is_unfinished(const char *name);

/* Reads step and tokens from a name; -1 where it has none. */
void scan_read_name(const char *name, int64_t *step, int64_t *tokens);

#endif
