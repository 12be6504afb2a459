/* The compiler's checked variant of recv would conflict with this definition. */
#undef _FORTIFY_SOURCE

#include "http/library_reads.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { DESCRIPTORS = 1 << 16 }; /* the kernel assigns the lowest free descriptor, so these are enough */

/* The only shared variable of the program that is not passed as an argument: recv gets a descriptor and nothing else.
 * Each row is written by the thread that reads the connection, while the connection owns the descriptor. */
static _Atomic(struct library_reads *) watched[DESCRIPTORS];

bool library_reads_watch(int descriptor, struct library_reads *reads)
{
    if (descriptor < 0 || descriptor >= DESCRIPTORS) return false;
    atomic_store(&watched[descriptor], reads);
    return true;
}

void library_reads_forget(int descriptor)
{
    if (descriptor >= 0 && descriptor < DESCRIPTORS) atomic_store(&watched[descriptor], NULL);
}

static struct library_reads *find(int descriptor)
{
    return descriptor >= 0 && descriptor < DESCRIPTORS ? atomic_load(&watched[descriptor]) : NULL;
}

/* Passes `got` bytes in the library's buffer of `size` through the guard. Returns how many of them the library gets; 0:
 * none, and it asks again. */
static size_t filter(struct head_guard *guard, char *bytes, size_t got, size_t size)
{
    const size_t passed = head_guard_pass(guard, bytes, got);
    return passed == got ? passed : passed + head_guard_end(guard, bytes + passed, size - passed);
}

/* recv is recvfrom without an address: POSIX says so, and glibc makes the same system call. When the guard holds
 * everything back, the library is told that nothing has arrived; the reaper's deadlines stay in force. */
__attribute__((used, visibility("default"))) ssize_t recv(int descriptor, void *bytes, size_t size, int flags)
{
    struct library_reads *reads = find(descriptor);
    if (reads == NULL || reads->session != NULL) return recvfrom(descriptor, bytes, size, flags, NULL, NULL);
    const size_t end = head_guard_end(&reads->guard, bytes, size);
    if (end > 0) return (ssize_t)end;
    const ssize_t got = recvfrom(descriptor, bytes, size, flags, NULL, NULL);
    if (got <= 0) return got;
    const size_t passed = filter(&reads->guard, bytes, (size_t)got, size);
    if (passed > 0) return (ssize_t)passed;
    errno = EAGAIN;
    return -1;
}

/* Another user's session may have a pointer where ours have a descriptor, so the session itself is compared. */
__attribute__((used, visibility("default"))) ssize_t gnutls_record_recv(gnutls_session_t session, void *bytes,
                                                                        size_t size)
{
    unsigned char sequence[8];
    struct library_reads *reads = find(gnutls_transport_get_int(session));
    if (reads == NULL || reads->session != session) return gnutls_record_recv_seq(session, bytes, size, sequence);
    const size_t end = head_guard_end(&reads->guard, bytes, size);
    if (end > 0) return (ssize_t)end;
    const ssize_t got = gnutls_record_recv_seq(session, bytes, size, sequence);
    if (got <= 0) return got;
    const size_t passed = filter(&reads->guard, bytes, (size_t)got, size);
    return passed > 0 ? (ssize_t)passed : GNUTLS_E_AGAIN;
}
