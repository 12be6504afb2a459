/* tokens.h: access tokens. Only a token's SHA-256 is stored; its text is shown once, when it is made. */
#ifndef STORE_TOKENS_H
#define STORE_TOKENS_H

#include "store/store.h"

#include <jansson.h>

enum token_scope { TOKEN_READ, TOKEN_WRITE, TOKEN_ADMIN }; /* each scope includes the ones before it */

enum { TOKEN_TEXT = 64, TOKEN_DAYS_MOST = 36500 };

struct token_known {
    enum token_scope scope;
    struct store_id id; /* identifies the token in idempotency keys and logs */
    char name[208];     /* "": no name */
};

/* Makes a token of 256 random bits; `text` gets "dq_" and 43 characters. `name` may be NULL; a taken name is
 * STATUS_CONFLICT. The token expires after `days`; 0: never. *document is {"id", "name", "scope", "created_at",
 * "expires_at", "revoked_at", "last_used_at"}, without the text; the caller owns it. */
MUST_CHECK enum status token_create(struct connection *connection, enum token_scope scope, const char *name,
                                    int64_t days, char text[TOKEN_TEXT], json_t **document, struct error *error);
/* A page of the tokens whose name matches ("*" stands for any text; NULL: all), newest first. The caller owns
 * *document. */
MUST_CHECK enum status token_list(struct connection *connection, const char *name, const struct page *page,
                                  json_t **document, struct error *error);
/* Revokes the token with that id or name; it stays in the list. STATUS_NOT_FOUND; STATUS_CONFLICT when its id is `own`
 * ("": none), because the caller would lock itself out. */
MUST_CHECK enum status token_revoke(struct connection *connection, const char *reference, const char *own,
                                    struct error *error);
/* STATUS_UNAUTHORIZED for a token that is unknown, expired or revoked. Notes the time of use. */
MUST_CHECK enum status token_check(struct connection *connection, const char *text, struct token_known *out,
                                   struct error *error);
/* What a valid token is known by. */
struct token_hash {
    char sha256[65]; /* of its text, in hex */
    struct store_id id;
};

/* Those that are neither revoked nor expired. The caller owns *out (free). */
MUST_CHECK enum status token_valid(struct connection *connection, struct token_hash **out, size_t *count,
                                   struct error *error);
/* *valid: those of `ids` that are neither revoked nor expired. The id "" stands for who has no token, and is among them
 * until the first token is made. Both are arrays; the caller owns *valid. */
MUST_CHECK enum status token_still(struct connection *connection, const json_t *ids, json_t **valid,
                                   struct error *error);
/* Whether any token was ever made, ended and revoked ones too: then loopback clients need one. Taking the last one back
 * must not open the server to everybody. */
MUST_CHECK enum status token_any(struct connection *connection, bool *any, struct error *error);
/* As token_any, for a database that may not have the schema yet. */
MUST_CHECK enum status token_any_yet(struct connection *connection, bool *any, struct error *error);
/* "read", "write", "admin". STATUS_INVALID. */
MUST_CHECK enum status token_scope_parse(const char *text, enum token_scope *scope, struct error *error);

#endif
