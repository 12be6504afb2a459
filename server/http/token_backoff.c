#include "http/token_backoff.h"

#include "http/valid_tokens.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESSES = 1024, TOKENS = 256, FREE_FAILURES = 20, MEMORY_MS = 10 * 60 * 1000, WAIT_MS = 1000 };

struct address {
    struct client_address network; /* family 0: the row is free */
    int failures;
    int64_t failed_at, wait_until;
};

struct right_token {
    unsigned char sha256[TOKEN_SHA256];
    char id[TOKEN_ID];
    int64_t used_at; /* 0: the row is free */
};

struct token_backoff {
    pthread_mutex_t mutex;
    struct address addresses[ADDRESSES];
    struct right_token tokens[TOKENS];
    struct valid_tokens valid;
};

enum status token_backoff_new(struct token_backoff **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the addresses of wrong tokens");
    (void)pthread_mutex_init(&(*out)->mutex, NULL);
    return STATUS_OK;
}

void token_backoff_free(struct token_backoff *backoff)
{
    if (backoff == NULL) return;
    (void)pthread_mutex_destroy(&backoff->mutex);
    explicit_bzero(backoff->tokens, sizeof backoff->tokens);
    valid_tokens_reset(&backoff->valid);
    free(backoff);
}

static bool is_past(int64_t at, int64_t now)
{
    return now - at > MEMORY_MS;
}

/* The row of the address, or NULL. Linear: 1,024 rows of 40 bytes take less than the question to the database. */
static struct address *find_address(struct token_backoff *backoff, const struct client_address *wanted, int64_t now)
{
    for (size_t i = 0; i < ADDRESSES; i++) {
        struct address *row = &backoff->addresses[i];
        if (client_address_same(&row->network, wanted)) return is_past(row->failed_at, now) ? NULL : row;
    }
    return NULL;
}

/* The same row again, else a free one, else that of the oldest failure. */
static struct address *take_address(struct token_backoff *backoff, const struct client_address *wanted)
{
    struct address *oldest = &backoff->addresses[0];
    for (size_t i = 0; i < ADDRESSES; i++) {
        struct address *row = &backoff->addresses[i];
        if (client_address_same(&row->network, wanted)) {
            oldest = row;
            break;
        }
        if (oldest->network.family != 0 && (row->network.family == 0 || row->failed_at < oldest->failed_at))
            oldest = row;
    }
    *oldest = (struct address){.network = *wanted};
    return oldest;
}

static bool hash(const char *token, unsigned char out[TOKEN_SHA256])
{
    return EVP_Digest(token, strlen(token), out, NULL, EVP_sha256(), NULL) == 1;
}

static struct right_token *find_token(struct token_backoff *backoff, const unsigned char sha256[TOKEN_SHA256])
{
    for (size_t i = 0; i < TOKENS; i++)
        if (backoff->tokens[i].used_at != 0 && memcmp(backoff->tokens[i].sha256, sha256, TOKEN_SHA256) == 0)
            return &backoff->tokens[i];
    return NULL;
}

static void note_right(struct token_backoff *backoff, const unsigned char sha256[TOKEN_SHA256], const char *id,
                       int64_t now)
{
    struct right_token *row = find_token(backoff, sha256);
    for (size_t i = 0; i < TOKENS && row == NULL; i++)
        if (backoff->tokens[i].used_at == 0) row = &backoff->tokens[i];
    if (row == NULL) row = &backoff->tokens[0];
    for (size_t i = 0; i < TOKENS && row->used_at != 0 && memcmp(row->sha256, sha256, TOKEN_SHA256) != 0; i++)
        if (backoff->tokens[i].used_at < row->used_at) row = &backoff->tokens[i];
    memcpy(row->sha256, sha256, sizeof row->sha256);
    (void)snprintf(row->id, sizeof row->id, "%s", id);
    row->used_at = now > 0 ? now : 1;
}

static void note_wrong(struct token_backoff *backoff, const struct client_address *wanted, int64_t now)
{
    struct address *row = find_address(backoff, wanted, now);
    if (row == NULL) row = take_address(backoff, wanted);
    row->failed_at = now;
    if (++row->failures > FREE_FAILURES) row->wait_until = now + WAIT_MS;
}

/* The id of a token that is known to be right, lent; else NULL. */
static const char *known_id(struct token_backoff *backoff, const unsigned char sha256[TOKEN_SHA256], int64_t now)
{
    const struct right_token *right = find_token(backoff, sha256);
    if (right != NULL && !is_past(right->used_at, now)) return right->id;
    const struct http_token *valid = valid_tokens_find(&backoff->valid, sha256);
    return valid != NULL ? valid->id : NULL;
}

int token_backoff_wait(struct token_backoff *backoff, const struct client_address *from, const char *token, int64_t now)
{
    const struct client_address wanted = client_address_network(from);
    unsigned char sha256[TOKEN_SHA256];
    int64_t left = 0;
    (void)pthread_mutex_lock(&backoff->mutex);
    const struct address *row = find_address(backoff, &wanted, now);
    if (row != NULL && row->wait_until > now) left = row->wait_until - now;
    if (left > 0 && hash(token, sha256) && known_id(backoff, sha256, now) != NULL) left = 0;
    (void)pthread_mutex_unlock(&backoff->mutex);
    return (int)((left + 999) / 1000);
}

void token_backoff_note(struct token_backoff *backoff, const struct client_address *from, const char *token,
                        const char *id, int64_t now)
{
    const struct client_address wanted = client_address_network(from);
    unsigned char sha256[TOKEN_SHA256];
    if (!hash(token, sha256)) return;
    (void)pthread_mutex_lock(&backoff->mutex);
    struct right_token *known = find_token(backoff, sha256);
    if (id != NULL)
        note_right(backoff, sha256, id, now);
    else
        note_wrong(backoff, &wanted, now);
    if (id == NULL && known != NULL) *known = (struct right_token){0}; /* it has ended or was revoked */
    if (id == NULL) valid_tokens_drop(&backoff->valid, sha256);
    (void)pthread_mutex_unlock(&backoff->mutex);
}

bool token_backoff_knows(struct token_backoff *backoff, const char *token, int64_t now,
                         unsigned char sha256[TOKEN_SHA256], char id[TOKEN_ID])
{
    if (!hash(token, sha256)) return false;
    (void)pthread_mutex_lock(&backoff->mutex);
    const char *known = known_id(backoff, sha256, now);
    if (known != NULL) memcpy(id, known, TOKEN_ID);
    (void)pthread_mutex_unlock(&backoff->mutex);
    return known != NULL;
}

void token_backoff_valid(struct token_backoff *backoff, struct http_token *tokens, size_t count)
{
    (void)pthread_mutex_lock(&backoff->mutex);
    valid_tokens_replace(&backoff->valid, tokens, count);
    (void)pthread_mutex_unlock(&backoff->mutex);
}

bool token_backoff_wants(struct token_backoff *backoff)
{
    (void)pthread_mutex_lock(&backoff->mutex);
    const bool wanted = backoff->valid.wanted;
    backoff->valid.wanted = false;
    (void)pthread_mutex_unlock(&backoff->mutex);
    return wanted;
}
