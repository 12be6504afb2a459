#include "jobs/sharpness/sharpness_state.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <stdlib.h>
#include <string.h>

/* The file, little endian: struct header; records; numbers; vectors, their elements as the backend has them; the
 * checksum of all before it (8 bytes). */
#define MAGIC "deltaqSH"
enum { VERSION = 1, CHUNK = 1 << 18 /* elements at a time */ };

struct header {
    char magic[8];
    uint32_t version, element;
    uint64_t fingerprint;
    int64_t tasks, products, most_vectors;
    int64_t record_count, number_count, vector_count, vector_elements;
};
_Static_assert(sizeof(struct header) == 80, "the header has no gaps");

void sharpness_state_reset(struct sharpness_state *state)
{
    free(state->records);
    *state = (struct sharpness_state){0};
}

enum status sharpness_state_record(struct sharpness_state *state, const double *numbers, int64_t count,
                                   struct error *error)
{
    if (state->record_count + count > state->record_capacity) {
        const int64_t capacity = 2 * (state->record_count + count);
        double *larger = realloc(state->records, (size_t)capacity * sizeof *larger);
        if (larger == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the state of a run");
        state->records = larger;
        state->record_capacity = capacity;
    }
    if (count > 0) memcpy(state->records + state->record_count, numbers, (size_t)count * sizeof *numbers);
    state->record_count += count;
    return STATUS_OK;
}

static int64_t file_size(const struct header *header)
{
    return (int64_t)sizeof *header + (header->record_count + header->number_count) * (int64_t)sizeof(double) +
           header->vector_count * header->vector_elements * header->element + (int64_t)sizeof(uint64_t);
}

struct output {
    struct file_writer *writer;
    struct checksum sum;
};

static enum status put(struct output *output, const void *bytes, size_t size, struct error *error)
{
    if (size == 0) return STATUS_OK;
    checksum_add(&output->sum, bytes, size);
    return file_writer_append(output->writer, bytes, size, error);
}

static enum dtype dtype_of(const struct backend *backend)
{
    return backend->ops->element == sizeof(double) ? DTYPE_F64 : DTYPE_F32;
}

static enum status put_vectors(struct output *output, const struct basis *basis, void *staging, struct error *error)
{
    const int64_t elements = basis->vectors[0].rows * VECTOR_COLUMNS;
    struct backend *backend = basis->space->backend;
    for (int64_t i = 0; i < basis->count; i++)
        for (int64_t first = 0, count; first < elements; first += count) {
            count = elements - first < CHUNK ? elements - first : CHUNK;
            backend->ops->download(backend, vector_part(basis->vectors[i], first, count), staging, dtype_of(backend));
            const enum status status = put(output, staging, (size_t)count * backend->ops->element, error);
            if (status != STATUS_OK) return status;
        }
    return STATUS_OK;
}

enum status sharpness_state_write(const char *path, const struct sharpness_state *state, const struct saver_state *kept,
                                  struct error *error)
{
    const struct basis *basis = kept == NULL ? NULL : kept->basis;
    struct header header = {
        .magic = MAGIC,
        .version = VERSION,
        .fingerprint = state->fingerprint,
        .tasks = state->tasks,
        .products = state->products,
        .most_vectors = state->most_vectors,
        .record_count = state->record_count,
        .number_count = kept == NULL ? 0 : kept->number_count,
    };
    struct output output = {0};
    void *staging = NULL;
    enum status status;
    if (basis != NULL && basis->count > 0) {
        header.element = (uint32_t)basis->space->backend->ops->element;
        header.vector_count = basis->count;
        header.vector_elements = basis->vectors[0].rows * VECTOR_COLUMNS;
    }
    checksum_init(&output.sum);
    if ((status = memory_new(CHUNK, sizeof(double), "the state of a run", &staging, error)) != STATUS_OK) goto done;
    if ((status = file_writer_open(path, file_size(&header), &output.writer, error)) != STATUS_OK) goto done;
    if ((status = put(&output, &header, sizeof header, error)) != STATUS_OK) goto done;
    status = put(&output, state->records, (size_t)state->record_count * sizeof(double), error);
    if (status == STATUS_OK && kept != NULL)
        status = put(&output, kept->numbers, (size_t)kept->number_count * sizeof(double), error);
    if (status == STATUS_OK && header.vector_count > 0) status = put_vectors(&output, basis, staging, error);
    if (status != STATUS_OK) goto done;
    const uint64_t sum = checksum_value(&output.sum);
    if ((status = file_writer_append(output.writer, &sum, sizeof sum, error)) != STATUS_OK) goto done;
    status = file_writer_commit(output.writer, error);
done:
    file_writer_close(output.writer);
    memory_free(staging);
    return status;
}

/* Whether the counts are possible in a file of so many bytes, and make exactly its size. */
static bool header_fits(const struct header *header, int64_t bytes)
{
    const int64_t numbers = bytes / (int64_t)sizeof(double);
    if (header->record_count < 0 || header->record_count > numbers) return false;
    if (header->number_count < 0 || header->number_count > numbers) return false;
    if (header->vector_count < 0 || header->vector_count > bytes) return false;
    if (header->vector_elements < 0 || header->vector_elements > bytes) return false;
    if (header->vector_elements > 0 && header->vector_count > bytes / header->vector_elements) return false;
    return header->element <= sizeof(double) && file_size(header) == bytes;
}

/* The checksum at the end of the file is that of everything before it. */
static enum status checksum_check(struct file *file, struct error *error)
{
    struct checksum sum;
    char *staging = NULL;
    enum status status = memory_new(CHUNK, 1, "the state of a run", &staging, error);
    if (status != STATUS_OK) return status;
    checksum_init(&sum);
    const int64_t end = file_bytes(file) - (int64_t)sizeof(uint64_t);
    for (int64_t at = 0, count; at < end && status == STATUS_OK; at += count) {
        count = end - at < CHUNK ? end - at : CHUNK;
        status = file_read(file, at, staging, (size_t)count, error);
        if (status == STATUS_OK) checksum_add(&sum, staging, (size_t)count);
    }
    uint64_t stored = 0;
    if (status == STATUS_OK) status = file_read(file, end, &stored, sizeof stored, error);
    if (status == STATUS_OK && stored != checksum_value(&sum))
        status = error_set(error, STATUS_CORRUPT, "%s: its checksum is wrong; the file is damaged", file_name(file));
    memory_free(staging);
    return status;
}

/* Opens `path`, checks its header against its size, and its checksum when `whole`. */
static enum status state_open(const char *path, bool whole, struct file **out, struct header *header,
                              struct error *error)
{
    enum status status = file_open(AT_FDCWD, path, FILE_REFUSE_LINKS, INT64_MAX, out, error);
    if (status != STATUS_OK) return status;
    if ((status = file_read(*out, 0, header, sizeof *header, error)) != STATUS_OK) return status;
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0 || header->version != VERSION)
        return error_set(error, STATUS_CORRUPT, "%s: not a state of version %d", file_name(*out), VERSION);
    if (!header_fits(header, file_bytes(*out)))
        return error_set(error, STATUS_CORRUPT, "%s: %lld bytes do not match its header", file_name(*out),
                         (long long)file_bytes(*out));
    return whole ? checksum_check(*out, error) : STATUS_OK;
}

