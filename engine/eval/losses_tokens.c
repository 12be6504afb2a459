#include "eval/losses_tokens.h"

#include "base/memory.h"
#include "files/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Magic, version, length of the rest of the head. The values are little-endian, like every processor that deltaq
 * supports. */
enum { BEFORE = 10, REST = LOSSES_TOKENS_HEAD - BEFORE };

void losses_tokens_head(int64_t predictions, char head[LOSSES_TOKENS_HEAD])
{
    static const char before[BEFORE] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, REST, 0};
    char shape[REST], rest[REST + 1];
    (void)snprintf(shape, sizeof shape, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ",), }",
                   predictions);
    (void)snprintf(rest, sizeof rest, "%-*s\n", REST - 1, shape);
    memcpy(head, before, BEFORE);
    memcpy(head + BEFORE, rest, REST);
}

enum status losses_tokens_read(const char *path, int64_t predictions, float **out, struct error *error)
{
    const size_t size = (size_t)predictions * sizeof **out;
    char head[LOSSES_TOKENS_HEAD], *text = NULL;
    size_t bytes = 0;
    *out = NULL;
    losses_tokens_head(predictions, head);
    enum status status = file_read_all(AT_FDCWD, path, (int64_t)(sizeof head + size), &text, &bytes, error);
    if (status == STATUS_TOO_LARGE ||
        (status == STATUS_OK && (bytes != sizeof head + size || memcmp(text, head, sizeof head) != 0)))
        status = error_set(error, STATUS_CORRUPT, "the losses of the run's tokens are not as they were written");
    if (status == STATUS_OK) status = memory_new(predictions, sizeof **out, "losses of tokens", out, error);
    if (status == STATUS_OK) memcpy(*out, text + sizeof head, size);
    memory_free(text);
    return status;
}
