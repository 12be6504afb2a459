#include "objects/listing.h"

#include "base/utf8.h"
#include "objects/answer_xml.h"
#include "transfer/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE_BYTES = 16 << 20, TOKEN_BYTES = 2048, QUERY_BYTES = BUCKET_URL / 2, PAGES_MOST = 4000 };

struct page {
    struct listing *listing;
    const char *prefix;              /* with its trailing slash; "" for a whole bucket */
    struct listing_item item;        /* the item that is being read */
    char key[3 * OBJECTS_PLACE_KEY]; /* perhaps escaped, which takes up to three times as many bytes */
    bool long_key, encoded, more;
    char next[TOKEN_BYTES];
    size_t begin; /* index of this page's first item */
};

/* ---- one page ---- */

static void take_etag(struct listing_item *item, const char *text)
{
    if (*text == '"') text++;
    const size_t length = strcspn(text, "\"");
    const bool plain = strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:+/=") >= length;
    (void)snprintf(item->etag, sizeof item->etag, "%.*s", plain && length < sizeof item->etag ? (int)length : 0, text);
}

/* "2026-01-31T12:00:00.000Z" */
static double read_time(const char *text)
{
    struct tm broken = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%S", &broken) != NULL ? (double)timegm(&broken) : 0;
}

/* The order of the elements of one object is not fixed, so an item is added when its object ends. */
static enum status take_item(struct page *page, struct error *error)
{
    struct listing *listing = page->listing;
    const size_t prefix = strlen(page->prefix);
    struct listing_item item = page->item;
    page->item = (struct listing_item){.bytes = -1};
    if (page->encoded) escape_undo(page->key);
    const size_t length = strlen(page->key);
    const bool fits = !page->long_key && length < OBJECTS_PLACE_KEY; /* else its last character may be cut off */
    page->long_key = false;
    if (fits && utf8_check(page->key, length) != length)
        return error_set(error, STATUS_CORRUPT, "the key of an object is not UTF-8: \"%.200s\"", page->key);
    const bool wanted = fits && length > prefix && strncmp(page->key, page->prefix, prefix) == 0 &&
                        page->key[length - 1] != '/' && item.etag[0] != '\0' && item.bytes >= 0;
    if (!wanted) return STATUS_OK;
    if (listing->count >= LISTING_MOST)
        return error_set(error, STATUS_TOO_LARGE, "more than %d objects lie below it: name a deeper prefix",
                         LISTING_MOST);
    if (listing->count == listing->capacity) {
        const size_t capacity = listing->capacity == 0 ? 256 : 2 * listing->capacity;
        struct listing_item *larger = realloc(listing->items, capacity * sizeof *larger);
        if (larger == NULL) return error_no_memory(error, "a list of objects");
        listing->items = larger;
        listing->capacity = capacity;
    }
    if ((item.name = strdup(page->key + prefix)) == NULL) return error_no_memory(error, "a list of objects");
    listing->items[listing->count++] = item;
    return STATUS_OK;
}

static enum status take(void *context, const char *path, const char *text, struct error *error)
{
    static const char top[] = "ListBucketResult/";
    struct page *page = context;
    if (strncmp(path, top, sizeof top - 1) != 0) return STATUS_OK;
    path += sizeof top - 1;
    if (text == NULL) return strcmp(path, "Contents") == 0 ? take_item(page, error) : STATUS_OK;
    if (strcmp(path, "Contents/Key") == 0)
        page->long_key = snprintf(page->key, sizeof page->key, "%s", text) >= (int)sizeof page->key;
    else if (strcmp(path, "Contents/ETag") == 0)
        take_etag(&page->item, text);
    else if (strcmp(path, "Contents/Size") == 0)
        page->item.bytes = strtoll(text, NULL, 10);
    else if (strcmp(path, "Contents/LastModified") == 0)
        page->item.modified = read_time(text);
    else if (strcmp(path, "EncodingType") == 0)
        page->encoded = strcmp(text, "url") == 0;
    else if (strcmp(path, "IsTruncated") == 0)
        page->more = strcmp(text, "true") == 0;
    else if (strcmp(path, "NextContinuationToken") == 0 &&
             snprintf(page->next, sizeof page->next, "%s", text) >= (int)sizeof page->next)
        return error_set(error, STATUS_CORRUPT, "the list of objects goes on under a name that is too long");
    return STATUS_OK;
}

