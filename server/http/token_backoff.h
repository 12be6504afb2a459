/* token_backoff.h: who sends wrong tokens has one looked up a second. A token has 256 random bits, so nobody guesses
 * one; what is spared is the database and the log. The first 20 wrong ones of an address within ten minutes are looked
 * up; after each further one, requests with a token from there are refused for a second. Tokens that are known to be
 * right are let through all the same, so that nobody can shut out others behind the same address: those that were right
 * lately, and those that were valid when the database was last read (valid_tokens.h). Memory is bounded: the address
 * that erred longest ago is forgotten first. Any thread. Private to server/http. */
#ifndef HTTP_TOKEN_BACKOFF_H
#define HTTP_TOKEN_BACKOFF_H

#include "http/client_address.h"
#include "http/server.h"

#include <stdint.h>

struct token_backoff;

/* The caller owns *out (token_backoff_free). */
MUST_CHECK enum status token_backoff_new(struct token_backoff **out, struct error *error);
void token_backoff_free(struct token_backoff *backoff); /* NULL is fine */

/* Seconds until a request with `token` from there is looked at (1); 0: now. `now` in milliseconds, never falling. Of an
 * IPv6 address the network counts (client_address_network). */
int token_backoff_wait(struct token_backoff *backoff, const struct client_address *from, const char *token,
                       int64_t now);

/* What came of it: `id` of a token that was right, NULL of a wrong one. */
void token_backoff_note(struct token_backoff *backoff, const struct client_address *from, const char *token,
                        const char *id, int64_t now);

enum { TOKEN_SHA256 = HTTP_TOKEN_SHA256, TOKEN_ID = HTTP_TOKEN_ID };

/* http_server_tokens, http_server_wants_tokens. */
void token_backoff_valid(struct token_backoff *backoff, struct http_token *tokens, size_t count);
bool token_backoff_wants(struct token_backoff *backoff);

/* Whether the token is known to be right: it was so within ten minutes, and is among the last 256, or it was valid when
 * the database was last read. *sha256 is its hash then, and `id` its id. */
bool token_backoff_knows(struct token_backoff *backoff, const char *token, int64_t now,
                         unsigned char sha256[TOKEN_SHA256], char id[TOKEN_ID]);

#endif
