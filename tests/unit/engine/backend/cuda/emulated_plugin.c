/* emulated_plugin.c: the emulated device as a plugin, so that the program itself runs on it: DELTAQ_CUDA_PLUGIN names
 * the library.
 * EMULATED_MEMORY: a file with the memory of the first device, which all processes share (struct shared); a test may
 * write itself into it, as another program that takes memory.
 * EMULATED_FAULTS: a file of faults to come, a line for each: the number of a kernel's launch. When a process comes to
 * the launch of the last line (1: its first) the line is taken off, and from then on whatever is asked of the process's
 * devices fails, as after an illegal address on a GPU. A new process begins anew.
 * DELTAQ_DEVICE_TRIAL: of a self-test neither counts, and memory of the device stays open to the host, since closing
 * it for each of its many small orders takes seconds.
 * EMULATED_WRONG: what is wrong with the first device: "product" (the last term is lost), "crash" (of the process, at
 * its first launch), "fault" (likewise, as above), "driver" (a crash when devices are counted). */
#include "engine/backend/cuda/emulated.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FAULT = 700, FULL = 1, PROGRAMS = 30, BLOCKS = 4096 };

/* Numbers of eight bytes. Memory of a process that is gone is free. */
struct shared {
    int64_t total, most; /* bytes: what there is, and the most that all of deltaq had at once */
    struct {
        int64_t pid, used;
    } programs[PROGRAMS]; /* the first is another program's, whatever its pid */
};

/* Of the process, as with CUDA. One engine thread asks. */
static int64_t launches;
static bool broken, first;  /* first: the device is */
static struct device plain; /* the emulation's own functions */

static bool in_trial(void)
{
    return getenv("DELTAQ_DEVICE_TRIAL") != NULL;
}

static bool is_wrong(const char *how)
{
    const char *wrong = getenv("EMULATED_WRONG");
    return wrong != NULL && strcmp(wrong, how) == 0;
}

static int count(char *text, size_t size, bool *sound)
{
    *sound = !broken;
    if (is_wrong("driver")) (void)raise(SIGSEGV);
    (void)snprintf(text, size, broken ? "an illegal memory access was encountered" : "2 emulated devices");
    return broken ? 0 : 2;
}

static void error_text(int code, char *text, size_t size)
{
    if (code == FAULT)
        (void)snprintf(text, size, "an illegal memory access was encountered");
    else
        plain.error_text(code, text, size);
}

static enum device_failure failure(int code)
{
    return code == FAULT ? DEVICE_FAULT : plain.failure(code);
}

/* Takes a fault off the file. */
static bool fault_is_due(void)
{
    char line[32];
    long at = 0, last = 0;
    long long number = 0;
    const char *path = in_trial() ? NULL : getenv("EMULATED_FAULTS");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    launches++;
    if (file == NULL) return false;
    for (; fgets(line, sizeof line, file) != NULL; at = ftell(file)) last = at, number = strtoll(line, NULL, 10);
    (void)fclose(file);
    return number > 0 && number <= launches && truncate(path, last) == 0;
}

static int launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    if (first && is_wrong("crash")) (void)raise(SIGSEGV);
    if (fault_is_due() || (first && is_wrong("fault"))) broken = true;
    return broken ? FAULT : plain.launch(device, kernel, blocks, args);
}

static int gemm(struct device *device, const struct device_gemm *g)
{
    struct device_gemm other = *g;
    if (first && is_wrong("product") && other.k > 1) other.k--;
    return plain.gemm(device, &other);
}

static struct {
    void *address;
    int64_t bytes;
} blocks[BLOCKS]; /* of this process, where memory is shared */

/* The file, locked until it is closed; -1: there is none. */
static int shared_open(struct shared *out)
{
    const char *path = in_trial() ? NULL : getenv("EMULATED_MEMORY");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX) == 0 && pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out) return fd;
    abort();
}

static int64_t shared_used(struct shared *shared)
{
    int64_t used = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        if (i > 0 && shared->programs[i].pid != 0 && kill((pid_t)shared->programs[i].pid, 0) != 0 && errno == ESRCH)
            shared->programs[i].pid = shared->programs[i].used = 0;
        used += shared->programs[i].used;
    }
    return used;
}

