#include "hub/repository.h"

#include "base/buffer.h"
#include "transfer/escape.h"
#include "transfer/transfer.h"
#include "json/tree_cost.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer and what its tree may take: that of 20,000 revisions takes 27 MB. */
enum { ANSWER_MOST = 8 << 20, TREE_MOST = 64 << 20 };

enum { URL_BYTES = 8192, MOVES_MOST = 5, PAGES_MOST = 200 };

static bool take(void *owner, const struct transfer_head *head, const char *bytes, size_t length)
{
    struct buffer *body = owner;
    (void)head;
    buffer_append(body, bytes, length);
    return body->status == STATUS_OK;
}

/* ---- one request ---- */

/* Makes one try. A renamed repository redirects within the endpoint; the API redirects nowhere else. */
static enum status try_once(const struct repository_caller *caller, char url[URL_BYTES], const char *what,
                            struct buffer *body, struct transfer_head *head, enum transfer_verdict *verdict,
                            struct error *error)
{
    struct origin origin;
    enum status status = STATUS_OK;
    *verdict = TRANSFER_MOVED;
    for (int i = 0; i <= MOVES_MOST && *verdict == TRANSFER_MOVED && status == STATUS_OK; i++) {
        CURLcode code;
        struct transfer *transfer = NULL;
        static const char *const headers[] = {"Accept-Encoding: identity", NULL};
        const struct transfer_request request = {.server = &caller->hub->server,
                                                 .url = url,
                                                 .headers = headers,
                                                 .last = -1,
                                                 .seconds = caller->asking.seconds,
                                                 .sink = take,
                                                 .owner = body};
        buffer_reset(body);
        status = transfer_new(&request, &transfer, error);
        if (status == STATUS_OK) status = transfer_perform(transfer, caller->asking.monitor, &code, error);
        if (status == STATUS_OK) {
            *verdict = transfer_judge(transfer, code, what, error);
            *head = transfer->head;
        }
        transfer_free(transfer);
        if (status != STATUS_OK || *verdict != TRANSFER_MOVED) break;
        (void)snprintf(url, URL_BYTES, "%s", head->location);
        if (!origin_read(url, &origin) || !origin_equal(&origin, &caller->hub->server.origin))
            status = error_set(error, STATUS_FORBIDDEN, "%.200s: the hub's API redirects to another server", what);
    }
    if (status == STATUS_OK && *verdict == TRANSFER_MOVED)
        status = error_set(error, STATUS_CORRUPT, "%.200s: the hub redirects in circles", what);
    return body->status == STATUS_OK ? status : buffer_status(body, "the hub's answer", error);
}

struct question {
    const struct repository_caller *caller;
    char *url; /* [URL_BYTES]; lent */
    const char *what;
    struct buffer body;
    struct transfer_head *head; /* owned */
};

static enum status put(void *context, enum transfer_verdict *verdict, double *wait, struct error *error)
{
    struct question *question = context;
    const enum status status =
        try_once(question->caller, question->url, question->what, &question->body, question->head, verdict, error);
    *wait = question->head->wait_seconds;
    return status;
}

/* The tree of an answer. A hostile one would take 80 times its text. */
static enum status parse(const struct buffer *body, const char *what, json_t **out, struct error *error)
{
    const char *text = body->bytes != NULL ? body->bytes : "";
    if (tree_cost(text, body->length) > TREE_MOST)
        return error_set(error, STATUS_TOO_LARGE, "%.200s: the hub's answer would take more than %d MiB of memory",
                         what, TREE_MOST >> 20);
    *out = json_loadb(text, body->length, JSON_REJECT_DUPLICATES, NULL);
    return *out != NULL ? STATUS_OK : error_set(error, STATUS_CORRUPT, "%.200s: the hub's answer is no JSON", what);
}

/* The document at `url`, requested again (with backoff) as often as the caller allows. *next: the query of the page
 * after it, or "". */
static enum status get(const struct repository_caller *caller, char url[URL_BYTES], const char *what, json_t **out,
                       char *next, size_t next_size, struct error *error)
{
    struct question question = {.caller = caller,
                                .url = url,
                                .what = what,
                                .body = {.limit = ANSWER_MOST},
                                .head = calloc(1, sizeof *question.head)};
    enum status status = question.head == NULL
                             ? error_no_memory(error, "the hub's answer")
                             : asking_repeat(&caller->asking, caller->hub->server.name, put, &question, error);
    if (status == STATUS_OK) {
        status = parse(&question.body, what, out, error);
        if (next != NULL) {
            const char *query = strchr(question.head->next, '?');
            (void)snprintf(next, next_size, "%s", query != NULL ? query : "");
        }
    }
    free(question.head);
    buffer_reset(&question.body);
    return status;
}

static enum status make_url(const struct hub *hub, const char *repo, const char *verb, const char *revision,
                            char out[URL_BYTES], struct error *error)
{
    char escaped[3 * NAMES_REVISION_MOST + 8] = "";
    if (!escape_text(revision, false, escaped, sizeof escaped))
        return error_set(error, STATUS_INVALID, "the name of the revision is too long");
    (void)snprintf(out, URL_BYTES, "%s/api/models/%s/%s%s%s", hub->endpoint, repo, verb, escaped[0] != '\0' ? "/" : "",
                   escaped);
    return STATUS_OK;
}

/* ---- the questions ---- */

