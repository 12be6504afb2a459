#include "train/state.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <string.h>

/* The file, little endian: struct header; from version 2 on struct extra; the checkpoints; the curve; the parameters;
 * each buffer of the optimizer, as many numbers as the layout has elements; what else it keeps; the average, if there
 * is one; the checksum of all before it (8 bytes). A later version is written when there is something that the one
 * before cannot hold, so that the states beside checkpoints, which have no curve, stay as they were. */
#define MAGIC "deltaqTS"
enum { VERSION_PLAIN = 1, VERSION_EXTRA = 2, VERSION_CURVE = 3, CHUNK = 1 << 18 /* numbers at a time */ };

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

/* Numbers that not every run has. */
struct extra {
    double optimizer_weight;
    double ema_decay;
    int64_t ema_updates; /* 0: no average in the file */
    int64_t kept;        /* numbers of the optimizer beside its buffers */
    int64_t curve;       /* points */
};
/* Version 2 ends before `curve`. */
enum { EXTRA_PLAIN = offsetof(struct extra, curve) };
_Static_assert(EXTRA_PLAIN == 32 && sizeof(struct extra) == 40, "no gaps");
_Static_assert(sizeof(struct state_point) == 24, "stored as it is");

/* A checkpoint is stored as it is; version 1 ends before `averaged`. */
enum { CHECKPOINT_PLAIN = offsetof(struct state_checkpoint, averaged) };
_Static_assert(CHECKPOINT_PLAIN == 40 && sizeof(struct state_checkpoint) == 48, "stored as it is");

static size_t checkpoint_size(const struct header *header)
{
    return header->version == VERSION_PLAIN ? CHECKPOINT_PLAIN : sizeof(struct state_checkpoint);
}

static size_t extra_size(const struct header *header)
{
    return header->version == VERSION_PLAIN ? 0 : header->version == VERSION_EXTRA ? EXTRA_PLAIN : sizeof(struct extra);
}

static struct extra extra_of(const struct state *state, const struct optimizer *optimizer, const struct ema *ema)
{
    struct extra extra = {
        .optimizer_weight = optimizer->weight, .kept = optimizer->kept.columns, .curve = state->curve_count};
    if (ema != NULL && ema->updates > 0) extra.ema_decay = ema->decay, extra.ema_updates = ema->updates;
    return extra;
}

/* A new average has no updates yet, but its run may have reported averages before. */
static bool needs_extra(const struct state *state, const struct extra *extra)
{
    bool needed = extra->optimizer_weight != 0 || extra->ema_updates > 0 || extra->kept > 0;
    for (int64_t i = 0; i < state->checkpoint_count; i++) needed = needed || state->checkpoints[i].averaged != 0;
    return needed;
}

