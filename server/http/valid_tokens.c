#include "http/valid_tokens.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct http_token *one = a, *other = b;
    return memcmp(one->sha256, other->sha256, sizeof one->sha256);
}

void valid_tokens_reset(struct valid_tokens *tokens)
{
    if (tokens->items != NULL) explicit_bzero(tokens->items, tokens->count * sizeof *tokens->items);
    free(tokens->items);
    *tokens = (struct valid_tokens){0};
}

void valid_tokens_replace(struct valid_tokens *tokens, struct http_token *items, size_t count)
{
    const bool wanted = tokens->wanted;
    valid_tokens_reset(tokens);
    if (count > 0) qsort(items, count, sizeof *items, compare);
    *tokens = (struct valid_tokens){.items = items, .count = count, .wanted = wanted};
}

static struct http_token *find(const struct valid_tokens *tokens, const unsigned char sha256[HTTP_TOKEN_SHA256])
{
    struct http_token wanted;
    if (tokens->count == 0) return NULL;
    memcpy(wanted.sha256, sha256, sizeof wanted.sha256);
    return bsearch(&wanted, tokens->items, tokens->count, sizeof *tokens->items, compare);
}

const struct http_token *valid_tokens_find(struct valid_tokens *tokens, const unsigned char sha256[HTTP_TOKEN_SHA256])
{
    const struct http_token *found = find(tokens, sha256);
    if (found != NULL && found->id[0] != '\0') return found;
    tokens->wanted = true;
    return NULL;
}

void valid_tokens_drop(struct valid_tokens *tokens, const unsigned char sha256[HTTP_TOKEN_SHA256])
{
    struct http_token *found = find(tokens, sha256);
    if (found != NULL) found->id[0] = '\0'; /* its place in the order stays */
}
