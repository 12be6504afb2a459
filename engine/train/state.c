#include "train/state.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "formats/file.h"
#include "formats/file_writer.h"

#include <string.h>

/* The file, little endian: struct header; the checkpoints; the parameters; each buffer of the optimizer, as many numbers as the
 * layout has elements; the checksum of all before it (8 bytes). */
#define MAGIC "deltaqTS"
enum { VERSION = 1, PIECE = 1 << 18 /* numbers at a time */ };

struct header {
    char magic[8];
    uint32_t version;
    uint32_t element; /* bytes of a number: 4 or 8 */
    int64_t elements;
    int64_t buffers; /* of the optimizer */
    char optimizer[32];
    int64_t step;
    uint64_t fingerprint;
    int64_t batch_sequences, sequence_length;
    double train_loss;
    int64_t checkpoint_count;
};
_Static_assert(sizeof(struct header) == 112, "the header has no gaps");
_Static_assert(sizeof(struct state_checkpoint) == 40, "stored as it is");

static struct header header_of(const struct state *state, const struct parameters *parameters, const struct optimizer *optimizer)
{
    struct header header = {
        .version = VERSION,
        .element = (uint32_t)parameters->backend->ops->element,
        .elements = parameters->layout->elements,
        .buffers = optimizer->kind->buffers,
        .step = state->step,
        .fingerprint = state->fingerprint,
        .batch_sequences = state->batch_sequences,
        .sequence_length = state->sequence_length,
        .train_loss = state->train_loss,
        .checkpoint_count = state->checkpoint_count,
    };
    memcpy(header.magic, MAGIC, sizeof header.magic);
    memcpy(header.optimizer, optimizer->kind->name, strnlen(optimizer->kind->name, sizeof header.optimizer - 1));
    return header;
}

static int64_t file_size(const struct header *header)
{
    return (int64_t)sizeof *header + header->checkpoint_count * (int64_t)sizeof(struct state_checkpoint) +
           (1 + header->buffers) * header->elements * header->element + (int64_t)sizeof(uint64_t);
}

struct output {
    struct file_writer *writer;
    struct checksum sum;
    void *staging;
};

static enum status put(struct output *output, const void *bytes, size_t size, struct error *error)
{
    checksum_add(&output->sum, bytes, size);
    return file_writer_append(output->writer, bytes, size, error);
}

