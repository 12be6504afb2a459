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
    IDEMPOTENCY_NEW,      /* reserved for this request: call the handler */
    IDEMPOTENCY_REPLAY,   /* the request was answered before: *answer */
    IDEMPOTENCY_MISMATCH, /* the key came with another body: 422 */
    IDEMPOTENCY_BUSY      /* another request with it is running: asked again for up to 10 s, then 409 */
};

/* The storage of answers. Both functions run on a handler thread with its context. */
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

enum { HTTP_TOKEN_SHA256 = 32, HTTP_TOKEN_ID = 64 };

/* Who opened an event stream, and whether that may still be read. */
struct http_reader {
    char token[HTTP_TOKEN_ID]; /* principal.name of the request; "": no token was needed */
    bool allowed;
};

struct http_limits {         /* 0: the default */
    int header_milliseconds; /* 5000: from the connection, or the request line, to the last header */
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
    size_t body_memory;      /* 48 MiB: what all parsed bodies may take; other requests wait 10 s, then get 503 */
};

struct http_options {   /* lent for the life of the server */
    const char *listen; /* "127.0.0.1:8642", "[::1]:0", "0.0.0.0:80"; a numeric address or "localhost" */
    /* More names for the Host check ("node7" with any of our ports, "node7:80"); ends with NULL; NULL: none. */
    const char *const *allowed_hosts;
    const char *const *allowed_origins; /* origins whose pages may read answers (cors.h), checked; ends with NULL; NULL:
                                         * none */
    bool token_configured;              /* a token exists: needed to listen beyond loopback */
    const char *socket;                 /* an additional unix socket; NULL: none */
    const char *probes;                 /* an address that serves only ROUTE_PROBE; NULL: none */
    bool trust_loopback; /* every client without a token is principal.local; for servers where only loopback clients
                          * need none */
    const struct client_networks *trusted_proxies; /* proxies whose X-Forwarded-For is believed; NULL: none */
    int token_rate, address_rate;                  /* requests a second (client.h); 0: no limit */
    const struct tls_identity *tls; /* for `listen`, not for `socket` and `probes`; NULL, or without a certificate:
                                     * HTTP */
    const struct route *routes;
    size_t route_count;
    const struct static_files *files; /* NULL: none */
    const char *spill_directory;      /* directory of the nameless files of large bodies; NULL: /tmp */
    int handler_threads;              /* 0: 4 */
    int network_threads;              /* 0: 2 */
    bool access_log;                  /* one line a request to stderr */
    void *application;
    /* Make and free the context of each handler thread (and of the broadcaster of streams): its database connection.
     * thread_open should work while the database is down. Both may be NULL. */
    enum status (*thread_open)(void *application, void **thread, struct error *error);
    void (*thread_close)(void *application, void *thread);
    /* Finds the owner of `token` (NULL: none was sent) and whether the token suffices for `scope`. STATUS_UNAUTHORIZED:
     * no token, or an unknown one; STATUS_FORBIDDEN: its scope is too small. Without a token principal->local says
     * whether the request came from our own user. NULL: everyone may do everything. */
    enum status (*authorize)(void *thread, const char *token, enum scope scope, struct principal *principal,
                             struct error *error);
    /* Sets `allowed` of each reader: whether its token is still valid, or still none is needed. On the broadcaster's
     * thread, once a second while there are event streams, for all of them together. NULL: streams are not asked
     * about. */
    enum status (*authorize_again)(void *thread, struct http_reader *readers, size_t count, struct error *error);
    const struct idempotency_hooks *idempotency; /* NULL: the header is ignored */
    const struct condition_hooks *conditions;    /* NULL: of two conditional changes at once, both may be made */
    struct http_limits limits;
};

/* Binds, listens and serves. The caller owns *out (http_server_stop). STATUS_INVALID (address; beyond loopback without
 * a token), STATUS_UNAVAILABLE (address in use), STATUS_FORBIDDEN, STATUS_IO, STATUS_NO_MEMORY, what thread_open
 * gave. */
MUST_CHECK enum status http_server_start(const struct http_options *options, struct http_server **out,
                                         struct error *error);

/* "http://127.0.0.1:8642" with the port that was actually bound; lent. */
const char *http_server_url(const struct http_server *server);

/* Gives new connections this certificate and key, checked (tls_identity_read) and copied; open connections are not
 * affected. The server must have been started with a certificate. STATUS_NO_MEMORY: nothing changes. Any thread. */
MUST_CHECK enum status http_server_renew(struct http_server *server, const struct tls_identity *identity,
                                         struct error *error);

/* Says that something about `topic` (NULL: all topics) has changed: handlers and streams that wait for it run again. It
 * is cheap, and any thread may call it. A caller that may miss notifications wakes NULL every second or two. */
void http_server_wake(struct http_server *server, const char *topic);

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
