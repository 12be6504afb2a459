#include "http/late_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* One connection's share of a tick: 40 MiB/s, so the largest body is gone well within the time. */
enum { DISCARD_BYTES = 64 << 10, TICK_BYTES = 4 << 20 };

struct late_bytes {
    pthread_mutex_t mutex;
    int count;
    struct {
        int descriptor;
        int64_t until_ms, left; /* bytes that may still come */
    } kept[LATE_BYTES_MOST];
};

enum status late_bytes_new(struct late_bytes **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for late bytes");
    (void)pthread_mutex_init(&(*out)->mutex, NULL);
    return STATUS_OK;
}

void late_bytes_expect(struct late_bytes *late, int descriptor, int64_t now)
{
    (void)shutdown(descriptor, SHUT_WR);
    pthread_mutex_lock(&late->mutex);
    const int copy = late->count < LATE_BYTES_MOST ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0) {
        late->kept[late->count].descriptor = copy;
        late->kept[late->count].left = LATE_BYTES_LIMIT;
        late->kept[late->count++].until_ms = now + LATE_BYTES_MILLISECONDS;
    }
    pthread_mutex_unlock(&late->mutex);
}

/* Discards what is there, TICK_BYTES of it at most. False: the client sends nothing more. */
static bool discard(int descriptor, int64_t *left)
{
    char bytes[DISCARD_BYTES];
    const int64_t least = *left - TICK_BYTES;
    while (*left > least) {
        const ssize_t got = recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0) return false;
        if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        *left -= got;
    }
    return true;
}

void late_bytes_discard(struct late_bytes *late, int64_t now)
{
    pthread_mutex_lock(&late->mutex);
    for (int i = late->count - 1; i >= 0; i--) {
        const bool goes_on = discard(late->kept[i].descriptor, &late->kept[i].left);
        if (goes_on && late->kept[i].left > 0 && late->kept[i].until_ms > now) continue;
        (void)close(late->kept[i].descriptor);
        late->kept[i] = late->kept[--late->count];
    }
    pthread_mutex_unlock(&late->mutex);
}

void late_bytes_free(struct late_bytes *late)
{
    if (late == NULL) return;
    for (int i = 0; i < late->count; i++) (void)close(late->kept[i].descriptor);
    (void)pthread_mutex_destroy(&late->mutex);
    free(late);
}