static struct header header_of(const struct state *state, const struct parameters *parameters,
                               const struct optimizer *optimizer, const struct extra *extra)
{
    struct header header = {
        .version = extra->curve > 0            ? VERSION_CURVE
                   : needs_extra(state, extra) ? VERSION_EXTRA
                                               : VERSION_PLAIN,
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
    memcpy(header.optimizer, optimizer->kind->state, strnlen(optimizer->kind->state, sizeof header.optimizer - 1));
    return header;
}

static int64_t file_size(const struct header *header, const struct extra *extra)
{
    const int64_t buffers = 1 + header->buffers + (extra->ema_updates > 0 ? 1 : 0);
    return (int64_t)(sizeof *header + extra_size(header)) +
           header->checkpoint_count * (int64_t)checkpoint_size(header) +
           extra->curve * (int64_t)sizeof(struct state_point) +
           (buffers * header->elements + extra->kept) * header->element + (int64_t)sizeof(uint64_t);
}

struct output {
    struct file_writer *writer;
    struct checksum sum;
    void *staging;
};

static enum status put(struct output *output, const void *bytes, size_t size, struct error *error)
{
    if (size == 0) return STATUS_OK; /* `bytes` may be NULL */
    checksum_add(&output->sum, bytes, size);
    return file_writer_append(output->writer, bytes, size, error);
}

static enum status put_numbers(struct output *output, struct backend *backend, struct matrix all, struct error *error)
{
    const size_t element = backend->ops->element;
    for (int64_t first = 0; first < all.columns; first += CHUNK) {
        const int64_t count = all.columns - first < CHUNK ? all.columns - first : CHUNK;
        backend->ops->download(backend, matrix_columns(all, first, count), output->staging,
                               element == 8 ? DTYPE_F64 : DTYPE_F32);
        const enum status status = put(output, output->staging, (size_t)count * element, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

enum status state_write(const char *path, const struct state *state, const struct parameters *parameters,
                        const struct optimizer *optimizer, const struct ema *ema, struct error *error)
{
    const struct extra extra = extra_of(state, optimizer, ema);
    const struct header header = header_of(state, parameters, optimizer, &extra);
    struct backend *backend = parameters->backend;
    struct output output = {0};
    enum status status;
    checksum_init(&output.sum);
    if ((status = memory_new(CHUNK, sizeof(double), "training state", &output.staging, error)) != STATUS_OK) goto done;
    if ((status = file_writer_open(path, file_size(&header, &extra), &output.writer, error)) != STATUS_OK) goto done;
    if ((status = put(&output, &header, sizeof header, error)) != STATUS_OK) goto done;
    if ((status = put(&output, &extra, extra_size(&header), error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < state->checkpoint_count; i++)
        if ((status = put(&output, &state->checkpoints[i], checkpoint_size(&header), error)) != STATUS_OK) goto done;
    status = put(&output, state->curve, (size_t)state->curve_count * sizeof *state->curve, error);
    if (status != STATUS_OK) goto done;
    if ((status = put_numbers(&output, backend, parameters_all(parameters), error)) != STATUS_OK) goto done;
    for (int i = 0; i < optimizer->kind->buffers; i++)
        if ((status = put_numbers(&output, backend, parameters_all(&optimizer->state[i]), error)) != STATUS_OK)
            goto done;
    if ((status = put_numbers(&output, backend, optimizer->kept, error)) != STATUS_OK) goto done;
    if (extra.ema_updates > 0 &&
        (status = put_numbers(&output, backend, parameters_all(&ema->mean), error)) != STATUS_OK)
        goto done;
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
    if (size == 0) return STATUS_OK;
    const enum status status = file_read(input->file, input->at, bytes, size, error);
    if (status != STATUS_OK) return status;
    checksum_add(&input->sum, bytes, size);
    input->at += (int64_t)size;
    return STATUS_OK;
}

static enum status take_numbers(struct input *input, struct backend *backend, struct matrix all, struct error *error)
{
    const size_t element = backend->ops->element;
    for (int64_t first = 0; first < all.columns; first += CHUNK) {
        const int64_t count = all.columns - first < CHUNK ? all.columns - first : CHUNK;
        const enum status status = take(input, input->staging, (size_t)count * element, error);
        if (status != STATUS_OK) return status;
        backend->ops->upload(backend, matrix_columns(all, first, count), input->staging,
                             element == 8 ? DTYPE_F64 : DTYPE_F32);
    }
    return STATUS_OK;
}

/* Reads bytes that were not requested, only for the checksum. */
static enum status pass_bytes(struct input *input, int64_t bytes, struct error *error)
{
    const int64_t most = CHUNK * (int64_t)sizeof(double);
    for (int64_t first = 0; first < bytes; first += most) {
        const int64_t count = bytes - first < most ? bytes - first : most;
        const enum status status = take(input, input->staging, (size_t)count, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status optimizer_check(const struct input *input, const struct header *header,
                                   const struct optimizer_kind *kind, struct error *error)
{
    if (strncmp(header->optimizer, kind->state, sizeof header->optimizer) == 0) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s: the state of optimizer \"%.31s\", not \"%s\"", file_name(input->file),
                     header->optimizer, kind->state);
}

static enum status header_check(const struct input *input, const struct header *header, const struct extra *extra,
                                const struct parameters *parameters, const struct optimizer *optimizer,
                                struct error *error)
{
    const char *name = file_name(input->file);
    const enum status status = optimizer_check(input, header, optimizer->kind, error);
    if (status != STATUS_OK) return status;
    if (header->element != parameters->backend->ops->element || header->elements != parameters->layout->elements ||
        header->buffers != optimizer->kind->buffers)
        return error_set(error, STATUS_INVALID, "%s: the state of another model: %lld numbers, not %lld", name,
                         (long long)header->elements, (long long)parameters->layout->elements);
    if (extra->kept != optimizer->kept.columns)
        return error_set(
            error, STATUS_INVALID,
            "%s: the state of optimizer \"%.31s\" with other settings: %lld numbers beside its buffers, not "
            "%lld",
            name, header->optimizer, (long long)extra->kept, (long long)optimizer->kept.columns);
    if (header->checkpoint_count < 0 || header->checkpoint_count > file_bytes(input->file) || extra->curve < 0 ||
        extra->curve > file_bytes(input->file) || file_size(header, extra) != file_bytes(input->file) ||
        header->step < 0 || extra->ema_updates < 0)
        return error_set(error, STATUS_CORRUPT, "%s: %lld bytes do not match its header", name,
                         (long long)file_bytes(input->file));
    return STATUS_OK;
}

static enum status header_read(struct input *input, struct header *header, struct extra *extra, struct error *error)
{
    enum status status;
    if ((status = take(input, header, sizeof *header, error)) != STATUS_OK) return status;
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0 || header->version < VERSION_PLAIN ||
        header->version > VERSION_CURVE)
        return error_set(error, STATUS_CORRUPT, "%s: not a training state of version %d to %d", file_name(input->file),
                         VERSION_PLAIN, VERSION_CURVE);
    return take(input, extra, extra_size(header), error);
}

static enum status ema_read(struct input *input, const struct header *header, const struct extra *extra,
                            struct ema *ema, struct error *error)
{
    const bool wanted = ema != NULL && ema->decay > 0;
    if (wanted) ema->updates = extra->ema_updates;
    if (extra->ema_updates == 0) return STATUS_OK;
    return wanted ? take_numbers(input, ema->mean.backend, parameters_all(&ema->mean), error)
                  : pass_bytes(input, header->elements * header->element, error);
}

/* The end of the file: the checksum of all that was taken before. */
static enum status checksum_take(struct input *input, uint64_t *found, struct error *error)
{
    const uint64_t expected = checksum_value(&input->sum);
    const enum status status = take(input, found, sizeof *found, error);
    if (status != STATUS_OK || *found == expected) return status;
    return error_set(error, STATUS_CORRUPT, "%s: its checksum is wrong; the file is damaged", file_name(input->file));
}

static enum status contents_read(struct input *input, const struct header *header, const struct extra *extra,
                                 struct state *state, struct parameters *parameters, struct optimizer *optimizer,
                                 struct ema *ema, struct error *error)
{
    struct backend *backend = parameters->backend;
    enum status status;
    for (int64_t i = 0; i < state->checkpoint_count; i++)
        if ((status = take(input, &state->checkpoints[i], checkpoint_size(header), error)) != STATUS_OK) return status;
    status = take(input, state->curve, (size_t)state->curve_count * sizeof *state->curve, error);
    if (status != STATUS_OK) return status;
    optimizer->weight = extra->optimizer_weight;
    if ((status = take_numbers(input, backend, parameters_all(parameters), error)) != STATUS_OK) return status;
    for (int i = 0; i < optimizer->kind->buffers; i++)
        if ((status = take_numbers(input, backend, parameters_all(&optimizer->state[i]), error)) != STATUS_OK)
            return status;
    if ((status = take_numbers(input, backend, optimizer->kept, error)) != STATUS_OK) return status;
    if ((status = ema_read(input, header, extra, ema, error)) != STATUS_OK) return status;
    uint64_t unused;
    return checksum_take(input, &unused, error);
}

/* Opens the file and reads its header. The caller closes input->file and frees input->staging, also after a failure. */
static enum status input_open(const char *path, struct input *input, struct header *header, struct extra *extra,
                              struct error *error)
{
    enum status status;
    *input = (struct input){0};
    checksum_init(&input->sum);
    if ((status = file_open(AT_FDCWD, path, FILE_REFUSE_LINKS, INT64_MAX, &input->file, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(CHUNK, sizeof(double), "training state", &input->staging, error)) != STATUS_OK)
        return status;
    return header_read(input, header, extra, error);
}

enum status state_read(const char *path, struct state *state, struct parameters *parameters,
                       struct optimizer *optimizer, struct ema *ema, struct error *error)
{
    struct input input;
    struct header header = {0};
    struct extra extra = {0};
    enum status status;
    *state = (struct state){0};
    if ((status = input_open(path, &input, &header, &extra, error)) != STATUS_OK) goto done;
    if ((status = header_check(&input, &header, &extra, parameters, optimizer, error)) != STATUS_OK) goto done;
    *state = (struct state){.step = header.step,
                            .fingerprint = header.fingerprint,
                            .batch_sequences = header.batch_sequences,
                            .sequence_length = header.sequence_length,
                            .train_loss = header.train_loss,
                            .checkpoint_count = header.checkpoint_count,
                            .ema_updates = extra.ema_updates,
                            .ema_decay = extra.ema_decay,
                            .curve_count = extra.curve};
    status =
        memory_new(header.checkpoint_count, sizeof *state->checkpoints, "checkpoint list", &state->checkpoints, error);
    if (status != STATUS_OK) goto done;
    if (extra.curve > 0 &&
        (status = memory_new(extra.curve, sizeof *state->curve, "training curve", &state->curve, error)) != STATUS_OK)
        goto done;
    status = contents_read(&input, &header, &extra, state, parameters, optimizer, ema, error);
done:
    if (status != STATUS_OK) state_reset(state);
    memory_free(input.staging);
    file_close(input.file);
    return status;
}

void state_reset(struct state *state)
{
    memory_free(state->checkpoints);
    memory_free(state->curve);
    *state = (struct state){0};
}

enum status state_look(const char *path, struct state_about *out, struct error *error)
{
    struct input input;
    struct header header = {0};
    struct extra extra = {0};
    *out = (struct state_about){0};
    enum status status = input_open(path, &input, &header, &extra, error);
    if (status == STATUS_OK && header.step < 0)
        status =
            error_set(error, STATUS_CORRUPT, "%s: a state of step %lld", file_name(input.file), (long long)header.step);
    if (status == STATUS_OK) {
        *out = (struct state_about){.step = header.step,
                                    .batch_sequences = header.batch_sequences,
                                    .sequence_length = header.sequence_length,
                                    .ema_updates = extra.ema_updates,
                                    .ema_decay = extra.ema_decay};
        memcpy(out->optimizer, header.optimizer, sizeof out->optimizer - 1);
    }
    memory_free(input.staging);
    file_close(input.file);
    return status;
}

enum status state_moments_mark(const char *path, struct state_mark *out, struct error *error)
{
    struct input input;
    struct header header = {0};
    struct extra extra = {0};
    *out = (struct state_mark){0};
    enum status status = input_open(path, &input, &header, &extra, error);
    if (status == STATUS_OK) status = optimizer_check(&input, &header, &optimizer_adamw, error);
    if (status == STATUS_OK) {
        *out = (struct state_mark){.step = header.step, .fingerprint = header.fingerprint};
        status = file_read(input.file, file_bytes(input.file) - (int64_t)sizeof out->checksum, &out->checksum,
                           sizeof out->checksum, error);
    }
    memory_free(input.staging);
    file_close(input.file);
    return status;
}

/* All behind the header: only the second of AdamW's buffers is wanted. */
static enum status moments_take(struct input *input, const struct header *header, const struct extra *extra,
                                struct parameters *into, uint64_t *checksum, struct error *error)
{
    const int64_t buffer = header->elements * header->element,
                  before = header->checkpoint_count * (int64_t)checkpoint_size(header) +
                           extra->curve * (int64_t)sizeof(struct state_point) + 2 * buffer;
    enum status status = pass_bytes(input, before, error);
    if (status == STATUS_OK) status = take_numbers(input, into->backend, parameters_all(into), error);
    if (status == STATUS_OK && extra->ema_updates > 0) status = pass_bytes(input, buffer, error);
    return status == STATUS_OK ? checksum_take(input, checksum, error) : status;
}

enum status state_moments_read(const char *path, struct parameters *into, struct state_mark *out, struct error *error)
{
    const struct optimizer adamw = {.kind = &optimizer_adamw};
    struct input input;
    struct header header = {0};
    struct extra extra = {0};
    *out = (struct state_mark){0};
    enum status status = input_open(path, &input, &header, &extra, error);
    if (status == STATUS_OK) status = header_check(&input, &header, &extra, into, &adamw, error);
    if (status == STATUS_OK) status = moments_take(&input, &header, &extra, into, &out->checksum, error);
    if (status == STATUS_OK) out->step = header.step, out->fingerprint = header.fingerprint;
    memory_free(input.staging);
    file_close(input.file);
    return status;
}
