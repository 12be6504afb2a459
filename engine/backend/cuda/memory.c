/* memory.c: the device's memory: blocks under a budget, kept for reuse after release, and copies to and from the host.
 * One stream does everything in order, so a block may be reused while kernels still read it. */
#include "backend/cuda/cuda.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 512, LARGE_GRAIN = 2 << 20, LEAST_STAGE = 8 << 20 };

struct cuda_block {
    void *address;
    size_t bytes;
    bool used;
    struct cuda_block *next;
};

static size_t rounded(size_t bytes)
{
    const size_t grain = bytes > LARGE_GRAIN ? LARGE_GRAIN : GRAIN;
    return (bytes / grain + 1) * grain;
}

/* The smallest free block that is large enough and wastes at most a quarter of the request. */
static struct cuda_block *find_free(struct cuda *cuda, size_t bytes)
{
    struct cuda_block *best = NULL;
    for (struct cuda_block *block = cuda->blocks; block != NULL; block = block->next)
        if (!block->used && block->bytes >= bytes && block->bytes - bytes <= bytes / 4 &&
            (best == NULL || block->bytes < best->bytes))
            best = block;
    return best;
}

static void free_unused(struct cuda *cuda, bool all)
{
    for (struct cuda_block **at = &cuda->blocks; *at != NULL;) {
        struct cuda_block *block = *at;
        if (block->used && !all) {
            at = &block->next;
            continue;
        }
        cuda->held -= (int64_t)block->bytes;
        promises_hold(&cuda->promises, -(int64_t)block->bytes);
        (void)cuda_good(cuda, "freeing memory", cuda->device->release(cuda->device, block->address));
        *at = block->next;
        memory_free(block);
    }
}

/* Running out of device memory is an ordinary error; a fault of the device becomes the backend's failure. */
static bool take_address(struct cuda *cuda, size_t bytes, const char *what, void **out, struct error *error)
{
    int code = cuda->device->allocate(cuda->device, bytes, out);
    if (code == 0) return true;
    free_unused(cuda, false);
    if ((code = cuda->device->allocate(cuda->device, bytes, out)) == 0) return true;
    if (cuda->device->failure(code) == DEVICE_FAULT) (void)cuda_good(cuda, "taking memory", code);
    if (cuda->status != STATUS_OK)
        *error = cuda->error;
    else
        (void)error_set(error, STATUS_NO_MEMORY, "%s: the device has no %zu MiB left", what, bytes >> 20);
    return false;
}

static struct cuda_block *take(struct cuda *cuda, size_t bytes, const char *what, struct error *error)
{
    struct cuda_block *block = NULL;
    const int64_t size = (int64_t)bytes;
    if (cuda->held + size > cuda->budget) free_unused(cuda, false);
    if (cuda->held + size > cuda->budget) cuda_promise(cuda, cuda->held + size);
    if (cuda->held + size > cuda->budget) {
        (void)error_set(error, STATUS_NO_MEMORY,
                        "%s: %" PRId64 " MiB more than the %" PRId64
                        " MiB in use would pass the device's budget of %" PRId64
                        " MiB: give it shorter sequences, or raise --device-memory",
                        what, size >> 20, cuda->held >> 20, cuda->budget >> 20);
        return NULL;
    }
    if (memory_new(1, sizeof *block, what, &block, error) != STATUS_OK) return NULL;
    if (!take_address(cuda, bytes, what, &block->address, error)) {
        memory_free(block);
        return NULL;
    }
    block->bytes = bytes;
    block->next = cuda->blocks;
    cuda->blocks = block;
    cuda->held += size;
    promises_hold(&cuda->promises, size);
    if (cuda->held > cuda->peak) cuda->peak = cuda->held;
    return block;
}

static enum status allocate(struct cuda *cuda, size_t bytes, const char *what, void **out, struct error *error)
{
    struct cuda_block *block = find_free(cuda, rounded(bytes));
    *out = NULL;
    if (block == NULL && (block = take(cuda, rounded(bytes), what, error)) == NULL) return error->status;
    block->used = true;
    *out = block->address;
    return STATUS_OK;
}

static void give_back(struct cuda *cuda, const void *address)
{
    for (struct cuda_block *block = cuda->blocks; block != NULL; block = block->next)
        if (block->address == address) block->used = false;
}