/* Query parameters sorted by name. Keys are requested in escaped form, because XML cannot represent some characters. */
static enum status make_query(const struct page *page, bool deep, char out[QUERY_BYTES], struct error *error)
{
    char prefix[3 * OBJECTS_PLACE_KEY], token[3 * TOKEN_BYTES];
    const bool fits = escape_text(page->prefix, false, prefix, sizeof prefix) &&
                      escape_text(page->next, false, token, sizeof token) &&
                      snprintf(out, QUERY_BYTES, "%s%s%s%sencoding-type=url&list-type=2&prefix=%s",
                               token[0] != '\0' ? "continuation-token=" : "", token, token[0] != '\0' ? "&" : "",
                               deep ? "" : "delimiter=%2F&", prefix) < QUERY_BYTES;
    return fits ? STATUS_OK : error_set(error, STATUS_INVALID, "the prefix is too long to list what lies below it");
}

/* When an answer names the encoding after the keys, it is read a second time with that encoding. */
static enum status read_page(struct page *page, const struct buffer *body, struct error *error)
{
    const bool encoded = page->encoded;
    page->more = false;
    page->next[0] = '\0';
    page->begin = page->listing->count;
    page->item = (struct listing_item){.bytes = -1};
    enum status status = answer_xml_read(body->bytes != NULL ? body->bytes : "", body->length, take, page, error);
    if (status != STATUS_OK || page->encoded == encoded) return status;
    while (page->listing->count > page->begin) free(page->listing->items[--page->listing->count].name);
    page->item = (struct listing_item){.bytes = -1};
    return answer_xml_read(body->bytes, body->length, take, page, error);
}

/* ---- all pages ---- */

enum status listing_make(const struct bucket *bucket, const struct asking *asking, const struct objects_place *place,
                         bool deep, struct listing *out, struct error *error)
{
    char prefix[OBJECTS_PLACE_KEY + 1], query[QUERY_BYTES], what[OBJECTS_PLACE_MOST + 8];
    struct buffer body = {.limit = PAGE_BYTES};
    struct transfer_head *head = malloc(sizeof *head);
    struct page *page = calloc(1, sizeof *page);
    enum status status = head == NULL || page == NULL ? error_no_memory(error, "a list of objects") : STATUS_OK;
    bool more = true;
    *out = (struct listing){0};
    (void)snprintf(prefix, sizeof prefix, "%s%s", place->key, place->key[0] != '\0' ? "/" : "");
    objects_place_write(place, what, sizeof what);
    if (page != NULL) *page = (struct page){.listing = out, .prefix = prefix};
    for (int i = 0; status == STATUS_OK && more; i++) {
        if (i == PAGES_MOST) status = error_set(error, STATUS_CORRUPT, "%.200s: the list of objects has no end", what);
        if (status == STATUS_OK) status = make_query(page, deep, query, error);
        const struct bucket_request request = {.query = query, .what = what};
        if (status == STATUS_OK) status = bucket_ask(bucket, asking, &request, head, &body, error);
        if (status == STATUS_OK && i == 0) out->time = head->date >= 0 ? head->date : (double)time(NULL);
        if (status == STATUS_OK) status = read_page(page, &body, error);
        more = status == STATUS_OK && page->more;
        if (more && page->next[0] == '\0')
            status = error_set(error, STATUS_CORRUPT, "%.200s: the list of objects breaks off", what);
    }
    buffer_reset(&body);
    free(page);
    free(head);
    return status;
}

void listing_reset(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) free(listing->items[i].name);
    free(listing->items);
    *listing = (struct listing){0};
}
