/* tokens.h: access tokens. Only the SHA-256 of one is kept; the text is shown once, when it is made. */
#ifndef STORE_TOKENS_H
#define STORE_TOKENS_H

#include "store/store.h"

#include <jansson.h>

enum token_scope { TOKEN_READ, TOKEN_WRITE, TOKEN_ADMIN }; /* each includes the ones before */

enum { TOKEN_TEXT = 64, TOKEN_DAYS_MOST = 36500 };

struct token_known {
    enum token_scope scope;
    struct store_id id; /* names it in idempotency keys and logs */
    char name[208];     /* "": it has none */
};

/* Makes a token of 256 random bits; `text` gets "dq_" and 43 characters. `name` may be NULL; a taken one is
 * STATUS_CONFLICT. It ends after `days`, 0: never. *document is {"id", "name", "scope", "created_at", "expires_at",
 * "revoked_at", "last_used_at"}, without the text; the caller owns it. */
MUST_CHECK enum status token_create(struct connection *connection, enum token_scope scope, const char *name,
                                    int64_t days, char text[TOKEN_TEXT], json_t **document, struct error *error);
/* A page of those whose name fits ("*" stands for any text; NULL: of all), newest first. The caller owns *document. */
MUST_CHECK enum status token_list(struct connection *connection, const char *name, const struct page *page,
                                  json_t **document, struct error *error);
/* Takes the token with that id or name back: it is not let in from now on, and stays in the list. STATUS_NOT_FOUND;
 * STATUS_CONFLICT when it is the one with the id `own` ("": none), which would lock out who asks. */
MUST_CHECK enum status token_revoke(struct connection *connection, const char *reference, const char *own,
                                    struct error *error);
/* STATUS_UNAUTHORIZED for one that is unknown, has ended or was taken back. Notes when it was used. */
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
/* Whether any token was ever made, ended and revoked ones too: then loopback clients need one. Taking the last one back
 * must not open the server to everybody. */
MUST_CHECK enum status token_any(struct connection *connection, bool *any, struct error *error);
/* The same for a database that may not have our schema yet. */
MUST_CHECK enum status token_any_yet(struct connection *connection, bool *any, struct error *error);
/* "read", "write", "admin". STATUS_INVALID. */
MUST_CHECK enum status token_scope_parse(const char *text, enum token_scope *scope, struct error *error);

#endif
