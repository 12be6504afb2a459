/* exchange.h: one request and its answer, from request line to last byte. Private to server/http.
 *
 * Life: made when the request line is read (network thread), linted when the head is complete, suspended until a
 * handler thread has checked the token if there is a body to come, fed with the body, suspended and handed to the
 * handler pool, perhaps parked with the waiters, prepared (MHD_Response) on the handler thread, resumed, queued on the
 * network thread, freed by the completed callback. It belongs to one thread at a time: the connection stays suspended
 * while the pool or the waiters have it, so libmicrohttpd does not touch it then. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "http/body.h"
#include "http/client_address.h"
#include "http/encoding.h"
#include "http/lint.h"
#include "http/permits.h"
#include "http/problem.h"
#include "http/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

struct handler_pool;
struct head_guard;
struct metrics;
struct rate_limit;
struct reaper;
struct reaper_entry;
struct stream;
struct streams;
struct tls_current;
struct token_backoff;
struct waiters;

enum response_kind {
    RESPONSE_UNSET,
    RESPONSE_BYTES,
    RESPONSE_FILE,
    RESPONSE_EMPTY,
    RESPONSE_WAIT,
    RESPONSE_TO_WORK,
    RESPONSE_STREAM
};

enum { RESPONSE_HEADERS_MAX = 8, RESPONSE_ERRORS_MAX = 32, TOPIC_SIZE = 64 };

struct response {
    enum response_kind kind;
    int http_status;
    char content_type[96];
    char *bytes; /* owned unless `lent` */
    size_t length;
    bool lent;     /* bytes outlive the server */
    bool gzip;     /* bytes are already compressed */
    bool vary;     /* the answer depends on Accept-Encoding */
    bool no_cache; /* caches must not store it: event streams */
    bool immutable;
    bool recorded;                /* the handler's own transaction keeps this answer for the Idempotency-Key */
    int file;                     /* owned; -1: none */
    int64_t file_from, file_size; /* of what is sent */
    char etag[80];                /* without quotes; "": none */
    struct response_header {
        char name[40];
        char *value; /* owned */
    } headers[RESPONSE_HEADERS_MAX];
    size_t header_count;
    json_t *errors; /* array, owned; NULL: none */
    char topic[TOPIC_SIZE];
    double wait_seconds;
    char memo[64];           /* for request.remembered */
    struct stream *stream;   /* owned until the MHD_Response has it */
    struct streams *streams; /* lent, like the next */
    const char *client;      /* whom a stream counts for */
    const char *token;       /* whose stream it is: principal.name; lent */
};

void response_init(struct response *response, struct streams *streams);
void response_reset(struct response *response); /* frees all and makes it unset; what is lent stays */

void response_drop_headers(struct response *response);

enum exchange_stage {
    EXCHANGE_HEAD,     /* nothing seen but the request line */
    EXCHANGE_CHECKING, /* suspended before its body is read: a handler thread asks whether the token may do this */
    EXCHANGE_BODY,     /* linted; the body is collected, or thrown away when `refused` */
    EXCHANGE_HANDLING, /* suspended: with the pool or the waiters */
    EXCHANGE_ANSWERED
};

/* The listeners of a server. */
enum front_kind { FRONT_MAIN, FRONT_SOCKET, FRONT_PROBES, FRONT_COUNT };

struct front {
    enum front_kind kind;
    struct http_server *server; /* lent */
    struct MHD_Daemon *daemon;  /* NULL: there is none */
    char **hosts;               /* owned, ends with NULL */
    bool tls;
    bool wildcard; /* bound to all addresses: Host may also be the address that the client connected to */
};

/* Who runs handlers: each with threads and a queue of its own. POOL_PROBES is of those permits that others may flood,
 * POOL_OWN_PROBES of the address for probes alone. */
enum pool_kind { POOL_PLAIN, POOL_PROBES, POOL_OWN_PROBES, POOL_WORK, POOL_COUNT };

