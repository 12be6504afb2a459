#include "jobs/quantize/quantize_saved.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/version.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <string.h>

#define STAGED_ROWS 1024 /* rows that pass through memory at a time */

/* The file: struct header; summaries as they lie in memory (only an engine of the same version reads them, because
 * the version is in the fingerprint); rows of each stream, elements as the backend has them; the checksum of all of
 * this. */
struct header {
    char magic[8];
    uint64_t fingerprint;
    int64_t element, summary_bytes, layer, end_bits, end_weights, layer_count, stream_count;
    int64_t rows[QUANTIZE_SAVED_STREAMS], columns[QUANTIZE_SAVED_STREAMS];
};
_Static_assert(sizeof(struct header) == 104, "the header has no gaps");

static const char magic[8] = "deltaqQ1";

static uint64_t full_fingerprint(uint64_t given)
{
    const int64_t revision = ENGINE_REVISION;
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, &revision, sizeof revision);
    checksum_add(&sum, DELTAQ_VERSION, sizeof DELTAQ_VERSION);
    checksum_add(&sum, &given, sizeof given);
    return checksum_value(&sum);
}

static struct header header_of(const struct backend *backend, const struct quantize_saved *kept)
{
    struct header header = {
        .fingerprint = full_fingerprint(kept->fingerprint),
        .element = (int64_t)backend->ops->element,
        .summary_bytes = (int64_t)sizeof(struct layer_summary),
        .layer = kept->layer,
        .end_bits = kept->end_bits,
        .end_weights = kept->end_weights,
        .layer_count = kept->layer_count,
        .stream_count = kept->stream_count,
    };
    memcpy(header.magic, magic, sizeof magic);
    for (int64_t i = 0; i < kept->stream_count; i++) {
        header.rows[i] = kept->streams[i]->tokens;
        header.columns[i] = kept->streams[i]->width;
    }
    return header;
}

static int64_t file_size(const struct header *header)
{
    int64_t bytes = (int64_t)sizeof *header + header->layer_count * header->summary_bytes + (int64_t)sizeof(uint64_t);
    for (int64_t i = 0; i < header->stream_count; i++) bytes += header->rows[i] * header->columns[i] * header->element;
    return bytes;
}

static enum status staging_new(const struct backend *backend, const struct quantize_saved *kept, void **out,
                               struct error *error)
{
    int64_t widest = 0;
    for (int64_t i = 0; i < kept->stream_count; i++)
        if (kept->streams[i]->width > widest) widest = kept->streams[i]->width;
    return memory_new(STAGED_ROWS * widest, backend->ops->element, "the state of a run", out, error);
}

static int64_t staged_rows(const struct hidden *stream, int64_t first)
{
    return stream->tokens - first < STAGED_ROWS ? stream->tokens - first : STAGED_ROWS;
}

static enum status put(struct file_writer *writer, struct checksum *sum, const void *bytes, size_t size,
                       struct error *error)
{
    if (size == 0) return STATUS_OK;
    checksum_add(sum, bytes, size);
    return file_writer_append(writer, bytes, size, error);
}

enum status quantize_saved_write(const char *path, struct backend *backend, const struct quantize_saved *kept,
                                 struct error *error)
{
    const struct header header = header_of(backend, kept);
    struct file_writer *writer = NULL;
    struct checksum sum;
    void *staging = NULL;
    enum status status;
    checksum_init(&sum);
    if ((status = staging_new(backend, kept, &staging, error)) != STATUS_OK) goto done;
    if ((status = file_writer_open(path, file_size(&header), &writer, error)) != STATUS_OK) goto done;
    if ((status = put(writer, &sum, &header, sizeof header, error)) != STATUS_OK) goto done;
    status = put(writer, &sum, kept->layers, (size_t)kept->layer_count * sizeof *kept->layers, error);
    for (int64_t i = 0; i < kept->stream_count; i++) {
        struct hidden *const stream = kept->streams[i];
        for (int64_t first = 0, rows; first < stream->tokens && status == STATUS_OK; first += rows) {
            rows = staged_rows(stream, first);
            status = hidden_read(stream, first, rows, staging, hidden_dtype(stream), error);
            if (status == STATUS_OK)
                status = put(writer, &sum, staging, (size_t)(rows * stream->width) * backend->ops->element, error);
        }
    }
    if (status != STATUS_OK) goto done;
    const uint64_t value = checksum_value(&sum);
    if ((status = file_writer_append(writer, &value, sizeof value, error)) != STATUS_OK) goto done;
    status = file_writer_commit(writer, error);
done:
    file_writer_close(writer);
    memory_free(staging);
    return status;
}

