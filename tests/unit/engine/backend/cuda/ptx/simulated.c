#include "engine/backend/cuda/ptx/simulated.h"

#include "engine/backend/cuda/emulated.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIMULATED_REGIONS = 4096,
    SIMULATED_SHARED = 1 << 16,
    SIMULATED_COMPLAINTS = 8,
    SIMULATED_WIDEST = 16,
    SIMULATED_FAULT = 3
};
enum { SHARED_LIMIT = 48 << 10 }; /* what a block may have without asking */

/* What is known of a word, or of a byte where bytes are touched alone. Steps count launches, blocks and barriers: two
 * accesses of one step have no order. */
struct cell {
    uint32_t write_step, read_step; /* the last; 0: never */
    uint8_t writer, reader;         /* threads */
    bool many_readers;              /* in read_step */
    bool other_blocks;              /* of the launch of read_step have read it */
};

struct region {
    uint8_t *data;
    struct cell *cells;
    size_t bytes;
    unsigned shift; /* log2 of a cell's bytes */
};

struct simulated {
    /* first: what the emulation does is told by `state`, what is done here by the device's address */
    struct device device;
    struct device *emulation;
    pthread_mutex_t mutex; /* lanes are used by other threads than the stream */
    struct region regions[SIMULATED_REGIONS], shared;
    size_t count, recent;
    struct ptx_thread threads[KERNEL_THREADS];
    uint8_t *registers, *local;
    size_t registers_bytes, local_bytes;
    const struct ptx_kernel *kernel;
    uint8_t args[4096], nowhere[SIMULATED_WIDEST];
    uint32_t step, launch_step, block_step;
    int complaints;
    bool reversed, failed, launched[KERNEL_COUNT];
};

static struct simulated *simulated_enter(struct device *device)
{
    struct simulated *s = (struct simulated *)(void *)device;
    pthread_mutex_lock(&s->mutex);
    return s;
}

static int simulated_leave(struct simulated *s, int code)
{
    pthread_mutex_unlock(&s->mutex);
    return code;
}

__attribute__((format(printf, 2, 3))) static void complain(struct simulated *s, const char *format, ...)
{
    char text[DEVICE_TEXT];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!s->failed) memcpy(s->device.text, text, sizeof text);
    s->failed = true;
    if (s->complaints++ < SIMULATED_COMPLAINTS) (void)fprintf(stderr, "%s\n", text);
}

static void *misplaced(struct ptx_thread *t, int line, const char *what, uint64_t address)
{
    complain(t->device, "%s, line %d of the PTX, block %u, thread %u: %s, at %#llx", t->device->kernel->name, line,
             t->block, t->thread, what, (unsigned long long)address);
    return t->device->nowhere;
}

void ptx_wrong(struct ptx_thread *t, const char *what)
{
    complain(t->device, "%s, block %u, thread %u: %s", t->device->kernel->name, t->block, t->thread, what);
}

/* Regions lie in the order of their addresses; the one used last is tried first. */
static struct region *region_of(struct simulated *s, uint64_t address, size_t bytes)
{
    size_t low = 0, high = s->count;
    if (s->recent < s->count && address - (uint64_t)(uintptr_t)s->regions[s->recent].data < s->regions[s->recent].bytes)
        low = s->recent, high = low + 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if ((uint64_t)(uintptr_t)s->regions[middle].data <= address)
            low = middle;
        else
            high = middle;
    }
    const uint64_t offset = address - (uint64_t)(uintptr_t)s->regions[low].data;
    if (s->count == 0 || offset >= s->regions[low].bytes || bytes > s->regions[low].bytes - offset) return NULL;
    s->recent = low;
    return &s->regions[low];
}

/* The cells of some bytes; words are cut into bytes where it must be. */
static struct cell *cells_of(struct region *region, uint64_t offset, size_t bytes, size_t *count)
{
    if (region->shift > 0 && ((offset | bytes) & 3) != 0) {
        struct cell *cells = malloc(region->bytes * sizeof *cells);
        if (cells == NULL) abort();
        for (size_t i = 0; i < region->bytes; i++) cells[i] = region->cells[i >> region->shift];
        free(region->cells);
        region->cells = cells;
        region->shift = 0;
    }
    *count = bytes >> region->shift;
    return region->cells + (offset >> region->shift);
}

