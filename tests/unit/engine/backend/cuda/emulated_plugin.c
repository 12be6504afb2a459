/* emulated_plugin.c: the emulated device as a plugin, so that the program itself runs on it: DELTAQ_CUDA_PLUGIN names
 * the library. EMULATED_MIB: what it has of memory. */
#include "engine/backend/cuda/emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(char *text, size_t size)
{
    (void)snprintf(text, size, "2 emulated devices");
    return 2;
}

static struct device *open_device(int ordinal, const char *products, char *text, size_t size)
{
    struct device *device = emulated_device(ordinal > 0);
    const char *memory = getenv("EMULATED_MIB");
    if (device != NULL && strcmp(products, "bf16") == 0) emulated_round(device);
    if (device == NULL) (void)snprintf(text, size, "no memory for the emulation");
    if (device != NULL && memory != NULL) device->memory_free = strtoll(memory, NULL, 10) << 20;
    return device;
}

extern const struct device_plugin deltaq_cuda_plugin;
__attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin = {
    CUDA_PLUGIN_VERSION, sizeof(struct attention_kernel_args), count, open_device};