/* Whether the file has the fingerprint and shape that are asked for, and the size that its header says. */
static bool fits(const struct file *file, const struct header *header, const struct backend *backend,
                 const struct quantize_saved *kept)
{
    const struct header wanted = header_of(backend, kept);
    return memcmp(header->magic, magic, sizeof magic) == 0 && header->fingerprint == wanted.fingerprint &&
           header->element == wanted.element && header->summary_bytes == wanted.summary_bytes &&
           header->stream_count == wanted.stream_count && memcmp(header->rows, wanted.rows, sizeof wanted.rows) == 0 &&
           memcmp(header->columns, wanted.columns, sizeof wanted.columns) == 0 && header->layer_count >= 0 &&
           header->layer_count <= wanted.layer_count && file_size(header) == file_bytes(file);
}

static enum status get(const struct file *file, struct checksum *sum, int64_t *at, void *bytes, size_t size,
                       struct error *error)
{
    if (size == 0) return STATUS_OK;
    const enum status status = file_read(file, *at, bytes, size, error);
    if (status != STATUS_OK) return status;
    checksum_add(sum, bytes, size);
    *at += (int64_t)size;
    return STATUS_OK;
}

static enum status body_read(const struct file *file, struct backend *backend, const struct header *header,
                             void *staging, struct quantize_saved *kept, bool *found, struct error *error)
{
    struct checksum sum;
    uint64_t stored = 0;
    int64_t at = sizeof *header;
    checksum_init(&sum);
    checksum_add(&sum, header, sizeof *header);
    enum status status = get(file, &sum, &at, kept->layers, (size_t)header->layer_count * sizeof *kept->layers, error);
    for (int64_t i = 0; i < kept->stream_count && status == STATUS_OK; i++) {
        struct hidden *const stream = kept->streams[i];
        for (int64_t first = 0, rows; first < stream->tokens && status == STATUS_OK; first += rows) {
            rows = staged_rows(stream, first);
            status = get(file, &sum, &at, staging, (size_t)(rows * stream->width) * backend->ops->element, error);
            if (status == STATUS_OK) status = hidden_write(stream, first, rows, staging, hidden_dtype(stream), error);
        }
    }
    if (status == STATUS_OK) status = file_read(file, at, &stored, sizeof stored, error);
    *found = status == STATUS_OK && stored == checksum_value(&sum);
    return status;
}

/* A file that cannot be read counts as no file: the run begins again. */
enum status quantize_saved_read(const char *path, struct backend *backend, struct quantize_saved *kept, bool *found,
                                struct error *error)
{
    struct file *file = NULL;
    struct error cause;
    struct header header;
    void *staging = NULL;
    enum status status = STATUS_OK;
    *found = false;
    if (file_open(AT_FDCWD, path, FILE_REFUSE_LINKS, INT64_MAX, &file, &cause) != STATUS_OK) return STATUS_OK;
    if (file_read(file, 0, &header, sizeof header, &cause) != STATUS_OK || !fits(file, &header, backend, kept))
        goto done;
    if ((status = staging_new(backend, kept, &staging, error)) != STATUS_OK) goto done;
    if (body_read(file, backend, &header, staging, kept, found, &cause) != STATUS_OK) *found = false;
    if (!*found) goto done;
    kept->layer = header.layer;
    kept->end_bits = header.end_bits;
    kept->end_weights = header.end_weights;
    kept->layer_count = header.layer_count;
done:
    memory_free(staging);
    file_close(file);
    return status;
}