/* Whether an earlier access, by `thread` in `step`, has no order before the one of thread t now. What came before
 * `since` has. */
static bool unordered(const struct simulated *s, const struct ptx_thread *t, uint32_t step, uint32_t thread,
                      uint32_t since)
{
    return step >= since && (step < s->block_step || (step == s->step && thread != t->thread));
}

static const char *note_read(const struct simulated *s, const struct ptx_thread *t, struct cell *cell, uint32_t since,
                             uint32_t oldest)
{
    const bool race = unordered(s, t, cell->write_step, cell->writer, since);
    cell->other_blocks = cell->read_step >= since && (cell->other_blocks || cell->read_step < s->block_step);
    cell->many_readers = cell->read_step == s->step && (cell->many_readers || cell->reader != t->thread);
    cell->read_step = s->step;
    cell->reader = (uint8_t)t->thread;
    if (race) return "reads what another thread writes, no barrier between";
    return cell->write_step < oldest ? "reads what nobody has written" : NULL;
}

static const char both_write[] = "writes what another thread writes, no barrier between";

static const char *note_write(const struct simulated *s, const struct ptx_thread *t, struct cell *cell, uint32_t since)
{
    const bool race = unordered(s, t, cell->write_step, cell->writer, since);
    const bool read = unordered(s, t, cell->read_step, cell->reader, since) ||
                      (cell->read_step >= since && cell->other_blocks) ||
                      (cell->read_step == s->step && cell->many_readers);
    cell->write_step = s->step;
    cell->writer = (uint8_t)t->thread;
    if (race) return both_write;
    return read ? "writes what another thread reads, no barrier between" : NULL;
}

/* Shared memory begins anew with each block, the device's with each launch, but there what was written before stays. */
static void *touch(struct ptx_thread *t, struct region *region, uint64_t offset, size_t bytes, const void *value,
                   int line)
{
    const struct simulated *s = t->device;
    const bool shared = region == &s->shared;
    const uint32_t since = shared ? s->block_step : s->launch_step, oldest = shared ? s->block_step : 1;
    size_t count;
    struct cell *cells = cells_of(region, offset, bytes, &count);
    for (size_t i = 0; i < count; i++) {
        const char *wrong =
            value != NULL ? note_write(s, t, &cells[i], since) : note_read(s, t, &cells[i], since, oldest);
        if (wrong == both_write && memcmp(region->data + offset, value, bytes) == 0)
            continue; /* whoever is last, they are these */
        if (wrong != NULL) return misplaced(t, line, wrong, offset);
    }
    return region->data + offset;
}

static bool inside_shared(const struct ptx_array *array, uint64_t address, size_t bytes)
{
    for (; array->name != NULL; array++)
        if (address >= array->at && address + bytes <= array->at + array->bytes) return true;
    return false;
}

void *ptx_at(struct ptx_thread *t, enum ptx_space space, uint64_t address, size_t bytes, const void *value, int line)
{
    struct simulated *s = t->device;
    const enum ptx_space windows[] = {PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM};
    if (space == PTX_GENERIC) {
        space = windows[address >> 60 & 3];
        address &= PTX_SHARED_WINDOW - 1;
    }
    if ((address & (bytes - 1)) != 0) return misplaced(t, line, "a crooked address", address);
    if (space == PTX_LOCAL)
        return address + bytes <= s->kernel->local ? t->local + address
                                                   : misplaced(t, line, "outside the thread's own memory", address);
    if (space == PTX_PARAM)
        return value == NULL && address + bytes <= s->kernel->parameter
                   ? s->args + address
                   : misplaced(t, line, "outside the arguments", address);
    if (space == PTX_SHARED)
        return inside_shared(s->kernel->shared, address, bytes)
                   ? touch(t, &s->shared, address, bytes, value, line)
                   : misplaced(t, line, "outside every array of shared memory", address);
    struct region *region = region_of(s, address, bytes);
    if (region == NULL) return misplaced(t, line, "outside the device's memory", address);
    return touch(t, region, address - (uint64_t)(uintptr_t)region->data, bytes, value, line);
}

