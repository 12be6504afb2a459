/* handler_pool.h: the threads that run handlers, and their bounded queue. For each request, in order: token, body
 * parsed, idempotency key, handler, answer prepared, connection resumed. Private to server/http. */
#ifndef HTTP_HANDLER_POOL_H
#define HTTP_HANDLER_POOL_H

#include "http/exchange.h"

struct handler_pool;

/* `threads` threads and a queue of `limit`. `server` is lent; its waiters exist by then. The caller owns *out.
 * STATUS_NO_MEMORY, what thread_open gave. */
MUST_CHECK enum status handler_pool_start(struct http_server *server, int threads, unsigned limit,
                                          struct handler_pool **out, struct error *error);

/* Queues the exchange, whose connection is suspended. False when the queue is full or the pool stops; the caller then
 * keeps the exchange. */
bool handler_pool_push(struct handler_pool *pool, struct exchange *exchange);

/* Queues an exchange that was parked in its pool again. It was admitted before, so it is not refused when the queue is
 * full. */
void handler_pool_push_again(struct exchange *exchange);

unsigned handler_pool_depth(struct handler_pool *pool);

/* Finishes the requests that are running, answers the queued ones with 503, joins the threads. */
void handler_pool_stop(struct handler_pool *pool);
void handler_pool_free(struct handler_pool *pool); /* NULL is fine */

#endif