enum status repository_commit(const struct repository_caller *caller, const char *repo, const char *revision,
                              char out[NAMES_COMMIT], struct error *error)
{
    char url[URL_BYTES], what[NAMES_REPO_MOST + NAMES_REVISION_MOST + 2];
    json_t *document = NULL;
    if (names_is_commit(revision)) {
        (void)snprintf(out, NAMES_COMMIT, "%s", revision);
        return STATUS_OK;
    }
    (void)snprintf(what, sizeof what, "%s@%s", repo, revision);
    enum status status = make_url(caller->hub, repo, "revision", revision, url, error);
    if (status == STATUS_OK) status = get(caller, url, what, &document, NULL, 0, error);
    if (status != STATUS_OK) return status;
    const char *sha = json_string_value(json_object_get(document, "sha"));
    if (sha == NULL || !names_is_commit(sha))
        status = error_set(error, STATUS_CORRUPT, "%.200s: the hub names no commit", what);
    else
        (void)snprintf(out, NAMES_COMMIT, "%s", sha);
    json_decref(document);
    return status;
}

static void take_refs(const json_t *list, bool tag, struct repository_ref *out, size_t *count)
{
    size_t index;
    const json_t *item;
    json_array_foreach(list, index, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *commit = json_string_value(json_object_get(item, "targetCommit"));
        if (name == NULL || commit == NULL || !names_is_revision(name) || !names_is_commit(commit)) continue;
        struct repository_ref *ref = &out[(*count)++];
        *ref = (struct repository_ref){.tag = tag};
        (void)snprintf(ref->name, sizeof ref->name, "%s", name);
        (void)snprintf(ref->commit, sizeof ref->commit, "%s", commit);
    }
}

enum status repository_refs(const struct repository_caller *caller, const char *repo, struct repository_ref **out,
                            size_t *count, struct error *error)
{
    char url[URL_BYTES];
    json_t *document = NULL;
    *out = NULL;
    *count = 0;
    enum status status = make_url(caller->hub, repo, "refs", "", url, error);
    if (status == STATUS_OK) status = get(caller, url, repo, &document, NULL, 0, error);
    if (status != STATUS_OK) return status;
    const json_t *branches = json_object_get(document, "branches"), *tags = json_object_get(document, "tags");
    const size_t most = json_array_size(branches) + json_array_size(tags);
    if (!json_is_array(branches))
        status = error_set(error, STATUS_CORRUPT, "%.190s: the hub lists no branches", repo);
    else if (most > REPOSITORY_REFS_MOST)
        status = error_set(error, STATUS_TOO_LARGE, "%.190s: more than %d revisions", repo, REPOSITORY_REFS_MOST);
    else if ((*out = calloc(most + 1, sizeof **out)) == NULL)
        status = error_no_memory(error, "the hub's answer");
    if (status == STATUS_OK) {
        take_refs(branches, false, *out, count);
        take_refs(tags, true, *out, count);
    }
    json_decref(document);
    return status;
}

/* False for an entry that is not a file with a plain name, a size and a hash. */
static bool take_file(const json_t *item, struct repository_file *out)
{
    const json_t *lfs = json_object_get(item, "lfs"), *size = json_object_get(json_is_object(lfs) ? lfs : item, "size");
    const char *type = json_string_value(json_object_get(item, "type")),
               *path = json_string_value(json_object_get(item, "path"));
    const char *oid = json_string_value(json_object_get(json_is_object(lfs) ? lfs : item, "oid"));
    if (type == NULL || strcmp(type, "file") != 0 || path == NULL || !names_is_file(path) || oid == NULL) return false;
    if (strncmp(oid, "sha256:", 7) == 0) oid += 7;
    if (!names_is_hex(oid, json_is_object(lfs) ? 64 : 40) || !json_is_integer(size) || json_integer_value(size) < 0)
        return false;
    *out = (struct repository_file){.bytes = json_integer_value(size)};
    (void)snprintf(out->name, sizeof out->name, "%s", path);
    (void)snprintf(out->oid, sizeof out->oid, "%s-%s", json_is_object(lfs) ? "sha256" : "git", oid);
    (void)snprintf(out->check, sizeof out->check, "%s", out->oid);
    return true;
}

static enum status take_page(const json_t *page, struct repository_file **files, size_t *count, struct error *error)
{
    size_t index;
    const json_t *item;
    if (!json_is_array(page)) return error_set(error, STATUS_CORRUPT, "the hub lists no files");
    if (*count + json_array_size(page) > REPOSITORY_FILES_MOST)
        return error_set(error, STATUS_TOO_LARGE, "the repository has more than %d files: name those that are wanted",
                         REPOSITORY_FILES_MOST);
    struct repository_file *larger = realloc(*files, (*count + json_array_size(page) + 1) * sizeof *larger);
    if (larger == NULL) return error_no_memory(error, "the hub's answer");
    *files = larger;
    json_array_foreach(page, index, item) *count += take_file(item, &larger[*count]);
    return STATUS_OK;
}

/* Only the query of the next page's address is used, so that every page comes from the endpoint, whatever the answer
 * names. */
enum status repository_files(const struct repository_caller *caller, const char *repo, const char *commit, bool deep,
                             struct repository_file **out, size_t *count, struct error *error)
{
    char base[URL_BYTES / 2], url[URL_BYTES], query[URL_BYTES / 2 - 8];
    enum status status = make_url(caller->hub, repo, "tree", commit, url, error);
    *out = NULL;
    *count = 0;
    (void)snprintf(base, sizeof base, "%.*s", (int)sizeof base - 1, url);
    (void)snprintf(query, sizeof query, "?recursive=%s", deep ? "true" : "false");
    for (int page = 0; status == STATUS_OK && query[0] != '\0'; page++) {
        json_t *document = NULL;
        (void)snprintf(url, sizeof url, "%s%s", base, query);
        if (page >= PAGES_MOST) status = error_set(error, STATUS_TOO_LARGE, "the hub's list of files has no end");
        if (status == STATUS_OK) status = get(caller, url, repo, &document, query, sizeof query, error);
        if (status == STATUS_OK) status = take_page(document, out, count, error);
        json_decref(document);
    }
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