void ptx_aligned(struct ptx_thread *t, uint64_t address, size_t bytes, int line)
{
    if (address % bytes != 0) (void)misplaced(t, line, "a crooked address of a vector", address);
}

/* The i-th thread to run. */
static struct ptx_thread *thread_at(struct simulated *s, uint32_t i)
{
    return &s->threads[s->reversed ? KERNEL_THREADS - 1 - i : i];
}

static void apart(struct simulated *s, const struct ptx_thread *t, int line, int others)
{
    complain(s, "%s, block %u: thread %u comes to the barrier of line %d, others to that of line %d (0: the end)",
             s->kernel->name, t->block, t->thread, abs(line), abs(others));
}

/* The threads of a warp up to the same place, with all that they do together before a barrier or the end. */
static int run_warp(struct simulated *s, uint32_t first)
{
    for (;;) {
        struct ptx_thread *lanes[PTX_WARP];
        int line = 0;
        for (uint32_t i = 0; i < PTX_WARP; i++) {
            struct ptx_thread *t = thread_at(s, first + i);
            const int reached = s->kernel->run(t);
            lanes[t->thread % PTX_WARP] = t;
            if (i == 0) line = reached;
            if (reached != line) apart(s, t, reached, line);
        }
        if (line >= 0 || s->failed) return line;
        lanes[0]->together.run(lanes);
    }
}

/* All threads up to the next barrier, which is the same for all. False at the end. */
static bool run_phase(struct simulated *s)
{
    int first = 0;
    for (uint32_t i = 0; i < KERNEL_THREADS; i += PTX_WARP) {
        const int line = run_warp(s, i);
        if (i == 0) first = line;
        if (line != first && !s->failed) apart(s, thread_at(s, i), line, first);
    }
    s->step++;
    return first != 0 && !s->failed;
}

static void run_block(struct simulated *s, uint32_t block, uint32_t blocks)
{
    s->block_step = ++s->step;
    for (uint32_t i = 0; i < KERNEL_THREADS; i++)
        s->threads[i] = (struct ptx_thread){
            .device = s,
            .registers = s->registers + i * s->kernel->registers,
            .local = s->local + i * s->kernel->local,
            .thread = i,
            .block = block,
            .blocks = blocks,
        };
    while (run_phase(s)) continue;
}

static bool grow(uint8_t **memory, size_t *held, size_t bytes)
{
    if (bytes <= *held) return true;
    free(*memory);
    *memory = calloc(bytes, 1);
    *held = *memory == NULL ? 0 : bytes;
    return *memory != NULL;
}

static bool fits(struct simulated *s, enum kernel kernel, int64_t blocks)
{
    static const size_t parameters[] = {
#define X(name, type) sizeof(struct type),
        KERNEL_LIST(X)
#undef X
    };
    uint32_t shared = 0;
    for (const struct ptx_array *array = s->kernel->shared; array->name != NULL; array++) shared += array->bytes;
    if (blocks < 1 || blocks > INT32_MAX) complain(s, "%s: %lld blocks", s->kernel->name, (long long)blocks);
    if (shared > SHARED_LIMIT) complain(s, "%s: %u bytes of shared memory", s->kernel->name, shared);
    if (parameters[kernel] != s->kernel->parameter || s->kernel->parameter > sizeof s->args)
        complain(s, "%s: %zu bytes of arguments in the PTX, %zu here", s->kernel->name, s->kernel->parameter,
                 parameters[kernel]);
    return !s->failed;
}

static int launch(struct simulated *s, enum kernel kernel, int64_t blocks, const void *args)
{
    s->kernel = &ptx_kernels[kernel];
    if (s->failed || !fits(s, kernel, blocks)) return SIMULATED_FAULT;
    if (!grow(&s->registers, &s->registers_bytes, KERNEL_THREADS * s->kernel->registers) ||
        !grow(&s->local, &s->local_bytes, KERNEL_THREADS * s->kernel->local))
        return 1;
    memcpy(s->args, args, s->kernel->parameter);
    s->launched[kernel] = true;
    s->launch_step = s->step + 1;
    for (int64_t i = 0; i < blocks && !s->failed; i++)
        run_block(s, (uint32_t)(s->reversed ? blocks - 1 - i : i), (uint32_t)blocks);
    return s->failed ? SIMULATED_FAULT : 0;
}

