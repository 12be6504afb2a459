/* stand_in.h: a service on a port of its own that answers one request after the other, as the test says. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STAND_IN_REQUEST = 96 << 10, STAND_IN_BODY = 4096 };

struct stand_in {
    /* Writes the body for `request`, may set `header`, and returns the status; 0: the connection ends without an
     * answer. */
    int (*answer)(struct stand_in *service, const char *request, char body[STAND_IN_BODY]);
    const char *header; /* one more line of all answers, with its end; NULL: none */
    int listening;
    pthread_t thread;
    char url[64];
    atomic_int asked, seconds; /* how often keys were asked for; how long they are good */
    atomic_int fault;          /* which of its faults the service has; 0: none */
    char last[STAND_IN_REQUEST];
};

/* The end of keys that are handed out now: "2026-01-31T12:00:00Z". */
static inline void stand_in_end(struct stand_in *service, char out[32])
{
    const time_t end = time(NULL) + atomic_load(&service->seconds);
    struct tm broken;
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &broken));
}

/* Whether the head and all of the body that it announces are there. */
static inline bool stand_in_whole(const char *request, size_t length)
{
    const char *end = strstr(request, "\r\n\r\n"), *announced = strstr(request, "Content-Length: ");
    if (end == NULL) return false;
    const size_t body = announced != NULL && announced < end ? strtoul(announced + 16, NULL, 10) : 0;
    return length >= (size_t)(end - request) + 4 + body;
}

static inline void *stand_in_serve(void *context)
{
    struct stand_in *service = context;
    for (int connection; (connection = accept(service->listening, NULL, NULL)) >= 0; (void)close(connection)) {
        char body[STAND_IN_BODY] = "", head[256];
        size_t length = 0;
        service->last[0] = '\0';
        for (ssize_t more = 1; more > 0 && !stand_in_whole(service->last, length);) {
            more = recv(connection, service->last + length, sizeof service->last - 1 - length, 0);
            if (more > 0) length += (size_t)more;
            service->last[length] = '\0';
        }
        const int status = service->answer(service, service->last, body);
        if (status == 0) continue;
        const int bytes =
            snprintf(head, sizeof head, "HTTP/1.1 %d x\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n", status,
                     strlen(body), service->header != NULL ? service->header : "");
        (void)send(connection, head, (size_t)bytes, MSG_NOSIGNAL);
        (void)send(connection, body, strlen(body), MSG_NOSIGNAL);
    }
    return NULL;
}

static inline void stand_in_start(struct stand_in *service, int seconds,
                                  int (*answer)(struct stand_in *service, const char *request,
                                                char body[STAND_IN_BODY]))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    memset(service, 0, sizeof *service);
    service->answer = answer;
    atomic_store(&service->seconds, seconds);
    service->listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(service->listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(service->listening, 8), 0);
    assert_int_equal(getsockname(service->listening, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(service->url, sizeof service->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&service->thread, NULL, stand_in_serve, service), 0);
}

static inline void stand_in_stop(struct stand_in *service)
{
    (void)shutdown(service->listening, SHUT_RDWR);
    (void)pthread_join(service->thread, NULL);
    (void)close(service->listening);
}

#endif