enum status cuda_allocate(struct backend *backend, int64_t elements, const char *what, void **out, struct error *error)
{
    size_t bytes = 0;
    *out = NULL;
    enum status status = size_multiply((size_t)elements, sizeof(float), what, &bytes, error);
    if (status != STATUS_OK) return status;
    struct cuda *cuda = cuda_enter(backend);
    if ((status = cuda->status) != STATUS_OK)
        *error = cuda->error;
    else if ((status = allocate(cuda, bytes, what, out, error)) == STATUS_OK)
        (void)cuda_good(cuda, "clearing memory", cuda->device->clear(cuda->device, *out, bytes));
    cuda_leave(cuda);
    return status;
}

void cuda_release(struct backend *backend, void *block)
{
    struct cuda *cuda = cuda_enter(backend);
    give_back(cuda, block);
    cuda_leave(cuda);
}

int64_t cuda_memory_used(const struct cuda *cuda)
{
    int64_t used = 0;
    for (const struct cuda_block *block = cuda->blocks; block != NULL; block = block->next)
        if (block->used) used += (int64_t)block->bytes;
    return used;
}

int64_t cuda_stage_bytes(int64_t longest_sequence, int64_t widest_row)
{
    (void)longest_sequence, (void)widest_row;
    return 2 * (LEAST_STAGE + GRAIN);
}

void cuda_release_all(struct cuda *cuda)
{
    if (cuda->stage.host != NULL) (void)cuda->device->release_host(cuda->device, cuda->stage.host);
    free_unused(cuda, true);
    memory_free(cuda->host_scratch.memory);
}

void cuda_release_spare(struct cuda *cuda)
{
    struct cuda_stage *stage = &cuda->stage;
    if (!cuda_wait(cuda)) return;
    if (stage->host != NULL)
        (void)cuda_good(cuda, "freeing pinned memory", cuda->device->release_host(cuda->device, stage->host));
    give_back(cuda, stage->device);
    give_back(cuda, cuda->scratch.memory);
    give_back(cuda, cuda->narrow.memory);
    *stage = (struct cuda_stage){.host = NULL};
    cuda->scratch = cuda->narrow = (struct cuda_scratch){.memory = NULL};
    free_unused(cuda, false);
}

static void *scratch_of(struct cuda *cuda, struct cuda_scratch *scratch, size_t bytes, const char *what)
{
    struct error error;
    if (bytes > scratch->bytes && cuda->status == STATUS_OK) {
        give_back(cuda, scratch->memory);
        scratch->bytes = 0;
        if (allocate(cuda, bytes, what, &scratch->memory, &error) == STATUS_OK)
            scratch->bytes = bytes;
        else
            cuda_fail(cuda, error.status, error.detail);
    }
    return cuda->status == STATUS_OK ? scratch->memory : NULL;
}

void *cuda_scratch(struct cuda *cuda, size_t bytes)
{
    return scratch_of(cuda, &cuda->scratch, bytes, "scratch");
}

/* A factor that was kept goes with the memory, whose address the larger one may get. */
void *cuda_narrow_scratch(struct cuda *cuda, size_t bytes)
{
    if (bytes > cuda->narrow.bytes) cuda->narrowed.data = NULL;
    return scratch_of(cuda, &cuda->narrow, bytes, "rounded factors");
}

void *cuda_host_scratch(struct cuda *cuda, size_t bytes)
{
    struct cuda_scratch *scratch = &cuda->host_scratch;
    struct error error;
    if (bytes > scratch->bytes && cuda->status == STATUS_OK) {
        memory_free(scratch->memory);
        scratch->bytes = 0;
        if (memory_new((int64_t)bytes, 1, "scratch", &scratch->memory, &error) == STATUS_OK)
            scratch->bytes = bytes;
        else
            cuda_fail(cuda, error.status, error.detail);
    }
    return cuda->status == STATUS_OK ? scratch->memory : NULL;
}

