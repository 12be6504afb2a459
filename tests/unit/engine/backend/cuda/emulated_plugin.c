/* emulated_plugin.c: the emulated device as a plugin, so that the program itself runs on it: DELTAQ_CUDA_PLUGIN names
 * the library. EMULATED_MIB: what it has of memory.
 * EMULATED_FAULTS: a file of faults to come, a line for each: the number of a kernel's launch. When a process comes to
 * the launch of the last line (1: its first) the line is taken off, and from then on whatever is asked of the process's
 * devices fails, as after an illegal address on a GPU. A new process begins anew. */
#include "engine/backend/cuda/emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULT = 700 };

/* Of the process, as with CUDA. One engine thread asks. */
static int64_t launches;
static bool broken;
static struct device plain; /* the emulation's own functions */

static int count(char *text, size_t size)
{
    (void)snprintf(text, size, broken ? "an illegal memory access was encountered" : "2 emulated devices");
    return broken ? 0 : 2;
}

static const char *error_text(int code)
{
    return code == FAULT ? "an illegal memory access was encountered" : plain.error_text(code);
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
    const char *path = getenv("EMULATED_FAULTS");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    launches++;
    if (file == NULL) return false;
    for (; fgets(line, sizeof line, file) != NULL; at = ftell(file)) last = at, number = strtoll(line, NULL, 10);
    (void)fclose(file);
    return number > 0 && number <= launches && truncate(path, last) == 0;
}

static int launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    if (fault_is_due()) broken = true;
    return broken ? FAULT : plain.launch(device, kernel, blocks, args);
}

static int allocate(struct device *device, size_t bytes, void **out)
{
    return broken ? FAULT : plain.allocate(device, bytes, out);
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
    return broken ? FAULT : plain.release(device, block);
}

static void close_device(struct device *device)
{
    if (!broken) plain.close(device);
}

static struct device *open_device(int ordinal, const char *products, char *text, size_t size, enum device_failure *why)
{
    struct device *device = broken ? NULL : emulated_device(ordinal > 0);
    const char *memory = getenv("EMULATED_MIB");
    *why = broken ? DEVICE_FAULT : DEVICE_FULL;
    if (device == NULL) {
        (void)snprintf(text, size, "%s", broken ? error_text(FAULT) : "no memory for the emulation");
        return NULL;
    }
    if (strcmp(products, "bf16") == 0) emulated_round(device);
    if (memory != NULL) device->memory_free = strtoll(memory, NULL, 10) << 20;
    plain = *device;
    device->error_text = error_text;
    device->failure = failure;
    device->launch = launch;
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

extern const struct device_plugin deltaq_cuda_plugin;
__attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin = {
    CUDA_PLUGIN_VERSION, sizeof(struct attention_kernel_args), count, open_device};