static int simulated_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    struct simulated *s = simulated_enter(device);
    return simulated_leave(s, launch(s, kernel, blocks, args));
}

/* What copies and products do to bytes of the device. */
static void touch_here(struct simulated *s, const void *address, size_t bytes, bool write, const char *who)
{
    struct region *region = bytes > 0 ? region_of(s, (uint64_t)(uintptr_t)address, bytes) : NULL;
    if (bytes == 0) return;
    if (region == NULL) {
        complain(s, "%s: %zu bytes outside the device's memory", who, bytes);
        return;
    }
    size_t count;
    struct cell *cells = cells_of(region, (uint64_t)((const uint8_t *)address - region->data), bytes, &count);
    for (size_t i = 0; i < count; i++) {
        if (write)
            cells[i].write_step = s->step;
        else if (cells[i].write_step == 0) {
            complain(s, "%s: reads what nobody has written", who);
            return;
        }
    }
}

/* Copies are done when they are asked for, whatever their lane. */
static int copy(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                size_t rows, bool to_device)
{
    struct simulated *s = simulated_enter(device);
    for (size_t i = 0; i < rows && !s->failed; i++) {
        char *target = (char *)to + i * to_pitch;
        const char *source = (const char *)from + i * from_pitch;
        touch_here(s, to_device ? target : source, width, to_device,
                   to_device ? "a copy to the device" : "a copy from the device");
        if (!s->failed) memcpy(target, source, width);
    }
    return simulated_leave(s, s->failed ? SIMULATED_FAULT : 0);
}

static int simulated_upload(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t rows)
{
    return copy(device, to, to_pitch, from, from_pitch, width, rows, true);
}

static int simulated_download(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t rows)
{
    return copy(device, to, to_pitch, from, from_pitch, width, rows, false);
}

static int simulated_carry(struct device *device, enum lane lane, void *to, size_t to_pitch, const void *from,
                           size_t from_pitch, size_t width, size_t rows, bool to_device)
{
    (void)lane;
    return copy(device, to, to_pitch, from, from_pitch, width, rows, to_device);
}

static int simulated_clear(struct device *device, void *to, size_t bytes)
{
    struct simulated *s = simulated_enter(device);
    touch_here(s, to, bytes, true, "clearing");
    if (!s->failed) memset(to, 0, bytes);
    return simulated_leave(s, s->failed ? SIMULATED_FAULT : 0);
}

/* A column-major matrix of a product, of numbers of `element` bytes. */
static void touch_matrix(struct simulated *s, const void *at, size_t element, int64_t rows, int64_t columns,
                         int64_t leading, bool write)
{
    if (leading < 1 || leading < rows)
        complain(s, "a product: leading dimension %lld of %lld rows", (long long)leading, (long long)rows);
    for (int64_t i = 0; i < columns && !s->failed; i++)
        touch_here(s, (const char *)at + (size_t)(i * leading) * element, (size_t)rows * element, write, "a product");
}

static void touch_product(struct simulated *s, const struct device_gemm *g)
{
    const size_t element = g->bf16 ? sizeof(uint16_t) : sizeof(float);
    touch_matrix(s, g->a, element, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, false);
    touch_matrix(s, g->b, element, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->ldb, false);
    if (g->beta != 0) touch_matrix(s, g->c, sizeof *g->c, g->m, g->n, g->ldc, false);
    touch_matrix(s, g->c, sizeof *g->c, g->m, g->n, g->ldc, true);
}

/* After the emulation was asked for a product, which it makes no sooner than it must. */
static int multiplied(struct simulated *s, int code)
{
    return simulated_leave(s, code != 0 ? code : s->emulation->synchronize(&s->device));
}

