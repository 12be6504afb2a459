#include "store/tokens.h"

#include "base/hex.h"
#include "store/list.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DOCUMENT                                                                                           \
    "json_build_object('id', t.id, 'name', t.name, 'scope', t.scope, 'created_at', rfc3339(t.created_at)," \
    " 'expires_at', rfc3339(t.expires_at), 'revoked_at', rfc3339(t.revoked_at), 'last_used_at',"           \
    " rfc3339(t.last_used_at))"

static const char *const scopes[] = {[TOKEN_READ] = "read", [TOKEN_WRITE] = "write", [TOKEN_ADMIN] = "admin"};
enum { SCOPES = sizeof scopes / sizeof scopes[0], TOKEN_BYTES = 32 };

/* A fast hash is enough: the token is 256 random bits, not a word that someone chose. */
static enum status hash(const char *text, char out[65], struct error *error)
{
    unsigned char digest[32];
    if (EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) != 1)
        return error_set(error, STATUS_INTERNAL, "SHA-256 failed");
    hex_write(digest, sizeof digest, out);
    return STATUS_OK;
}

enum status token_scope_parse(const char *text, enum token_scope *scope, struct error *error)
{
    for (int i = 0; i < SCOPES; i++)
        if (strcmp(scopes[i], text) == 0) {
            *scope = (enum token_scope)i;
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID, "scope \"%.40s\", expected read, write or admin", text);
}

