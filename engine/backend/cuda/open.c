#include "backend/cuda/open.h"

#include "backend/cuda/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { RESERVE_PARTS = 20, LEAST_RESERVE = 512 << 20 };

static const char plugin_name[] = "libdeltaq-cuda.so";

/* DELTAQ_CUDA_PLUGIN, else beside the binary or where `make install` puts it. */
static void *plugin_library(void)
{
    static const char *const places[] = {"", "../lib/deltaq/"};
    const char *named = getenv("DELTAQ_CUDA_PLUGIN");
    char binary[PATH_MAX], path[PATH_MAX + 64];
    if (named != NULL) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    const ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    if (length <= 0) return NULL;
    binary[length] = '\0';
    char *slash = strrchr(binary, '/');
    if (slash != NULL) slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s%s", binary, places[i], plugin_name);
        if (access(path, R_OK) == 0) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}

/* NULL with the reason in `text`. The library stays loaded. */
static const struct device_plugin *plugin_load(char *text, size_t size)
{
    void *library = plugin_library(), *symbol = library != NULL ? dlsym(library, "deltaq_cuda_plugin") : NULL;
    const struct device_plugin *plugin = symbol;
    if (library == NULL)
        (void)snprintf(text, size, "no %s that loads beside the binary: build it with `make cuda` where nvcc is",
                       plugin_name);
    else if (plugin == NULL || plugin->version != CUDA_PLUGIN_VERSION ||
             plugin->args != sizeof(struct attention_kernel_args) || plugin->device != sizeof(struct device))
        (void)snprintf(text, size, "%s is of another build than this binary: run `make cuda` again", plugin_name);
    else
        return plugin;
    return NULL;
}

int backend_cuda_count(char *text, size_t size)
{
    const struct device_plugin *plugin = plugin_load(text, size);
    return plugin != NULL ? plugin->count(text, size) : 0;
}

bool backend_cuda_identify(int ordinal, struct device_identity *out, char *text, size_t size)
{
    const struct device_plugin *plugin = plugin_load(text, size);
    *out = (struct device_identity){.name = ""};
    return plugin != NULL && plugin->identify(ordinal, out, text, size);
}

/* Domain, bus, device and function. "3b:00.0" is of the domain 0, which nvidia-smi writes with eight digits and others
 * with four. */
static bool read_bus(const char *text, unsigned out[4])
{
    int end = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &out[0], &out[1], &out[2], &out[3], &end) == 4) return text[end] == '\0';
    out[0] = 0;
    return sscanf(text, "%2x:%2x.%1x%n", &out[1], &out[2], &out[3], &end) == 3 && text[end] == '\0';
}

static bool same_bus(const char *a, const char *b)
{
    unsigned one[4], other[4];
    return read_bus(a, one) && read_bus(b, other) && memcmp(one, other, sizeof one) == 0;
}

int backend_cuda_find(const char *word, char *text, size_t size)
{
    struct device_identity found;
    char devices[DEVICE_TEXT];
    const int count = backend_cuda_count(text, size);
    const size_t length = strlen(word);
    int which = -1, fitting = 0;
    for (int i = 0; i < count; i++) {
        if (!backend_cuda_identify(i, &found, text, size)) return -1;
        const bool fits = strncasecmp(word, "GPU-", 4) == 0 && length > 4 ? strncasecmp(found.uuid, word, length) == 0
                                                                          : same_bus(found.bus, word);
        if (fits) which = i, fitting++;
    }
    if (count == 0 || fitting == 1) return which;
    (void)backend_cuda_count(devices, sizeof devices);
    (void)snprintf(text, size, "%s, and %s of them is %.60s", devices, fitting == 0 ? "none" : "more than one", word);
    return -1;
}

int64_t cuda_reserve(int64_t total)
{
    return total / RESERVE_PARTS > LEAST_RESERVE ? total / RESERVE_PARTS : LEAST_RESERVE;
}

enum status backend_cuda_budget(int64_t *out, struct error *error)
{
    const char *text = getenv("DELTAQ_CUDA_MEMORY");
    char *end = NULL;
    if (text == NULL) return STATUS_OK;
    errno = 0;
    const long long mebibytes = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || mebibytes < 1 || mebibytes > INT64_MAX >> 20)
        return error_set(error, STATUS_INVALID, "DELTAQ_CUDA_MEMORY: expected a whole number of MiB, found \"%.40s\"",
                         text);
    if (*out > mebibytes << 20) *out = mebibytes << 20;
    return STATUS_OK;
}

enum status backend_cuda_new(int ordinal, const char *products, struct team *team, struct backend **out,
                             struct error *error)
{
    static const enum status statuses[] = {
        [DEVICE_REFUSED] = STATUS_UNSUPPORTED, [DEVICE_FULL] = STATUS_NO_MEMORY, [DEVICE_FAULT] = STATUS_DEVICE};
    char text[DEVICE_TEXT] = "";
    const struct device_plugin *plugin = plugin_load(text, sizeof text);
    *out = NULL;
    if (plugin == NULL) return error_set(error, STATUS_UNSUPPORTED, "device cuda:%d: %s", ordinal, text);
    const int count = plugin->count(text, sizeof text);
    /* who asks had one: --device was held to what there is when the process began */
    if (count == 0) return error_set(error, STATUS_DEVICE, "device cuda:%d is gone: %s", ordinal, text);
    if (ordinal < 0 || ordinal >= count)
        return error_set(error, STATUS_UNSUPPORTED, "device cuda:%d: found %s, numbered from 0", ordinal, text);
    if (products == NULL) products = getenv("DELTAQ_CUDA_PRODUCTS");
    enum device_failure failure = DEVICE_REFUSED;
    struct device *device = plugin->open(ordinal, products != NULL ? products : "f32", text, sizeof text, &failure);
    if (device == NULL) return error_set(error, statuses[failure], "device cuda:%d: %s", ordinal, text);
    const int64_t left = device->memory_free - cuda_reserve(device->memory_total);
    int64_t budget = left > 0 ? left : 0;
    const enum status status = backend_cuda_budget(&budget, error);
    if (status == STATUS_OK) return cuda_open_device(device, budget, team, out, error);
    device->close(device);
    return status;
}
