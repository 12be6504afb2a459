/* What the server keeps in folders: the cache of the hub, manifests of backups, hashes, keys, and what
 * trackers were given. */
#include "faults.h"
#include "scenario.h"

#include "backup/manifest.h"
#include "hub/digest.h"
#include "hub/hub_cache.h"
#include "hub/ranges.h"
#include "inputs/hash.h"
#include "objects/credentials.h"
#include "track/ledger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KINDS (1U << FAULT_MEMORY | 1U << FAULT_READING | 1U << FAULT_WRITING | 1U << FAULT_FULL)
#define OID   "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */

static void prepare_plainly(struct room *room)
{
    (void)room;
    json_set_alloc_funcs(malloc, free);
}

/* ---- the cache of the hub ---- */

static enum status fetch(const struct hub_cache *cache, struct error *error)
{
    struct ranges *ranges = NULL;
    bool done = false, right = false;
    enum status status = ranges_open(cache->partial, OID, OID, 3, &ranges, error);
    if (status == STATUS_OK) status = ranges_write(ranges, 0, "ab", 2, error);
    if (status == STATUS_OK) status = ranges_write(ranges, 0, "c", 1, error);
    while (status == STATUS_OK && !done) status = ranges_hash(ranges, 100, &done, error);
    if (status == STATUS_OK) status = ranges_finish(ranges, &right, error);
    if (status == STATUS_OK && !right) status = error_set(error, STATUS_INTERNAL, "the hash is wrong");
    ranges_close(ranges);
    return status;
}

static enum status make(const struct hub_cache *cache, const char *key, struct error *error)
{
    struct hub_cache_hold *hold = NULL;
    bool found = false;
    enum status status = hub_cache_take_to_make(cache, key, NULL, &hold, error);
    if (status == STATUS_OK && hold == NULL) return error_set(error, STATUS_INTERNAL, "it is held");
    if (status == STATUS_OK) status = hub_cache_begin(hold, error);
    if (status == STATUS_OK) status = hub_cache_link(hold, OID, 3, "a/file", &found, error);
    if (status == STATUS_OK) status = fetch(cache, error);
    if (status == STATUS_OK) status = hub_cache_adopt(hold, cache, OID, "a/file", error);
    if (status == STATUS_OK) status = hub_cache_publish(hold, error);
    hub_cache_release(hold);
    return status;
}

static enum status run_hub_cache(const struct room *room, struct checksum *sum, struct error *error)
{
    static const char *const files[] = {"a/file"};
    char key[HUB_CACHE_KEY], path[2 * SCENARIO_PATH];
    struct hub_cache *cache = NULL;
    struct hub_cache_hold *hold = NULL;
    enum status status = hub_cache_key("a/b", "0123456789012345678901234567890123456789", files, 1, key, error);
    if (status == STATUS_OK) status = hub_cache_open(room->outputs, 1 << 20, &cache, error);
    if (status == STATUS_OK) status = make(cache, key, error);
    if (status == STATUS_OK) status = hub_cache_take(cache, key, NULL, &hold, error);
    if (status == STATUS_OK && hold == NULL) status = error_set(error, STATUS_INTERNAL, "it is not there");
    if (status == STATUS_OK) {
        (void)snprintf(path, sizeof path, "%s/a/file", hub_cache_path(hold));
        scenario_add_file(sum, path);
    }
    hub_cache_release(hold);
    hub_cache_close(cache);
    return status;
}

/* ---- a backup's manifest ---- */

static enum status run_manifest(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    json_t *files = json_array(), *manifest = NULL, *back = NULL;
    enum status status = files != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK)
        manifest = json_pack("{s:i s:b s:s s:i s:s s:s s:s s:O s:[]}", "format", MANIFEST_FORMAT, "whole", 1, "deltaq",
                             "1", "schema", 1, "postgresql", "15", "made_at", "now", "data_directory", "/x", "files",
                             files, "elsewhere");
    if (status == STATUS_OK && manifest == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK) status = manifest_write(room->outputs, manifest, error);
    if (status == STATUS_OK) status = manifest_read(room->outputs, &back, error);
    if (status == STATUS_OK) status = manifest_verify(json_object_get(back, "files"), room->outputs, error);
    json_decref(back);
    json_decref(manifest);
    json_decref(files);
    if (status == STATUS_OK) scenario_add_file(sum, scenario_path(path, room->outputs, MANIFEST_NAME));
    return status;
}

