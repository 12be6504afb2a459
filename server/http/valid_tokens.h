/* valid_tokens.h: the hashes of all tokens that were valid when the database was last read, so that a token that nobody
 * has used lately can be told from a wrong one without asking the database. It is read when a token comes that is not
 * among them (http_server_wants_tokens): an idle server reads nothing, and one that is flooded with wrong tokens reads
 * once a second. The caller locks. Private to server/http. */
#ifndef HTTP_VALID_TOKENS_H
#define HTTP_VALID_TOKENS_H

#include "http/server.h"

/* All zero: none is known. */
struct valid_tokens {
    struct http_token *items; /* owned, sorted by hash */
    size_t count;
    bool wanted;
};

/* The new ones in place of those before; `items` is taken over. */
void valid_tokens_replace(struct valid_tokens *tokens, struct http_token *items, size_t count);
void valid_tokens_reset(struct valid_tokens *tokens);

/* Lent; NULL: it was not valid, or is newer than the last reading, so the next one is wanted. */
const struct http_token *valid_tokens_find(struct valid_tokens *tokens, const unsigned char sha256[HTTP_TOKEN_SHA256]);
/* It has turned out not to be valid any more. */
void valid_tokens_drop(struct valid_tokens *tokens, const unsigned char sha256[HTTP_TOKEN_SHA256]);

#endif
