/* token_backoff.h: who sends wrong tokens waits. The first 20 wrong ones of an address within ten minutes cost nothing;
 * after each further one, requests with a token from there are refused for a second, then twice as long each time, at
 * most a minute. Tokens that were right lately are let through all the same, so that one client's mistakes do not shut
 * out the others behind the same address. Memory is bounded: the address that erred longest ago is forgotten first.
 * Any thread. Private to server/http. */
#ifndef HTTP_TOKEN_BACKOFF_H
#define HTTP_TOKEN_BACKOFF_H

#include "http/client_address.h"

#include <stdint.h>

struct token_backoff;

/* The caller owns *out (token_backoff_free). */
MUST_CHECK enum status token_backoff_new(struct token_backoff **out, struct error *error);
void token_backoff_free(struct token_backoff *backoff); /* NULL is fine */

/* Seconds until a request with `token` from there is looked at; 0: now. `now` in milliseconds, never falling. Of an
 * IPv6 address the network counts (client_address_network). */
int token_backoff_wait(struct token_backoff *backoff, const struct client_address *from, const char *token,
                       int64_t now);

/* What came of it: `id` of a token that was right, NULL of a wrong one. */
void token_backoff_note(struct token_backoff *backoff, const struct client_address *from, const char *token,
                        const char *id, int64_t now);

enum { TOKEN_SHA256 = 32, TOKEN_ID = 64 };

/* Whether the token was right lately: within ten minutes, and among the last 256. *sha256 is its hash then, and `id`
 * its id. */
bool token_backoff_knows(struct token_backoff *backoff, const char *token, int64_t now,
                         unsigned char sha256[TOKEN_SHA256], char id[TOKEN_ID]);

#endif