/* Rounds up to an alignment that suits kernels reading doubles or pointers, and products reading 16 bytes at a time. */
static size_t whole_grains(size_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* Replaces the halves by larger ones, once nothing reads the old ones. The second half begins where the first ends. */
static void stage_grow(struct cuda *cuda, size_t bytes)
{
    struct cuda_stage *stage = &cuda->stage;
    struct error error;
    void *host = NULL, *device = NULL;
    if (!cuda_wait(cuda)) return;
    if (stage->host != NULL &&
        !cuda_good(cuda, "freeing pinned memory", cuda->device->release_host(cuda->device, stage->host)))
        return;
    if (stage->device != NULL) give_back(cuda, stage->device);
    *stage = (struct cuda_stage){.half = whole_grains(bytes > LEAST_STAGE ? bytes : LEAST_STAGE) + GRAIN};
    if (allocate(cuda, 2 * stage->half, "staging", &device, &error) != STATUS_OK) {
        cuda_fail(cuda, error.status, error.detail);
        return;
    }
    stage->device = device;
    if (cuda_good(cuda, "pinned memory", cuda->device->allocate_host(cuda->device, 2 * stage->half, &host)))
        stage->host = host;
}

/* Switches to the other half, as soon as the copies from it are done. */
static void stage_turn(struct cuda *cuda)
{
    struct cuda_stage *stage = &cuda->stage;
    if (!cuda_good(cuda, "staging", cuda->device->mark(cuda->device, stage->which))) return;
    stage->which = !stage->which;
    stage->used = 0;
    memset(stage->arrays, 0, sizeof stage->arrays);
    (void)cuda_good(cuda, "staging", cuda->device->wait(cuda->device, stage->which));
}

void cuda_announce(struct cuda *cuda, size_t bytes)
{
    bytes += 16 * GRAIN; /* each part begins at an aligned address */
    if (cuda->status != STATUS_OK) return;
    if (bytes > cuda->stage.half)
        stage_grow(cuda, bytes);
    else if (cuda->stage.used + bytes > cuda->stage.half)
        stage_turn(cuda);
}

/* The next bytes of the half in use. */
static size_t stage_take(struct cuda_stage *stage, size_t bytes)
{
    const size_t at = (size_t)stage->which * stage->half + stage->used;
    stage->used += whole_grains(bytes);
    return at;
}

void *cuda_result(struct cuda *cuda, size_t bytes)
{
    if (cuda->status != STATUS_OK) return NULL;
    return cuda->stage.device + stage_take(&cuda->stage, bytes);
}

/* Where the same bytes lie already: a batch's positions are wanted by each rotation of each layer, the logs of its sums
 * on the way back. */
static bool stage_find(const struct cuda_stage *stage, const void *array, size_t bytes, size_t *at)
{
    for (int i = 0; i < STAGE_ARRAYS; i++) {
        *at = stage->arrays[i].at;
        if (stage->arrays[i].bytes == bytes && memcmp(stage->host + *at, array, bytes) == 0) return true;
    }
    return false;
}

static void stage_note(struct cuda_stage *stage, size_t at, size_t bytes)
{
    stage->arrays[stage->next] = (struct cuda_staged_array){at, bytes};
    stage->next = (stage->next + 1) % STAGE_ARRAYS;
}

const void *cuda_staged(struct cuda *cuda, const void *array, size_t bytes)
{
    size_t at;
    if (cuda->status != STATUS_OK || bytes == 0) return NULL;
    if (stage_find(&cuda->stage, array, bytes, &at)) return cuda->stage.device + at;
    at = stage_take(&cuda->stage, bytes);
    stage_note(&cuda->stage, at, bytes);
    memcpy(cuda->stage.host + at, array, bytes);
    (void)cuda_good(
        cuda, "copying to the device",
        cuda->device->upload(cuda->device, cuda->stage.device + at, bytes, cuda->stage.host + at, bytes, bytes, 1));
    return cuda->stage.device + at;
}

void cuda_fetch_all(struct cuda *cuda, const struct cuda_fetched *fetched, int count)
{
    struct cuda_stage *stage = &cuda->stage;
    for (int i = 0; i < count && cuda->status == STATUS_OK; i++) {
        char *host = stage->host + ((const char *)fetched[i].result - stage->device);
        const size_t bytes = fetched[i].bytes;
        (void)cuda_good(cuda, "copying from the device",
                        cuda->device->download(cuda->device, host, bytes, fetched[i].result, bytes, bytes, 1));
    }
    const bool good = cuda_wait(cuda);
    for (int i = 0; i < count; i++) {
        const struct cuda_fetched *f = &fetched[i];
        if (!good) {
            memset(f->array, 0xff, f->bytes); /* NaN, so that it cannot pass for a result */
            continue;
        }
        const size_t at = (size_t)((const char *)f->result - stage->device);
        memcpy(f->array, stage->host + at, f->bytes);
        stage_note(stage, at, f->bytes);
    }
}

void cuda_fetch(struct cuda *cuda, void *array, const void *result, size_t bytes)
{
    cuda_fetch_all(cuda, &(struct cuda_fetched){array, result, bytes}, 1);
}

void cuda_put(struct cuda *cuda, void *to, const void *from, size_t bytes)
{
    cuda_announce(cuda, bytes);
    if (cuda->status != STATUS_OK || bytes == 0) return;
    char *host = cuda->stage.host + stage_take(&cuda->stage, bytes);
    memcpy(host, from, bytes);
    (void)cuda_good(cuda, "copying to the device",
                    cuda->device->upload(cuda->device, to, bytes, host, bytes, bytes, 1));
}

void cuda_take(struct cuda *cuda, void *to, const void *from, size_t bytes)
{
    cuda_announce(cuda, bytes);
    if (cuda->status != STATUS_OK || bytes == 0) {
        memset(to, 0xff, bytes); /* cannot pass for a result */
        return;
    }
    char *host = cuda->stage.host + stage_take(&cuda->stage, bytes);
    (void)cuda_good(cuda, "copying from the device",
                    cuda->device->download(cuda->device, host, bytes, from, bytes, bytes, 1));
    if (cuda_wait(cuda))
        memcpy(to, host, bytes);
    else
        memset(to, 0xff, bytes);
}

/* Rows of `m` that fit in a half, with the columns that are next: a row longer than a half goes in several chunks. */
static struct matrix next_chunk(struct matrix m, int64_t row, int64_t column, size_t half)
{
    const int64_t most = (int64_t)(half / sizeof(float)),
                  columns = m.columns - column < most ? m.columns - column : most;
    int64_t rows = columns < m.columns ? 1 : most / columns;
    if (rows > m.rows - row) rows = m.rows - row;
    return matrix_columns(matrix_rows(m, row, rows), column, columns);
}

static void upload_floats(struct cuda *cuda, struct matrix to, const void *from, const struct dtype_info *dtype)
{
    const size_t width = (size_t)to.columns * sizeof(float);
    char *host = cuda->stage.host + stage_take(&cuda->stage, (size_t)to.rows * width);
    dtype->to_f32(from, (float *)(void *)host, to.rows * to.columns);
    (void)cuda_good(cuda, "copying to the device",
                    cuda->device->upload(cuda->device, to.data, (size_t)to.stride * sizeof(float), host, width, width,
                                         (size_t)to.rows));
}

void cuda_upload(struct backend *backend, struct matrix to, const void *from, enum dtype dtype)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct dtype_info *info = dtype_info(dtype);
    const int64_t bytes = (int64_t)info->bits / 8;
    cuda_announce(cuda, LEAST_STAGE / 2);
    for (int64_t row = 0, column = 0; row < to.rows && to.columns > 0 && cuda->status == STATUS_OK;) {
        const struct matrix chunk = next_chunk(to, row, column, LEAST_STAGE / 2);
        const char *values = (const char *)from + (row * to.columns + column) * bytes;
        const int64_t count = chunk.rows * chunk.columns;
        cuda_announce(cuda, (size_t)count * sizeof(float));
        if (cuda->status != STATUS_OK) break;
        if (bytes == sizeof(uint16_t))
            cuda_widen(cuda, chunk, cuda_staged(cuda, values, (size_t)(count * bytes)), dtype);
        else
            upload_floats(cuda, chunk, values, info);
        column += chunk.columns;
        if (column == to.columns) row += chunk.rows, column = 0;
    }
    cuda_leave(cuda);
}