enum status token_create(struct connection *connection, enum token_scope scope, const char *name, int64_t days,
                         char text[TOKEN_TEXT], json_t **document, struct error *error)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"; /* base64url, RFC 4648 */
    unsigned char bits[TOKEN_BYTES + 1] = {0};
    char sha256[65];
    enum status status;
    *document = NULL;
    if (getrandom(bits, TOKEN_BYTES, 0) != TOKEN_BYTES) return error_set(error, STATUS_INTERNAL, "no random numbers");
    size_t at = (size_t)snprintf(text, TOKEN_TEXT, "dq_");
    for (int bit = 0; bit < 8 * TOKEN_BYTES; bit += 6) {
        const unsigned pair = (unsigned)bits[bit / 8] << 8 | bits[bit / 8 + 1];
        text[at++] = digits[pair >> (10 - bit % 8) & 63];
    }
    text[at] = '\0';
    if ((status = hash(text, sha256, error)) != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with t as (insert into tokens (name, scope, sha256, expires_at) values ($1, $2, $3,"
        " case when $4::bigint > 0 then clock_timestamp() + $4::bigint * interval '1 day' end) returning *)"
        " select " DOCUMENT " from t",
        VALUES(value_text(name), value_text(scopes[scope]), value_text(sha256), value_integer(days)), document, error);
    if (status == STATUS_CONFLICT) return error_set(error, status, "another token is called \"%.100s\"", name);
    return status;
}

enum status token_list(struct connection *connection, const char *name, const struct page *page, json_t **document,
                       struct error *error)
{
    int64_t limit, before;
    const enum status status = page_read(page, &limit, &before, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(
        connection,
        LIST_OF("select t.number, " DOCUMENT " from tokens t where t.number < $2" LIST_NAMED("t.name", "$3")),
        VALUES(value_integer(limit), value_integer(before), value_text(name)), document, error);
}

enum status token_revoke(struct connection *connection, const char *reference, const char *own, struct error *error)
{
    bool is_own;
    const enum status status = connection_query_boolean(
        connection,
        "with found as (select id from tokens where id = $1 or name = $1 order by (id = $1) desc limit 1),"
        " revoked as (update tokens set revoked_at = coalesce(revoked_at, clock_timestamp())"
        " where id = (select id from found) and id <> $2)"
        " select id = $2 from found",
        VALUES(value_text(reference), value_text(own)), &is_own, error);
    if (status == STATUS_NOT_FOUND) return error_set(error, status, "no token \"%.100s\"", reference);
    if (status != STATUS_OK || !is_own) return status;
    return error_set(error, STATUS_CONFLICT,
                     "this is the token that the request came with: revoke it with another one, or"
                     " with `deltaq token revoke`");
}

/* Notes the use at most once a minute, and not at all in a database that takes no writes, where reading still works. */
static void note_use(struct connection *connection, const struct store_id *id)
{
    struct error ignored;
    const enum status status =
        connection_execute(connection, "update tokens set last_used_at = clock_timestamp() where id = $1",
                           VALUES(value_text(id->text)), NULL, &ignored);
    (void)status;
}

enum status token_check(struct connection *connection, const char *text, struct token_known *out, struct error *error)
{
    char sha256[65];
    struct rows *rows;
    enum status status = hash(text, sha256, error);
    if (status != STATUS_OK) return status;
    status = connection_query_one(
        connection,
        "select scope, id, revoked_at is not null, coalesce(expires_at <= clock_timestamp(), false),"
        " last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute',"
        " coalesce(name, '') from tokens where sha256 = $1",
        VALUES(value_text(sha256)), &rows, error);
    if (status == STATUS_NOT_FOUND) return error_set(error, STATUS_UNAUTHORIZED, "unknown token");
    if (status != STATUS_OK) return status;
    const bool revoked = rows_boolean(rows, 0, 2), ended = rows_boolean(rows, 0, 3);
    if (revoked || ended) {
        rows_free(rows);
        return error_set(error, STATUS_UNAUTHORIZED, revoked ? "the token was revoked" : "the token has expired");
    }
    status = token_scope_parse(rows_text(rows, 0, 0), &out->scope, error);
    (void)snprintf(out->id.text, sizeof out->id.text, "%s", rows_text(rows, 0, 1));
    (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, 0, 5));
    if (status == STATUS_OK && rows_boolean(rows, 0, 4)) note_use(connection, &out->id);
    rows_free(rows);
    return status;
}

enum status token_valid(struct connection *connection, struct token_hash **out, size_t *count, struct error *error)
{
    struct rows *rows;
    *out = NULL;
    *count = 0;
    enum status status = connection_query(
        connection,
        "select id, sha256 from tokens where revoked_at is null and (expires_at is null or expires_at >"
        " clock_timestamp())",
        NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    const int found = rows_count(rows);
    *out = calloc((size_t)found + 1, sizeof **out);
    if (*out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for %d tokens", found);
    for (int i = 0; status == STATUS_OK && i < found; i++) {
        struct token_hash *row = &(*out)[(*count)++];
        (void)snprintf(row->id.text, sizeof row->id.text, "%s", rows_text(rows, i, 0));
        (void)snprintf(row->sha256, sizeof row->sha256, "%s", rows_text(rows, i, 1));
    }
    rows_free(rows);
    return status;
}

enum status token_still(struct connection *connection, const json_t *ids, json_t **valid, struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN
        "select coalesce(json_agg(asked.id), '[]') from json_array_elements_text($1::json) as asked (id) where case"
        " when asked.id = '' then not exists (select 1 from tokens)"
        " else exists (select 1 from tokens t where t.id = asked.id and t.revoked_at is null"
        " and (t.expires_at is null or t.expires_at > clock_timestamp())) end",
        VALUES(value_json(ids)), valid, error);
}

enum status token_any(struct connection *connection, bool *any, struct error *error)
{
    return connection_query_boolean(connection, CONNECTION_KEEPS_PLAN "select exists (select 1 from tokens)", NO_VALUES,
                                    any, error);
}

enum status token_any_yet(struct connection *connection, bool *any, struct error *error)
{
    const enum status status =
        connection_query_boolean(connection, "select to_regclass('public.tokens') is not null", NO_VALUES, any, error);
    return status == STATUS_OK && *any ? token_any(connection, any, error) : status;
}