/* ---- hashes and keys ---- */

static void prepare_file(struct room *room)
{
    static const char keys[] = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n";
    static const char settings[] = "[default]\nregion = eu-central-1\n";
    char path[SCENARIO_PATH];
    scenario_write(room->inputs, "file", keys, sizeof keys - 1);
    scenario_write(room->inputs, "config", settings, sizeof settings - 1);
    scenario_require(setenv("AWS_CONFIG_FILE", scenario_path(path, room->inputs, "config"), 1) == 0, "environment",
                     NULL);
    scenario_require(setenv("AWS_SHARED_CREDENTIALS_FILE", scenario_path(path, room->inputs, "file"), 1) == 0 &&
                         setenv("AWS_EC2_METADATA_DISABLED", "true", 1) == 0,
                     "environment", NULL);
}

static enum status run_hash(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH], text[HASH_TEXT] = "";
    struct hash *hash = NULL;
    enum status status = hash_new(&hash, error);
    if (status == STATUS_OK) status = hash_add_file(hash, scenario_path(path, room->inputs, "file"), error);
    if (status == STATUS_OK) status = hash_add_small_file(hash, path, 1000, error);
    if (status == STATUS_OK) status = hash_add_sample(hash, path, error);
    if (status == STATUS_OK)
        status = hash_finish(hash, text, error);
    else
        hash_free(hash);
    if (status == STATUS_OK) checksum_add(sum, text, sizeof text);
    return status;
}

static enum status run_credentials(const struct room *room, struct checksum *sum, struct error *error)
{
    struct credentials *credentials = NULL;
    struct credentials_keys keys = {0};
    char source[CREDENTIALS_SOURCE] = "";
    (void)room;
    enum status status = credentials_new("us-east-1", &credentials, error);
    if (status == STATUS_OK) status = credentials_take(credentials, &keys, error);
    if (status == STATUS_OK) status = credentials_source(credentials, source, error);
    if (status == STATUS_OK) checksum_add(sum, keys.secret, strlen(keys.secret));
    if (status == STATUS_OK) checksum_add(sum, source, strlen(source));
    credentials_wipe(&keys);
    credentials_free(credentials);
    return status;
}

/* ---- what a tracker was given ---- */

static enum status run_ledger(const struct room *room, struct checksum *sum, struct error *error)
{
    char path[SCENARIO_PATH];
    struct ledger *ledger = NULL;
    struct ledger_stream stream;
    struct ledger_batch batch = {0};
    bool found = false;
    char cursor[LEDGER_CURSOR] = "";
    json_t *rows = json_array(); /* and the chosen trajectories: all of them */
    const struct ledger_owner owner = {.place = "ndjson x", .of = "all trajectories", .trajectories = rows};
    enum status status = rows != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory");
    if (status == STATUS_OK) status = ledger_open(scenario_path(path, room->outputs, "ledger"), &owner, &ledger, error);
    int64_t left_out = 0;
    if (status == STATUS_OK) status = ledger_take(ledger, rows, "7", &left_out, error);
    if (status == STATUS_OK) status = ledger_cursor(ledger, cursor, error);
    if (status == STATUS_OK) status = ledger_next(ledger, LEDGER_PENDING, &stream, &found, error);
    if (status == STATUS_OK) checksum_add(sum, cursor, strlen(cursor));
    ledger_batch_reset(&batch);
    ledger_close(ledger);
    json_decref(rows);
    return status;
}

const struct scenario scenarios_of_folders[] = {
    {"folder hub cache", KINDS, prepare_plainly, run_hub_cache, NULL, 0},
    {"folder manifest", KINDS, prepare_plainly, run_manifest, NULL, 0},
    {"folder hash", KINDS, prepare_file, run_hash, NULL, 0},
    {"folder credentials", KINDS, prepare_file, run_credentials, NULL, 0},
    {"folder ledger", KINDS, prepare_plainly, run_ledger, NULL, 0},
    {0},
};
