/* place.h: the surroundings of a command: data directory, roots, files that came with the binary, database. */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include "base/error.h"
#include "cli/options.h"
#include "cli/secret_files.h"
#include "files/file_guard.h"
#include "inputs/roots.h"
#include "postgres/connection.h"

#include <jansson.h>

struct embedded;
struct embedded_options;
struct hub;

enum { PLACE_PATH = 4096, PLACE_ROOTS = 64 };

/* Option rows that several commands have. */
#define PLACE_DATA_DIR                                                 \
    {                                                                  \
        "--data-dir", "DIR", "DELTAQ_DATA_DIR", NULL, OPTION_ONCE,     \
            "Database, artifacts, checkpoints ($XDG_DATA_HOME/deltaq)" \
    }
#define PLACE_ROOT                                                              \
    {                                                                           \
        "--root", "DIR", "DELTAQ_ROOT", NULL, OPTION_COLONS,                    \
            "Paths in requests must lie below one (data and working directory)" \
    }
#define PLACE_DATABASE_URL                                                                                            \
    {                                                                                                                 \
        "--database-url", "URL", "DATABASE_URL", NULL, OPTION_ONCE, "A PostgreSQL server instead of the embedded one" \
    }

#define PLACE_HUB_ENDPOINT                                                             \
    {                                                                                  \
        "--hub-endpoint", "URL", "HF_ENDPOINT", "https://huggingface.co", OPTION_ONCE, \
            "Where repositories are fetched from (HF_TOKEN)"                           \
    }
#define PLACE_HUB_PRIVATE                                                               \
    {                                                                                   \
        "--allow-private-hub", NULL, "DELTAQ_ALLOW_PRIVATE_HUB", NULL, OPTION_ONCE,     \
            "The hub may redirect to addresses of this machine and of private networks" \
    }
#define PLACE_HUB_CACHE                                                   \
    {                                                                     \
        "--hub-cache", "SIZE", "DELTAQ_HUB_CACHE", NULL, OPTION_ONCE,     \
            "What may be kept of it, like 200G (half of the file system)" \
    }

/* Object storage; its credentials come from the environment and other sources (objects/credentials.h). */
#define PLACE_S3_ENDPOINT                                                 \
    {                                                                     \
        "--s3-endpoint", "URL", "AWS_ENDPOINT_URL_S3", NULL, OPTION_ONCE, \
            "The server of s3:// places (Amazon's of the region)"         \
    }
#define PLACE_S3_REGION                                                                                           \
    {                                                                                                             \
        "--s3-region", "NAME", "AWS_REGION", NULL, OPTION_ONCE, "Its region (AWS_DEFAULT_REGION, else us-east-1)" \
    }

#define PLACE_ARTIFACTS                                                      \
    {                                                                        \
        "--artifacts", "PLACE", "DELTAQ_ARTIFACTS", NULL, OPTION_ONCE,       \
            "s3://BUCKET/PREFIX that gets the artifacts of all workers, too" \
    }

/* The options for the hub and object storage. */
#define PLACE_ACCESS \
    PLACE_HUB_ENDPOINT, PLACE_HUB_PRIVATE, PLACE_HUB_CACHE, PLACE_S3_ENDPOINT, PLACE_S3_REGION, PLACE_ARTIFACTS

/* The bucket of artifacts, and the options for reaching it, for commands that read no checkpoints. */
#define PLACE_STORE PLACE_S3_ENDPOINT, PLACE_S3_REGION, PLACE_ARTIFACTS

#define PLACE_DEVICE                                                                                                  \
    {                                                                                                                 \
        "--device", "DEVICE", "DELTAQ_DEVICE", "auto", OPTION_ONCE,                                                   \
            "cpu or cuda:0,1, a number, UUID or PCI address each; auto: CUDA devices that pass a self-test, else cpu" \
    }

/* Host memory, for workers and for plans that a server computes. */
#define PLACE_MEMORY                                                                                             \
    {                                                                                                            \
        "--memory", "MIB", "DELTAQ_MEMORY", "0", OPTION_ONCE, "Host memory that a run may take; 0: what is free" \
    }
