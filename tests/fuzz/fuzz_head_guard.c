/* What a client sends on one connection. In whatever parts it comes, the guard passes the same bytes and refuses the
 * same message; and what the library is given of a refused message, its end included, is one that the guard itself
 * finds nothing wrong with, so the library calls us with it. */
#include "fuzz.h"

#include "http/head_guard.h"

#include <string.h>

enum { END_MOST = 64 };

struct passed {
    struct head_guard guard;
    char *bytes;
    size_t size, clean; /* clean: without the end of a refused message */
};

/* Gives `size` bytes to a new guard, `part` at a time. The caller frees .bytes. */
static struct passed pass(const char *bytes, size_t size, size_t part)
{
    struct passed out = {.bytes = malloc(size + END_MOST)};
    char *buffer = malloc(part);
    fuzz_require(out.bytes != NULL && buffer != NULL);
    for (size_t at = 0; at < size; at += part) {
        const size_t here = size - at < part ? size - at : part;
        memcpy(buffer, bytes + at, here);
        const size_t kept = head_guard_pass(&out.guard, buffer, here);
        fuzz_require(kept <= here && (kept == here || out.guard.fault != NULL));
        memcpy(out.bytes + out.size, buffer, kept);
        out.size += kept;
    }
    out.clean = out.size;
    for (size_t got; (got = head_guard_end(&out.guard, out.bytes + out.size, 1)) > 0;) out.size += got;
    fuzz_require(out.size <= size + END_MOST);
    free(buffer);
    return out;
}

/* `text`: as the client sent it; the guard itself refuses what it changed. */
static void check_refused(const struct passed *refused, const char *text)
{
    memcpy(refused->bytes, text, refused->clean);
    struct passed again = pass(refused->bytes, refused->size, refused->size);
    fuzz_require(again.guard.fault == NULL && again.guard.messages == refused->guard.messages);
    fuzz_require(head_guard_fault(&again.guard, again.guard.messages) == NULL); /* its head is whole */
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) return 0;
    const char *text = (const char *)bytes + 1;
    struct passed whole = pass(text, size - 1, size - 1), parts = pass(text, size - 1, 1U + bytes[0]);
    fuzz_require(whole.size == parts.size && memcmp(whole.bytes, parts.bytes, whole.size) == 0);
    fuzz_require(whole.guard.fault == parts.guard.fault && whole.guard.heads == parts.guard.heads);
    fuzz_require(whole.guard.messages == parts.guard.messages && whole.guard.heads <= whole.guard.messages);
    for (unsigned i = 1; i <= whole.guard.heads; i++)
        fuzz_require(head_guard_fault(&whole.guard, i) == NULL || i == whole.guard.messages);
    fuzz_require(head_guard_fault(&whole.guard, whole.guard.messages + 1) != NULL);
    if (whole.guard.fault != NULL) check_refused(&whole, text);
    free(whole.bytes);
    free(parts.bytes);
    return 0;
}