static enum status put_numbers(struct output *output, const struct parameters *from, struct error *error)
{
    struct backend *backend = from->backend;
    const size_t element = backend->ops->element;
    const struct matrix all = parameters_all(from);
    for (int64_t first = 0; first < all.columns; first += PIECE) {
        const int64_t count = all.columns - first < PIECE ? all.columns - first : PIECE;
        backend->ops->download(backend, matrix_columns(all, first, count), output->staging, element == 8 ? DTYPE_F64 : DTYPE_F32);
        const enum status status = put(output, output->staging, (size_t)count * element, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

enum status state_write(const char *path, const struct state *state, const struct parameters *parameters,
                        const struct optimizer *optimizer, struct error *error)
{
    const struct header header = header_of(state, parameters, optimizer);
    struct output output = {0};
    enum status status;
    checksum_init(&output.sum);
    if ((status = memory_new(PIECE, sizeof(double), "training state", &output.staging, error)) != STATUS_OK) goto done;
    if ((status = file_writer_open(path, file_size(&header), &output.writer, error)) != STATUS_OK) goto done;
    if ((status = put(&output, &header, sizeof header, error)) != STATUS_OK) goto done;
    if (state->checkpoint_count > 0) {
        const size_t size = (size_t)state->checkpoint_count * sizeof *state->checkpoints;
        if ((status = put(&output, state->checkpoints, size, error)) != STATUS_OK) goto done;
    }
    if ((status = put_numbers(&output, parameters, error)) != STATUS_OK) goto done;
    for (int i = 0; i < optimizer->kind->buffers; i++)
        if ((status = put_numbers(&output, &optimizer->state[i], error)) != STATUS_OK) goto done;
    const uint64_t sum = checksum_value(&output.sum);
    if ((status = put(&output, &sum, sizeof sum, error)) != STATUS_OK) goto done;
    status = file_writer_commit(output.writer, error);
done:
    file_writer_close(output.writer);
    memory_free(output.staging);
    return status;
}

struct input {
    struct file *file;
    struct checksum sum;
    int64_t at;
    void *staging;
};

static enum status take(struct input *input, void *bytes, size_t size, struct error *error)
{
    const enum status status = file_read(input->file, input->at, bytes, size, error);
    if (status != STATUS_OK) return status;
    checksum_add(&input->sum, bytes, size);
    input->at += (int64_t)size;
    return STATUS_OK;
}

static enum status take_numbers(struct input *input, struct parameters *to, struct error *error)
{
    struct backend *backend = to->backend;
    const size_t element = backend->ops->element;
    const struct matrix all = parameters_all(to);
    for (int64_t first = 0; first < all.columns; first += PIECE) {
        const int64_t count = all.columns - first < PIECE ? all.columns - first : PIECE;
        const enum status status = take(input, input->staging, (size_t)count * element, error);
        if (status != STATUS_OK) return status;
        backend->ops->upload(backend, matrix_columns(all, first, count), input->staging, element == 8 ? DTYPE_F64 : DTYPE_F32);
    }
    return STATUS_OK;
}

static enum status header_check(const struct input *input, const struct header *header, const struct parameters *parameters,
                                const struct optimizer *optimizer, struct error *error)
{
    const char *name = file_name(input->file);
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0 || header->version != VERSION)
        return error_set(error, STATUS_CORRUPT, "%s: not a training state of version %d", name, VERSION);
    if (strncmp(header->optimizer, optimizer->kind->name, sizeof header->optimizer) != 0)
        return error_set(error, STATUS_INVALID, "%s: the state of optimizer \"%.31s\", not \"%s\"", name, header->optimizer,
                         optimizer->kind->name);
    if (header->element != parameters->backend->ops->element || header->elements != parameters->layout->elements ||
        header->buffers != optimizer->kind->buffers)
        return error_set(error, STATUS_INVALID, "%s: the state of another model: %lld numbers, not %lld", name,
                         (long long)header->elements, (long long)parameters->layout->elements);
    if (header->checkpoint_count < 0 || header->checkpoint_count > file_bytes(input->file) ||
        file_size(header) != file_bytes(input->file) || header->step < 0)
        return error_set(error, STATUS_CORRUPT, "%s: %lld bytes do not match its header", name, (long long)file_bytes(input->file));
    return STATUS_OK;
}

static enum status contents_read(struct input *input, struct state *state, struct parameters *parameters,
                                 struct optimizer *optimizer, struct error *error)
{
    enum status status;
    if (state->checkpoint_count > 0) {
        const size_t size = (size_t)state->checkpoint_count * sizeof *state->checkpoints;
        if ((status = take(input, state->checkpoints, size, error)) != STATUS_OK) return status;
    }
    if ((status = take_numbers(input, parameters, error)) != STATUS_OK) return status;
    for (int i = 0; i < optimizer->kind->buffers; i++)
        if ((status = take_numbers(input, &optimizer->state[i], error)) != STATUS_OK) return status;
    const uint64_t expected = checksum_value(&input->sum);
    uint64_t found = 0;
    if ((status = take(input, &found, sizeof found, error)) != STATUS_OK) return status;
    if (found != expected)
        return error_set(error, STATUS_CORRUPT, "%s: its checksum is wrong; the file is damaged", file_name(input->file));
    return STATUS_OK;
}

enum status state_read(const char *path, struct state *state, struct parameters *parameters, struct optimizer *optimizer,
                       struct error *error)
{
    struct input input = {0};
    struct header header = {0};
    enum status status;
    *state = (struct state){0};
    checksum_init(&input.sum);
    if ((status = file_open(AT_FDCWD, path, FILE_REFUSE_LINKS, INT64_MAX, &input.file, error)) != STATUS_OK) goto done;
    if ((status = memory_new(PIECE, sizeof(double), "training state", &input.staging, error)) != STATUS_OK) goto done;
    if ((status = take(&input, &header, sizeof header, error)) != STATUS_OK) goto done;
    if ((status = header_check(&input, &header, parameters, optimizer, error)) != STATUS_OK) goto done;
    *state = (struct state){.step = header.step,
                            .fingerprint = header.fingerprint,
                            .batch_sequences = header.batch_sequences,
                            .sequence_length = header.sequence_length,
                            .train_loss = header.train_loss,
                            .checkpoint_count = header.checkpoint_count};
    status = memory_new(header.checkpoint_count, sizeof *state->checkpoints, "checkpoint list", &state->checkpoints, error);
    if (status != STATUS_OK) goto done;
    status = contents_read(&input, state, parameters, optimizer, error);
done:
    if (status != STATUS_OK) {
        memory_free(state->checkpoints);
        *state = (struct state){0};
    }
    memory_free(input.staging);
    file_close(input.file);
    return status;
}
