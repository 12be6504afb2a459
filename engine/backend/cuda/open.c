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

/* DELTAQ_CUDA_PLUGIN, otherwise beside the binary or where `make install` puts it. False: not found. */
static bool plugin_path(char *path, size_t size)
{
    static const char *const places[] = {"", "../lib/deltaq/"};
    const char *named = getenv("DELTAQ_CUDA_PLUGIN");
    char binary[PATH_MAX];
    if (named != NULL) return snprintf(path, size, "%s", named) < (int)size;
    const ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    if (length <= 0) return false;
    binary[length] = '\0';
    char *slash = strrchr(binary, '/');
    if (slash != NULL) slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (snprintf(path, size, "%s%s%s", binary, places[i], plugin_name) < (int)size && access(path, R_OK) == 0)
            return true;
    return false;
}

bool cuda_installed(void)
{
    char path[PATH_MAX + 64];
    return plugin_path(path, sizeof path);
}

/* Refuses a plugin of other sources, or of a compiler that lays out a struct differently, because it would misread its
 * arguments. */
static bool plugin_fits(const struct device_plugin *plugin, char *text, size_t size)
{
    static const size_t sizes[] = DEVICE_ALL_SIZES;
    if (plugin->version != CUDA_PLUGIN_VERSION)
        (void)snprintf(text, size, "its version is %d, and %d is wanted", plugin->version, CUDA_PLUGIN_VERSION);
    else if (strcmp(plugin->sources, CUDA_SOURCES) != 0)
        (void)snprintf(text, size, "its sources have the sum %.16s, and this binary's %s", plugin->sources,
                       CUDA_SOURCES);
    else if (plugin->size_count != DEVICE_SIZE_COUNT || memcmp(plugin->sizes, sizes, sizeof sizes) != 0)
        (void)snprintf(text, size, "its compiler has other sizes of structs");
    else
        return true;
    return false;
}

/* NULL with the reason in `text`. The library stays loaded. *found: a plugin exists, so it should work. */
static const struct device_plugin *plugin_load(char *text, size_t size, bool *found)
{
    char why[DEVICE_TEXT / 2], path[PATH_MAX + 64];
    *found = plugin_path(path, sizeof path);
    void *library = *found ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct device_plugin *plugin = library != NULL ? dlsym(library, "deltaq_cuda_plugin") : NULL;
    const char *loading = library == NULL && *found ? dlerror() : NULL;
    if (library == NULL && !*found)
        (void)snprintf(text, size, "no %s beside the binary: build it with `make cuda` where nvcc is", plugin_name);
    else if (library == NULL)
        (void)snprintf(text, size, "%s does not load: %.200s", plugin_name, loading != NULL ? loading : "no reason");
    else if (plugin == NULL)
        (void)snprintf(text, size, "%s is not deltaq's: it lacks the symbol deltaq_cuda_plugin", plugin_name);
    else if (plugin_fits(plugin, why, sizeof why))
        return plugin;
    else
        (void)snprintf(text, size,
                       "%s is of another build than this binary (%s): run `make cuda` again, or install "
                       "the packages of one version",
                       plugin_name, why);
    return NULL;
}

int cuda_look(char *text, size_t size, bool *sound)
{
    bool found = false;
    const struct device_plugin *plugin = plugin_load(text, size, &found);
    *sound = !found;
    return plugin != NULL ? plugin->count(text, size, sound) : 0;
}

int backend_cuda_count(char *text, size_t size)
{
    bool sound = false;
    return cuda_look(text, size, &sound);
}

bool backend_cuda_identify(int ordinal, struct device_identity *out, char *text, size_t size)
{
    bool found = false;
    const struct device_plugin *plugin = plugin_load(text, size, &found);
    *out = (struct device_identity){.name = ""};
    return plugin != NULL && plugin->identify(ordinal, out, text, size);
}

/* Reads domain, bus, device and function. "3b:00.0" means domain 0, which nvidia-smi writes with eight digits and
 * others with four. */
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

enum status cuda_find_device(int ordinal, const char *products, struct device **out, struct error *error)
{
    static const enum status statuses[] = {
        [DEVICE_REFUSED] = STATUS_UNSUPPORTED, [DEVICE_FULL] = STATUS_NO_MEMORY, [DEVICE_FAULT] = STATUS_DEVICE};
    char text[DEVICE_TEXT] = "";
    bool sound = false;
    enum device_failure failure = DEVICE_REFUSED;
    const struct device_plugin *plugin = plugin_load(text, sizeof text, &sound);
    *out = NULL;
    if (plugin == NULL) return error_set(error, STATUS_UNSUPPORTED, "device cuda:%d: %s", ordinal, text);
    const int count = plugin->count(text, sizeof text, &sound);
    /* the device existed when the process began: --device was checked then */
    if (count == 0) return error_set(error, STATUS_DEVICE, "device cuda:%d is gone: %s", ordinal, text);
    if (ordinal < 0 || ordinal >= count)
        return error_set(error, STATUS_UNSUPPORTED, "device cuda:%d: found %s, numbered from 0", ordinal, text);
    if (products == NULL) products = getenv("DELTAQ_CUDA_PRODUCTS");
    *out = plugin->open(ordinal, products != NULL ? products : "f32", text, sizeof text, &failure);
    return *out != NULL ? STATUS_OK : error_set(error, statuses[failure], "device cuda:%d: %s", ordinal, text);
}

enum status backend_cuda_new(int ordinal, const char *products, struct team *team, struct backend **out,
                             struct error *error)
{
    struct device *device = NULL;
    *out = NULL;
    enum status status = cuda_find_device(ordinal, products, &device, error);
    if (status != STATUS_OK) return status;
    const int64_t left = device->memory_free - cuda_reserve(device->memory_total);
    int64_t budget = left > 0 ? left : 0;
    if ((status = backend_cuda_budget(&budget, error)) == STATUS_OK)
        return cuda_open_device(device, budget, team, out, error);
    device->close(device);
    return status;
}

enum status cuda_trial_new(int ordinal, const char *products, struct backend **out, struct error *error)
{
    struct device *device = NULL;
    *out = NULL;
    const enum status status = cuda_find_device(ordinal, products, &device, error);
    return status == STATUS_OK ? cuda_open_device(device, device->memory_free, NULL, out, error) : status;
}