/* Device memory, for workers and for plans that a server computes. */
#define PLACE_DEVICE_MEMORY                                                       \
    {                                                                             \
        "--device-memory", "SIZE", "DELTAQ_DEVICE_MEMORY", "0", OPTION_ONCE,      \
            "Of a CUDA device that a worker may take, like 20G; 0: what is free " \
            "when a run is planned, less a reserve"                               \
    }
#define PLACE_AFFINITY_GRACE                                                                                       \
    {                                                                                                              \
        "--affinity-grace", "SECONDS", "DELTAQ_AFFINITY_GRACE", "2", OPTION_ONCE,                                  \
            "A worker leaves a run so long to those that have its checkpoint's files; 0: it takes the run at once" \
    }
#define PLACE_SAVE_EVERY                                                                                      \
    {                                                                                                         \
        "--save-every", "SECONDS", "DELTAQ_SAVE_EVERY", "0", OPTION_ONCE,                                     \
            "Least time between two savings of what an interrupted run goes on from, and, with --artifacts, " \
            "between uploads of it; 0: a minute, more where it takes long"                                    \
    }
#define PLACE_LABEL                                                             \
    {                                                                           \
        "--label", "LABELS", "DELTAQ_LABEL", NULL, OPTION_COLONS,               \
            "What runs may require of the workers, like gpu=h100,partition=big" \
    }
/* The log of `serve` and `worker` on stderr. */
#define PLACE_LOG_FORMAT                                                    \
    {                                                                       \
        "--log-format", "FORMAT", "DELTAQ_LOG_FORMAT", "text", OPTION_ONCE, \
            "Of the lines on stderr: text, or json (an object a line)"      \
    }
#define PLACE_LOG_LEVEL                                                  \
    {                                                                    \
        "--log-level", "LEVEL", "DELTAQ_LOG_LEVEL", "info", OPTION_ONCE, \
            "Least level of these lines: error, warning or info"         \
    }
/* Sets up the log, to which crashes are written then, too (log/crash.h). Call it before the first thread starts:
 * worker processes and the log read these settings from the environment. */
MUST_CHECK enum status place_log(const struct options *options, struct error *error);
/* The labels without duplicates: a new list, or NULL for none. STATUS_INVALID names a text that is not a label. */
MUST_CHECK enum status place_labels(const struct options *options, json_t **out, struct error *error);
MUST_CHECK enum status place_affinity_grace(const struct options *options, double *seconds, struct error *error);
MUST_CHECK enum status place_save_every(const struct options *options, double *seconds, struct error *error);
MUST_CHECK enum status place_memory(const struct options *options, int64_t *bytes, struct error *error);
MUST_CHECK enum status place_device_memory(const struct options *options, int64_t *bytes, struct error *error);

enum { PLACE_DEVICE_NAME = 24 };
/* The device that worker number `which` gets: "cpu", or one of the devices in cuda:A,B,… (auto: all devices), which
 * workers take in turn, as "cuda:N". *count: the number of devices. It asks the driver, so device_choice.h calls it in
 * a child process. STATUS_INVALID for another form, STATUS_UNSUPPORTED when there is no such CUDA device. */
MUST_CHECK enum status place_device(const char *device, int64_t which, char out[PLACE_DEVICE_NAME], int64_t *count,
                                    struct error *error);

/* Whether the data directory contains a private database. Makes nothing. */
MUST_CHECK enum status place_has_database(const struct options *options, bool *out, struct error *error);

/* The path of the data directory as the options have it, into `out` [PLACE_PATH]. STATUS_INVALID when no path is
 * known. */
MUST_CHECK enum status place_data_path(const struct options *options, char *out, struct error *error);

/* Makes the data directory (mode 0700) if it is missing; canonical path in `out` [PLACE_PATH]. STATUS_CONFLICT: a
 * restore into it was not finished. */
MUST_CHECK enum status place_data_directory(const struct options *options, char *out, struct error *error);
/* Finds an existing data directory without making one. When it is missing, *there is false and `out` is its nearest
 * existing parent. */