struct exchange {
    struct exchange *next; /* in the pool's queue or in the waiters' list */
    struct http_server *server;
    const struct front *front;
    struct handler_pool *pool; /* the pool that has it; lent */
    struct MHD_Connection *connection;
    struct reaper_entry *entry;     /* of the connection; lent */
    const struct head_guard *guard; /* the same */
    unsigned number;                /* number of the request on its connection, from 1 */
    struct request request;
    struct response response;
    struct monitor monitor; /* request.monitor points to it */
    struct monitor presence;
    int64_t work_ms; /* when the handler started */
    enum exchange_stage stage;
    char *target; /* own copy of the request target; request.path points into it, cut at the "?" */
    const char *query;
    const char *method; /* as sent */
    const struct route *route;
    size_t metric; /* row in the metrics */
    bool refused;  /* the answer is prepared; the rest of the body is thrown away */
    bool swallow;  /* the body is small enough for that, else the connection is closed behind a refusal */
    bool close;
    bool started;  /* counted in `active` */
    bool reserved; /* its Idempotency-Key is reserved for it */
    bool replayed; /* the answer is that of an earlier request with the same Idempotency-Key */
    bool left;     /* the client has left while it was parked */
    bool waits;    /* it has one of the permits for waits */
    struct body body;
    size_t body_limit;
    uint64_t body_declared; /* 0: the client sent no length */
    char *text;             /* of the body, while it is parsed: body.bytes, or owned */
    size_t parsed_bytes;    /* memory of the parsed body */
    int64_t started_ms;
    int64_t deadline_ms;         /* end of the handler's wait; 0: it did not ask for one */
    int64_t retry_ms;            /* parked for a busy Idempotency-Key: when to look again; 0: not so */
    int64_t retry_deadline_ms;   /* when to give that up */
    uint64_t wakes_seen;         /* number of wakes before the handler ran; see waiters.h */
    int retry_seconds;           /* Retry-After of a problem that a retry may help with; 0: 1 */
    struct client_address from;  /* whose request it is (client_address.h) */
    bool local;                  /* no token was sent, and it is our own user's or root's, or all of them are trusted */
    uid_t user;                  /* of `local`, where that is known; else (uid_t)-1 */
    bool authorized, admitted;   /* admitted: and parsed */
    bool refused_who;            /* for want of a token, for a wrong one, or for one that may not do this */
    char client[PERMITS_CLIENT]; /* once it is authorized: client_name */
    char key_hash[65];
    char condition[ETAG_SIZE];   /* the entity tag whose lock it holds; "": none */
    struct MHD_Response *answer; /* owned */
    int http_status;
    int64_t answer_bytes; /* 0 for a stream */
};

struct http_server {
    struct http_options options; /* limits filled in */
    struct front fronts[FRONT_COUNT];
    struct handler_pool *pools[POOL_COUNT]; /* NULL: there is no such front */
    struct waiters *waiters;
    struct permits *waits;
    struct streams *streams;
    struct reaper *reaper;
    struct metrics *metrics;
    struct tls_current *tls; /* NULL: no HTTPS */
    struct token_backoff *backoff;
    struct rate_limit *by_address, *by_token; /* NULL: no limit */
    struct rate_limit *refusals;              /* limits the log lines about refusals */
    atomic_uint refusals_left_out;            /* since the last such line */
    struct rate_limit *rate_lines;            /* limits the log lines about clients that ask too often */
    atomic_uint rate_left_out;
    char url[128];
    atomic_bool stopping;
    atomic_uint active; /* exchanges that have started and not completed */
    struct bodies bodies;
};

void exchange_free(struct exchange *exchange);

/* Makes exchange->answer from exchange->response: entity tag and 304, gzip, headers. Uses a fixed text when memory has
 * run out; only then can exchange->answer be NULL (the connection is dropped). */
void answer_prepare(struct exchange *exchange);

/* Sets the response to a problem document. */
void answer_problem(struct exchange *exchange, const struct problem *problem, const struct error *error);

/* Adds a header that the caller knows to be valid. Drops it when memory has run out. */
void answer_header(struct exchange *exchange, const char *name, const char *value);

#endif
