#include "store/store.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HEX "0123456789abcdef"

enum { LIMIT_USUAL = 100, LIMIT_MOST = 1000, CURSOR_DIGITS = 18, MARK_DIGITS = 8 };

struct store_id store_id_new(void)
{
    unsigned char bits[16];
    struct store_id id;
    size_t have = 0;
    while (have < sizeof bits) {
        const ssize_t got = getrandom(bits + have, sizeof bits - have, 0);
        if (got > 0) have += (size_t)got;
    }
    bits[6] = (unsigned char)((bits[6] & 0x0f) | 0x40); /* RFC 4122: version 4, variant 10 */
    bits[8] = (unsigned char)((bits[8] & 0x3f) | 0x80);
    size_t at = 0;
    for (size_t i = 0; i < sizeof bits; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) id.text[at++] = '-';
        at += (size_t)snprintf(id.text + at, sizeof id.text - at, "%02x", bits[i]);
    }
    return id;
}

void store_name_extend(const char *base, const char *ending, char out[STORE_NAME])
{
    const size_t most = STORE_NAME_GIVEN - strlen(ending);
    size_t bytes = 0;
    while (base[bytes] != '\0' && bytes + utf8_width(base[bytes]) <= most) bytes += utf8_width(base[bytes]);
    (void)snprintf(out, STORE_NAME, "%.*s%s", (int)bytes, base, ending);
}

struct store_id store_id_of(const struct rows *rows)
{
    struct store_id id = {""};
    if (rows_count(rows) > 0) (void)snprintf(id.text, sizeof id.text, "%s", rows_text(rows, 0, 0));
    return id;
}

enum status store_unknown(const char *what, const char *reference, struct error *error)
{
    return error_set(error, STATUS_NOT_FOUND, "no %s \"%.200s\"", what, reference);
}

enum status store_get(struct connection *connection, const char *sql, const char *what, const char *reference,
                      json_t **document, struct error *error)
{
    const enum status status = connection_query_json(connection, sql, VALUES(value_text(reference)), document, error);
    return status == STATUS_NOT_FOUND ? store_unknown(what, reference, error) : status;
}

enum status store_texts(const char *const *texts, size_t count, json_t **out, struct error *error)
{
    json_t *array = json_array();
    bool good = array != NULL;
    for (size_t i = 0; good && i < count; i++) good = json_array_append_new(array, json_string(texts[i])) == 0;
    *out = good ? array : NULL;
    if (good) return STATUS_OK;
    json_decref(array);
    return error_no_memory(error, "a list of names");
}

enum status store_resolve(struct connection *connection, const char *sql, const char *what, const char *reference,
                          struct store_id *id, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection, sql, VALUES(value_text(reference)), &rows, error);
    if (status == STATUS_NOT_FOUND) return store_unknown(what, reference, error);
    if (status != STATUS_OK) return status;
    *id = store_id_of(rows);
    rows_free(rows);
    return STATUS_OK;
}

enum status store_set_content(struct connection *connection, const char *sql, const struct store_id *id,
                              const char *sha256, const char *changed, struct error *error)
{
    int64_t affected;
    const enum status status =
        connection_execute(connection, sql, VALUES(value_text(id->text), value_text(sha256)), &affected, error);
    if (status != STATUS_OK || affected != 0) return status;
    return error_set(error, STATUS_INPUT_CHANGED, "%s", changed);
}

enum status store_transaction(struct connection *connection,
                              enum status (*body)(struct connection *connection, void *context, struct error *error),
                              void *context, json_t **made, json_t **document, struct error *error)
{
    const enum status status = connection_transaction(connection, body, context, NULL, error);
    *document = NULL;
    if (status == STATUS_OK)
        *document = *made;
    else
        json_decref(*made);
    *made = NULL;
    return status;
}

enum status store_check_writable(struct connection *connection, struct error *error)
{
    bool read_only;
    const enum status status = connection_query_boolean(
        connection, "select current_setting('transaction_read_only')::boolean", NO_VALUES, &read_only, error);
    if (status != STATUS_OK || !read_only) return status;
    return error_set(error, STATUS_UNAVAILABLE,
                     "it is read only (a standby, or default_transaction_read_only is on): nothing can be registered");
}

void store_notify(struct connection *connection)
{
    struct error ignored;
    if (connection_execute(connection, "select pg_notify('" STORE_CHANNEL "', '')", NO_VALUES, NULL, &ignored) !=
        STATUS_OK)
        return;
}

enum status page_read(const struct page *page, int64_t *limit, int64_t *before, struct error *error)
{
    *limit = page->limit == 0 ? LIMIT_USUAL : page->limit;
    *before = INT64_MAX;
    if (*limit < 1 || *limit > LIMIT_MOST)
        return error_set_at(error, STATUS_INVALID, "/limit", "limit %d, expected 1 to %d", page->limit, LIMIT_MOST);
    if (page->cursor == NULL || page->cursor[0] == '\0') return STATUS_OK;
    char *end;
    errno = 0;
    *before = strtoll(page->cursor, &end, 10);
    const bool marked = *end == '.' && strlen(end + 1) == MARK_DIGITS && strspn(end + 1, HEX) == MARK_DIGITS;
    if ((*end != '\0' && !marked) || errno != 0 || page->cursor[0] < '1' || page->cursor[0] > '9' ||
        end - page->cursor > CURSOR_DIGITS)
        return error_set_at(error, STATUS_INVALID, "/cursor", "not a cursor that a list gave: follow `next`");
    return STATUS_OK;
}

const char *page_mark(const struct page *page)
{
    const char *point = page->cursor != NULL ? strchr(page->cursor, '.') : NULL;
    return point != NULL ? point + 1 : NULL;
}