/* False: there is not so much. */
static bool shared_take(int64_t bytes)
{
    struct shared shared;
    int mine = 1;
    const int fd = shared_open(&shared);
    if (fd < 0) return true;
    const bool fits = shared_used(&shared) + bytes <= shared.total;
    for (int i = 1; i < PROGRAMS; i++)
        if (shared.programs[i].pid == 0) mine = i;
    for (int i = 1; i < PROGRAMS; i++)
        if (shared.programs[i].pid == (int64_t)getpid()) mine = i;
    shared.programs[mine].pid = getpid();
    if (fits) shared.programs[mine].used += bytes;
    const int64_t ours = shared_used(&shared) - shared.programs[0].used;
    if (ours > shared.most) shared.most = ours;
    if (pwrite(fd, &shared, sizeof shared, 0) != (ssize_t)sizeof shared) abort();
    (void)close(fd);
    return fits;
}

static int64_t *note_of(const void *address)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].address == address) return &blocks[i].bytes;
    abort();
}

static void note(void *address, int64_t bytes)
{
    int64_t *free_note = note_of(NULL);
    for (int i = 0; i < BLOCKS; i++)
        if (&blocks[i].bytes == free_note) blocks[i].address = address;
    *free_note = bytes;
}

static void forget(void *address)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].address == address) blocks[i].address = NULL;
}

static int allocate(struct device *device, size_t bytes, void **out)
{
    if (broken) return FAULT;
    if (!shared_take((int64_t)bytes)) return FULL;
    const int code = plain.allocate(device, bytes, out);
    if (code == 0)
        note(*out, (int64_t)bytes);
    else
        (void)shared_take(-(int64_t)bytes);
    return code;
}

static int memory(struct device *device, int64_t *available, int64_t *total)
{
    struct shared shared;
    const int fd = broken ? -1 : shared_open(&shared);
    if (broken) return FAULT;
    if (fd < 0) return plain.memory(device, available, total);
    *total = shared.total;
    *available = shared.total - shared_used(&shared);
    (void)close(fd);
    return 0;
}

static bool identify(int ordinal, struct device_identity *out, char *text, size_t size)
{
    (void)snprintf(text, size, "2 emulated devices");
    (void)snprintf(out->name, sizeof out->name, "emulated device");
    (void)snprintf(out->uuid, sizeof out->uuid, "GPU-%d0e1d2c3-b4a5-4697-8877-665544332211", ordinal);
    (void)snprintf(out->bus, sizeof out->bus, ordinal == 0 ? "0000:3b:00.0" : "0000:af:00.0");
    return ordinal >= 0 && ordinal < 2;
}

static int allocate_host(struct device *device, size_t bytes, void **out)
{
    return broken ? FAULT : plain.allocate_host(device, bytes, out);
}

static int synchronize(struct device *device)
{
    return broken ? FAULT : plain.synchronize(device);
}

static int wait_for(struct device *device, int which)
{
    return broken ? FAULT : plain.wait(device, which);
}

static int arrive(struct device *device, enum lane lane, int which)
{
    return broken ? FAULT : plain.arrive(device, lane, which);
}

/* What a broken device was asked for is never done: it would be done late, in memory that who asked has given back. */
static int carry(struct device *device, enum lane lane, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                 size_t width, size_t rows, bool to_device)
{
    return broken ? FAULT : plain.carry(device, lane, to, to_pitch, from, from_pitch, width, rows, to_device);
}

static int release(struct device *device, void *block)
{
    if (broken) return FAULT;
    const int code = plain.release(device, block);
    (void)shared_take(-*note_of(block));
    forget(block);
    return code;
}

static void close_device(struct device *device)
{
    if (!broken) plain.close(device);
}

static struct device *open_device(int ordinal, const char *products, char *text, size_t size, enum device_failure *why)
{
    struct device *device = broken ? NULL : emulated_device(ordinal > 0);
    *why = broken ? DEVICE_FAULT : DEVICE_FULL;
    first = ordinal == 0;
    if (device == NULL || (in_trial() && !emulated_trust(device))) {
        (void)snprintf(text, size, broken ? "an illegal memory access was encountered" : "no memory for the emulation");
        return NULL;
    }
    if (strcmp(products, "bf16") == 0) emulated_round(device);
    plain = *device;
    (void)identify(ordinal, &device->identity, text, size);
    (void)memory(device, &device->memory_free, &device->memory_total);
    device->error_text = error_text;
    device->failure = failure;
    device->launch = launch;
    device->gemm = gemm;
    device->memory = memory;
    device->allocate = allocate;
    device->allocate_host = allocate_host;
    device->synchronize = synchronize;
    device->wait = wait_for;
    device->arrive = arrive;
    device->carry = carry;
    device->release = release;
    device->close = close_device;
    return device;
}

static const size_t sizes[] = DEVICE_ALL_SIZES;

extern const struct device_plugin deltaq_cuda_plugin;
__attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin = {
    CUDA_PLUGIN_VERSION, DEVICE_SIZE_COUNT, CUDA_SOURCES, sizes, count, identify, open_device};