static int simulated_gemm(struct device *device, const struct device_gemm *g)
{
    struct simulated *s = simulated_enter(device);
    touch_product(s, g);
    return multiplied(s, s->failed ? SIMULATED_FAULT : s->emulation->gemm(device, g));
}

static int simulated_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    struct simulated *s = simulated_enter(device);
    float *const *const arrays[] = {args->a, args->b, args->c};
    for (int i = 0; i < 3; i++)
        touch_here(s, arrays[i], (size_t)args->count * sizeof *args->a, false, "the pointers of products");
    for (int64_t i = 0; i < args->count && !s->failed; i++) {
        struct device_gemm each = args->each;
        each.a = args->a[i], each.b = args->b[i], each.c = args->c[i];
        touch_product(s, &each);
    }
    return multiplied(s, s->failed ? SIMULATED_FAULT : s->emulation->gemm_batched(device, args));
}

static bool region_new(struct region *region, size_t bytes)
{
    *region = (struct region){malloc(bytes), calloc(bytes / 4 + 1, sizeof *region->cells), bytes, 2};
    if (region->data != NULL && region->cells != NULL) return true;
    free(region->data);
    free(region->cells);
    return false;
}

static int simulated_allocate(struct device *device, size_t bytes, void **out)
{
    struct simulated *s = simulated_enter(device);
    struct region region;
    size_t at = s->count;
    if (s->count == SIMULATED_REGIONS || !region_new(&region, bytes)) return simulated_leave(s, 1);
    for (; at > 0 && (uintptr_t)s->regions[at - 1].data > (uintptr_t)region.data; at--)
        s->regions[at] = s->regions[at - 1];
    s->regions[at] = region;
    s->count++;
    *out = region.data;
    return simulated_leave(s, 0);
}

static void region_drop(struct region *region)
{
    free(region->data);
    free(region->cells);
}

static int simulated_release(struct device *device, void *block)
{
    struct simulated *s = simulated_enter(device);
    struct region *region = region_of(s, (uint64_t)(uintptr_t)block, 1);
    if (region == NULL || region->data != block) return simulated_leave(s, 2);
    region_drop(region);
    s->count--;
    memmove(region, region + 1, (size_t)(&s->regions[s->count] - region) * sizeof *region);
    return simulated_leave(s, 0);
}

static void simulated_error(int code, char *text, size_t size)
{
    (void)snprintf(text, size, "%s",
                   code == 1 ? "no memory for the simulation"
                             : "the simulation of the PTX complains on standard error");
}

/* Names of the kernels that ran, for `make check-ptx`. */
static void tell_launched(const struct simulated *s)
{
    const char *path = getenv("PTX_LAUNCHED");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (s->launched[i]) (void)fprintf(file, "%s\n", ptx_kernels[i].name);
    (void)fclose(file);
}

static void simulated_close(struct device *device)
{
    struct simulated *s = (struct simulated *)(void *)device;
    tell_launched(s);
    s->emulation->close(s->emulation);
    pthread_mutex_destroy(&s->mutex);
    for (size_t i = 0; i < s->count; i++) region_drop(&s->regions[i]);
    region_drop(&s->shared);
    free(s->registers);
    free(s->local);
    free(s);
}

struct device *simulated_device(bool reversed)
{
    struct simulated *s = calloc(1, sizeof *s);
    struct device *emulation = emulated_device(reversed);
    if (s == NULL || emulation == NULL || !region_new(&s->shared, SIMULATED_SHARED)) {
        if (emulation != NULL) emulation->close(emulation);
        free(s);
        return NULL;
    }
    s->device = *emulation;
    s->emulation = emulation;
    s->reversed = reversed;
    s->step = 1;
    pthread_mutex_init(&s->mutex, NULL);
    s->device.close = simulated_close;
    s->device.error_text = simulated_error;
    s->device.allocate = simulated_allocate;
    s->device.release = simulated_release;
    s->device.clear = simulated_clear;
    s->device.upload = simulated_upload;
    s->device.download = simulated_download;
    s->device.launch = simulated_launch;
    s->device.carry = simulated_carry;
    s->device.gemm = simulated_gemm;
    s->device.gemm_batched = simulated_gemm_batched;
    return &s->device;
}