MUST_CHECK enum status place_data_look(const struct options *options, char *out, bool *there, struct error *error);

/* Canonical paths of the roots, and of $DATA/checkpoints, where training runs write. */
struct place_roots {
    char *paths[PLACE_ROOTS + 2];         /* owned (place_roots_reset); ends with NULL */
    char *secrets[SECRET_FILES_MOST + 1]; /* likewise */
    struct roots roots;                   /* these; lent, also from `data_directory` */
    struct file_guard guard;              /* of place_guard */
};
MUST_CHECK enum status place_roots(const struct options *options, const char *data_directory, struct place_roots *out,
                                   struct error *error);
void place_roots_reset(struct place_roots *roots);

/* From now on until place_roots_reset this process opens no file by its name but below the roots and in the data
 * directory (roots_check_open). For what reads files that requests name, before it takes the first one. */
void place_guard(struct place_roots *roots);

/* Adds to words[0 … count) what another process of ours is told to find the same files: the data directory, the roots,
 * the hub and object storage. The new count; lent words, at most PLACE_WORDS of them. */
enum { PLACE_WORDS = 2 * PLACE_ROOTS + 20 };
size_t place_words(const struct options *options, const char *data_directory, const struct place_roots *roots,
                   const char **words, size_t count);

/* Reports the errors that place_roots, place_hub and conninfo_check would report of the options, before the data
 * directory is made. */
MUST_CHECK enum status place_check(const struct options *options, struct error *error);

/* Makes the hub from its options and HF_TOKEN. The caller owns *out (hub_free). Call it before the first thread. */
MUST_CHECK enum status place_hub(const struct options *options, const char *data_directory, struct hub **out,
                                 struct error *error);

/* The store of --artifacts, which uses the hub's access to object storage; NULL without the option. The caller owns
 * *out (artifact_store_free). */
struct artifact_store;
MUST_CHECK enum status place_artifacts(const struct options *options, const struct hub *hub,
                                       struct artifact_store **out, struct error *error);

/* The same for a command that fetches nothing: it needs no hub, and the data directory does not change. Both members
 * are NULL without --artifacts. place_store_close in any case. */
struct objects;
struct place_store {
    struct objects *objects;
    struct artifact_store *artifacts;
};
MUST_CHECK enum status place_store_open(const struct options *options, struct place_store *out, struct error *error);
void place_store_close(struct place_store *store);

/* Finds `name` ("static", "openapi.yaml") of this build: beside the binary (build/static), above it (the source tree),
 * or in share/deltaq of its installation. `index` counts the places that have it. False when there are no more. */
bool place_find(const char *name, int index, char *out, size_t size);

/* Returns `status`; unless it is STATUS_OK, puts `place` (a file, an option) before the error's text. */
enum status place_name(enum status status, const char *place, struct error *error);

/* Open the private database of a data directory: embedded_start and embedded_attach, with the directory named in their
 * errors. */
MUST_CHECK enum status place_embedded_start(const char *data_directory, struct embedded **out, struct error *error);
MUST_CHECK enum status place_embedded_start_as(const struct embedded_options *how, struct embedded **out,
                                               struct error *error);
MUST_CHECK enum status place_embedded_attach(const char *data_directory, char *conninfo, size_t size,
                                             struct error *error);

/* A session with the database for a small command: --database-url, else the private cluster, which is started for the
 * command, or attached to when a server runs it. */
struct place_database {
    struct embedded *embedded;
    struct connection *connection;
    const char *conninfo; /* lent by the options or by `attached` */
    char attached[512];
    char data_directory[PLACE_PATH]; /* "" with --database-url */
};
MUST_CHECK enum status place_database_open(const struct options *options, struct place_database *out,
                                           struct error *error);
/* The same for a command that only reads: no private database is made. STATUS_NOT_FOUND: there is none. */
MUST_CHECK enum status place_database_look(const struct options *options, struct place_database *out,
                                           struct error *error);
void place_database_close(struct place_database *database);

/* Prints the error on stderr; returns 1. */
int place_fail(const char *command, const struct error *error);

#endif
