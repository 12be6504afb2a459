/* server.h: the HTTP server. libmicrohttpd's threads parse, lint and collect bodies, and do nothing else. A complete
 * request goes into a bounded queue (when it is full, the answer is 503 with Retry-After) that handler threads serve,
 * so a handler may block. Waiting requests and event streams hold neither kind of thread. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/client_address.h"
#include "http/router.h"
#include "http/streams.h"

struct http_server;
struct static_files;
struct tls_identity;
struct buffer;

/* An answer kept for an Idempotency-Key. Strings are malloc'ed and owned by the struct (idempotent_answer_reset). */
struct idempotent_answer {
    int http_status;
    char *content_type, *location, *body; /* NULL: none */
    size_t body_length;
};
void idempotent_answer_reset(struct idempotent_answer *answer);

enum idempotency {
    IDEMPOTENCY_NEW,      /* reserved for this request: run the handler */
    IDEMPOTENCY_REPLAY,   /* done before: *answer holds it */
    IDEMPOTENCY_MISMATCH, /* the key came with another body: 422 */
    IDEMPOTENCY_BUSY      /* another request with it is running: asked again for up to 10 s, then 409 */
};

/* How answers are kept. Both functions run on a handler thread with its context. */
struct idempotency_hooks {
    /* Looks (principal, key) up or reserves it, in one statement. `sha256` is the hex hash of method, path and body. */
    enum status (*begin)(void *thread, const char *principal, const char *key, const char *sha256,
                         enum idempotency *out, struct idempotent_answer *answer, struct error *error);
    /* Keeps the answer of a success (2xx); NULL: the request failed, forget the reservation. */
    enum status (*finish)(void *thread, const char *principal, const char *key, const struct idempotent_answer *answer,
                          struct error *error);
};

/* Locks of conditional changes. Both run on a handler thread with its context. */
struct condition_hooks {
    /* Takes the lock of what has the entity tag `tag`, without waiting; *held: nobody else had it. */
    enum status (*hold)(void *thread, const char *tag, bool *held, struct error *error);
    void (*let_go)(void *thread, const char *tag);
};

struct http_limits {         /* 0: the default */
    int header_milliseconds; /* 5000: from connecting, or from the request line, to the last header */
    int body_milliseconds;   /* 10000, and a second more for each 256 KiB received */
    int idle_seconds;        /* 15 */
    int write_milliseconds;  /* 30000, and a second more for each 64 KiB of the answer */
    int ping_milliseconds;   /* 15000 */
    int stream_milliseconds; /* 600000 */
    int work_milliseconds;   /* 30000: how long a handler may compute */
    int stop_milliseconds;   /* 5000: how long http_server_stop lets handlers finish */
    unsigned connections;    /* 1024, or what two thirds of the descriptors of the process allow */
    unsigned streams;        /* 64; one client may have half of them, and of the next */
    unsigned waits;          /* 512 requests that wait until something changes */
    unsigned queue;          /* 256 requests waiting for a handler thread */
    size_t body_bytes;       /* 256 MiB: all bodies being received together, most of it in files; beyond it 503 */
    size_t body_memory;      /* 48 MiB: what all bodies that were parsed may take; others wait 10 s, then 503 */
};

struct http_options {   /* lent for the life of the server */
    const char *listen; /* "127.0.0.1:8642", "[::1]:0", "0.0.0.0:80"; a numeric address or "localhost" */
    /* More names for the Host check ("node7" for any port of ours, "node7:80"); ends with NULL; NULL: none. */
    const char *const *allowed_hosts;
    const char *const *allowed_origins; /* pages that may read answers (cors.h), checked; ends with NULL; NULL: none */
    bool token_configured;              /* some token exists: needed to listen beyond loopback */
    const char *socket;                 /* a unix socket beside it; NULL: none */
    const char *probes;                 /* an address for ROUTE_PROBE alone; NULL: none */
    bool trust_loopback; /* whoever sends no token is principal.local; for where only loopback clients need none */
    const struct client_networks *trusted_proxies; /* whose X-Forwarded-For is believed; NULL: nobody's */
    int token_rate, address_rate;                  /* requests a second (client.h); 0: no limit */
    const struct tls_identity *tls; /* of `listen`, not of `socket` and `probes`; no certificate or NULL: HTTP */
    const struct route *routes;
    size_t route_count;
    const struct static_files *files; /* NULL: none */
    const char *spill_directory;      /* where bodies lie that are not small, in files without names; NULL: /tmp */
    int handler_threads;              /* 0: 4 */
    int network_threads;              /* 0: 2 */
    bool access_log;                  /* one line a request to stderr */
    void *application;
    /* Makes and frees what each handler thread (and the broadcaster of streams) keeps: its database connection.
     * thread_open should not need the database to be up. Both may be NULL. */
    enum status (*thread_open)(void *application, void **thread, struct error *error);
    void (*thread_close)(void *application, void *thread);
    /* Says who `token` (NULL: none sent) is and whether that is enough for `scope`. STATUS_UNAUTHORIZED: no or unknown
     * token, STATUS_FORBIDDEN: scope too small. Without a token principal->local says whether it came from our own
     * user. NULL: everyone may do everything. */
    enum status (*authorize)(void *thread, const char *token, enum scope scope, struct principal *principal,
                             struct error *error);
    const struct idempotency_hooks *idempotency; /* NULL: the header is ignored */
    const struct condition_hooks *conditions;    /* NULL: of two conditional changes at once, both may be made */
    struct http_limits limits;
};

/* Binds, listens and serves. The caller owns *out (http_server_stop). STATUS_INVALID (address; beyond loopback without
 * a token), STATUS_UNAVAILABLE (address in use), STATUS_FORBIDDEN, STATUS_IO, STATUS_NO_MEMORY, what thread_open
 * gave. */
MUST_CHECK enum status http_server_start(const struct http_options *options, struct http_server **out,
                                         struct error *error);

/* "http://127.0.0.1:8642", with the port that was really bound; lent. */
const char *http_server_url(const struct http_server *server);

/* New connections are given this pair of certificate and key, checked (tls_identity_read) and copied; others go on as
 * they are. Only of a server that was started with one. STATUS_NO_MEMORY: as before. Any thread. */
MUST_CHECK enum status http_server_renew(struct http_server *server, const struct tls_identity *identity,
                                         struct error *error);

/* Says that something about `topic` (NULL: all topics) changed: handlers and streams that wait on it run again. Cheap;
 * any thread may call it. A caller that may miss notifications wakes NULL every second or two. */
void http_server_wake(struct http_server *server, const char *topic);

enum { HTTP_TOKEN_SHA256 = 32, HTTP_TOKEN_ID = 64 };

/* A token that is valid, and the name that `authorize` gives the principal who sends it. */
struct http_token {
    unsigned char sha256[HTTP_TOKEN_SHA256];
    char id[HTTP_TOKEN_ID];
};

/* Whether, since this was last asked, a token came that http_server_tokens did not name and that was not right lately:
 * then whoever can should call that with all that are valid now. They are let through however many wrong tokens come.
 * Any thread. */
bool http_server_wants_tokens(struct http_server *server);
void http_server_tokens(struct http_server *server, struct http_token *tokens, size_t count); /* takes `tokens` over */

/* Appends Prometheus text: requests by route and status class, latency histograms, queue depth, connections,
 * streams. */
void http_server_metrics(const struct http_server *server, struct buffer *out);

/* Stops accepting, lets handlers finish, ends streams with a comment, closes everything and frees the server. NULL is
 * fine. */
void http_server_stop(struct http_server *server);

#endif