enum status sharpness_state_read(const char *path, struct sharpness_state *state, struct error *error)
{
    struct sharpness_state read = {.fingerprint = state->fingerprint};
    struct header header;
    struct file *file = NULL;
    double *records = NULL;
    enum status status;
    if ((status = state_open(path, true, &file, &header, error)) != STATUS_OK) goto done;
    if (header.fingerprint != state->fingerprint) {
        status = error_set(error, STATUS_INVALID, "%s: the state of another run", file_name(file));
        goto done;
    }
    if ((status = memory_new(header.record_count, sizeof *records, "the state of a run", &records, error)) != STATUS_OK)
        goto done;
    status = file_read(file, sizeof header, records, (size_t)header.record_count * sizeof *records, error);
    if (status == STATUS_OK) status = sharpness_state_record(&read, records, header.record_count, error);
    if (status != STATUS_OK) goto done;
    read.tasks = header.tasks;
    read.products = header.products;
    read.most_vectors = header.most_vectors;
done:
    if (status != STATUS_OK) sharpness_state_reset(&read);
    if (status == STATUS_OK) *state = read;
    memory_free(records);
    file_close(file);
    return status;
}

static enum status take_vectors(const struct file *file, const struct header *header, struct basis *basis,
                                void *staging, struct error *error)
{
    struct backend *backend = basis->space->backend;
    const int64_t elements = header->vector_elements, element = header->element;
    int64_t at = file_size(header) - (int64_t)sizeof(uint64_t) - header->vector_count * elements * element;
    for (int64_t i = 0; i < header->vector_count; i++) {
        enum status status = basis_append(basis, error);
        if (status != STATUS_OK) return status;
        if (basis->vectors[i].rows * VECTOR_COLUMNS != elements)
            return error_set(error, STATUS_CORRUPT, "%s: vectors of another length", file_name(file));
        for (int64_t first = 0, count; first < elements; first += count) {
            count = elements - first < CHUNK ? elements - first : CHUNK;
            if ((status = file_read(file, at, staging, (size_t)(count * element), error)) != STATUS_OK) return status;
            backend->ops->upload(backend, vector_part(basis->vectors[i], first, count), staging, dtype_of(backend));
            at += count * element;
        }
    }
    return STATUS_OK;
}

enum status sharpness_state_restore(const char *path, struct saver_state *kept, bool *found, struct error *error)
{
    struct header header;
    struct file *file = NULL;
    void *staging = NULL;
    enum status status;
    *found = false;
    if ((status = state_open(path, false, &file, &header, error)) != STATUS_OK) goto done;
    if (header.number_count == 0) goto done;
    if (header.number_count != kept->number_count || header.vector_count > kept->basis->capacity ||
        (header.vector_count > 0 && header.element != kept->basis->space->backend->ops->element)) {
        status = error_set(error, STATUS_CORRUPT, "%s: the state of another estimator", file_name(file));
        goto done;
    }
    const int64_t at = (int64_t)sizeof header + header.record_count * (int64_t)sizeof(double);
    if ((status = file_read(file, at, kept->numbers, (size_t)kept->number_count * sizeof(double), error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(CHUNK, sizeof(double), "the state of a run", &staging, error)) != STATUS_OK) goto done;
    status = take_vectors(file, &header, kept->basis, staging, error);
    *found = status == STATUS_OK;
done:
    memory_free(staging);
    file_close(file);
    return status;
}
