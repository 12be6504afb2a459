/* tokens.h: access tokens. Only the SHA-256 of one is kept; the text is shown once, when it is made. */
#ifndef STORE_TOKENS_H
#define STORE_TOKENS_H

#include "store/store.h"

enum token_scope { TOKEN_READ, TOKEN_WRITE, TOKEN_ADMIN }; /* each includes the ones before */

/* Makes a token of 256 random bits; `text` gets "dq_" and 43 characters. `name` may be NULL; a taken one is
 * STATUS_CONFLICT. */
MUST_CHECK enum status token_create(struct connection *connection, enum token_scope scope, const char *name,
                                    char text[64], struct error *error);
/* STATUS_UNAUTHORIZED for an unknown one. *id names it in idempotency keys and logs. */
MUST_CHECK enum status token_check(struct connection *connection, const char *text, enum token_scope *scope,
                                   struct store_id *id, struct error *error);
/* Whether there is any token: then loopback clients need one too. */
MUST_CHECK enum status token_any(struct connection *connection, bool *any, struct error *error);
/* The same for a database that may not have our schema yet. */
MUST_CHECK enum status token_any_yet(struct connection *connection, bool *any, struct error *error);
/* "read", "write", "admin". STATUS_INVALID. */
MUST_CHECK enum status token_scope_parse(const char *text, enum token_scope *scope, struct error *error);

#endif