static void convert_back(void *to, int64_t first, const float *from, int64_t count, enum dtype dtype)
{
    if (dtype == DTYPE_F64)
        for (int64_t i = 0; i < count; i++) ((double *)to)[first + i] = (double)from[i];
    else
        memcpy((float *)to + first, from, (size_t)count * sizeof *from);
}

void cuda_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    struct cuda *cuda = cuda_enter(backend);
    for (int64_t row = 0, column = 0; row < from.rows && from.columns > 0;) {
        const struct matrix chunk = next_chunk(from, row, column, LEAST_STAGE / 2);
        const size_t width = (size_t)chunk.columns * sizeof(float), first = (size_t)(row * from.columns + column);
        cuda_announce(cuda, (size_t)chunk.rows * width);
        if (cuda->status == STATUS_OK) {
            char *host = cuda->stage.host + stage_take(&cuda->stage, (size_t)chunk.rows * width);
            (void)cuda_good(cuda, "copying from the device",
                            cuda->device->download(cuda->device, host, width, chunk.data,
                                                   (size_t)chunk.stride * sizeof(float), width, (size_t)chunk.rows));
            if (cuda_wait(cuda))
                convert_back(to, (int64_t)first, (const float *)(const void *)host, chunk.rows * chunk.columns, dtype);
        }
        if (cuda->status != STATUS_OK) break;
        column += chunk.columns;
        if (column == from.columns) row += chunk.rows, column = 0;
    }
    if (cuda->status != STATUS_OK) { /* cannot pass for a result */
        const size_t size = dtype == DTYPE_F64 ? sizeof(double) : sizeof(float);
        memset(to, 0xff, (size_t)(from.rows * from.columns) * size);
    }
    cuda_leave(cuda);
}
