#include "eval/baseline.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

#define CHUNK_ROWS 1024 /* rows that pass through memory at a time */

/* Head of the file; then rows * columns floats; then a checksum over all before it. */
struct baseline_head {
    char magic[8];
    int64_t rows, columns;
};
static_assert(sizeof(struct baseline_head) == 24, "the head is as it lies on disk");

static const char magic[8] = "dqhidden";

static int64_t chunk_rows(const struct hidden *hidden, int64_t first)
{
    return hidden->tokens - first < CHUNK_ROWS ? hidden->tokens - first : CHUNK_ROWS;
}

static int64_t file_size(const struct hidden *hidden)
{
    return (int64_t)sizeof(struct baseline_head) + hidden->tokens * hidden->width * (int64_t)sizeof(float) +
           (int64_t)sizeof(uint64_t);
}

/* Reads the whole file: into `hidden` if `upload`, otherwise only to check it. */
static enum status chunks_read(const struct file *file, struct hidden *hidden, float *chunk, bool upload, bool *good,
                               struct error *error)
{
    struct baseline_head head;
    struct checksum sum;
    uint64_t kept = 0;
    int64_t at = sizeof head;
    enum status status;
    if ((status = file_read(file, 0, &head, sizeof head, error)) != STATUS_OK) return status;
    *good =
        memcmp(head.magic, magic, sizeof magic) == 0 && head.rows == hidden->tokens && head.columns == hidden->width;
    if (!*good) return STATUS_OK;
    checksum_init(&sum);
    checksum_add(&sum, &head, sizeof head);
    for (int64_t first = 0, rows; first < hidden->tokens; first += rows) {
        rows = chunk_rows(hidden, first);
        const size_t size = (size_t)(rows * hidden->width) * sizeof *chunk;
        if ((status = file_read(file, at, chunk, size, error)) != STATUS_OK) return status;
        at += (int64_t)size;
        checksum_add(&sum, chunk, size);
        if (upload && (status = hidden_write(hidden, first, rows, chunk, DTYPE_F32, error)) != STATUS_OK) return status;
    }
    if ((status = file_read(file, at, &kept, sizeof kept, error)) != STATUS_OK) return status;
    *good = kept == checksum_value(&sum);
    return STATUS_OK;
}

/* The file is checked first, so that a torn file leaves `hidden` unchanged. A file that cannot be read counts as
 * missing. */
enum status baseline_load(const char *path, struct hidden *hidden, bool *found, struct error *error)
{
    struct file *file = NULL;
    float *chunk = NULL;
    struct error cause;
    enum status status = STATUS_OK;
    *found = false;
    if (file_open(AT_FDCWD, path, FILE_REFUSE_LINKS, INT64_MAX, &file, &cause) != STATUS_OK) return STATUS_OK;
    if (file_bytes(file) != file_size(hidden)) goto done;
    if ((status = memory_new(CHUNK_ROWS * hidden->width, sizeof *chunk, "baseline", &chunk, error)) != STATUS_OK)
        goto done;
    if (chunks_read(file, hidden, chunk, false, found, &cause) != STATUS_OK) *found = false;
    if (*found) status = chunks_read(file, hidden, chunk, true, found, error);
done:
    memory_free(chunk);
    file_close(file);
    return status;
}

static enum status chunks_write(struct file_writer *writer, struct hidden *hidden, float *chunk, struct error *error)
{
    struct baseline_head head = {.rows = hidden->tokens, .columns = hidden->width};
    struct checksum sum;
    enum status status;
    memcpy(head.magic, magic, sizeof magic);
    checksum_init(&sum);
    checksum_add(&sum, &head, sizeof head);
    if ((status = file_writer_append(writer, &head, sizeof head, error)) != STATUS_OK) return status;
    for (int64_t first = 0, rows; first < hidden->tokens; first += rows) {
        rows = chunk_rows(hidden, first);
        const size_t size = (size_t)(rows * hidden->width) * sizeof *chunk;
        if ((status = hidden_read(hidden, first, rows, chunk, DTYPE_F32, error)) != STATUS_OK) return status;
        checksum_add(&sum, chunk, size);
        if ((status = file_writer_append(writer, chunk, size, error)) != STATUS_OK) return status;
    }
    const uint64_t kept = checksum_value(&sum);
    if ((status = file_writer_append(writer, &kept, sizeof kept, error)) != STATUS_OK) return status;
    return file_writer_commit(writer, error);
}

enum status baseline_save(const char *path, struct hidden *hidden, struct error *error)
{
    struct file_writer *writer = NULL;
    float *chunk = NULL;
    enum status status;
    if ((status = memory_new(CHUNK_ROWS * hidden->width, sizeof *chunk, "baseline", &chunk, error)) != STATUS_OK)
        goto done;
    if ((status = file_writer_open(path, file_size(hidden), &writer, error)) != STATUS_OK) goto done;
    status = chunks_write(writer, hidden, chunk, error);
done:
    file_writer_close(writer);
    memory_free(chunk);
    return status;
}
