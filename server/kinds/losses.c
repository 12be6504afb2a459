#include "kinds/losses.h"

#include "base/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* NumPy's format 1.0: magic, version, length of the header, the header; 128 bytes in all, which hold any count. The
 * values are little-endian, as every processor is that this is built for. */
enum { NPY_HEAD = 128, NPY_BEFORE = 10 };

struct losses_part {
    const void *bytes;
    size_t size;
};

static enum status publish(struct artifacts *artifacts, const char *name, const char *media_type,
                           const struct losses_part *parts, size_t count, struct error *error)
{
    struct artifact_writer *writer = NULL;
    enum status status = artifact_open(artifacts, name, media_type, &writer, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = artifact_write(writer, parts[i].bytes, parts[i].size, error);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}

enum status losses_publish(struct artifacts *artifacts, const int64_t *predictions, int64_t sequences,
                           const struct losses_column *columns, size_t column_count, struct error *error)
{
    struct buffer text = {0};
    enum status status = losses_table_print(&text, predictions, sequences, columns, column_count, error);
    if (status == STATUS_OK)
        status = publish(artifacts, LOSSES_ARTIFACT, "text/csv; charset=utf-8",
                         &(struct losses_part){text.bytes, text.length}, 1, error);
    buffer_reset(&text);
    return status;
}

enum status losses_publish_tokens(struct artifacts *artifacts, const struct losses_tokens *arrays, size_t array_count,
                                  int64_t predictions, struct error *error)
{
    static const char before[NPY_BEFORE] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEAD - NPY_BEFORE, 0};
    char head[NPY_HEAD + 1], shape[NPY_HEAD - NPY_BEFORE];
    enum status status = STATUS_OK;
    (void)snprintf(shape, sizeof shape, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ",), }",
                   predictions);
    (void)snprintf(head + NPY_BEFORE, sizeof head - NPY_BEFORE, "%-*s\n", NPY_HEAD - NPY_BEFORE - 1, shape);
    memcpy(head, before, sizeof before);
    for (size_t i = 0; i < array_count && status == STATUS_OK; i++) {
        const struct losses_part parts[] = {{head, NPY_HEAD},
                                            {arrays[i].values, (size_t)predictions * sizeof *arrays[i].values}};
        status = publish(artifacts, arrays[i].artifact, "application/octet-stream", parts, 2, error);
    }
    return status;
}
