/* wrong_plugin.c: plugins of another build, wrong in one way each. What they would be asked is never asked. */
#include "backend/cuda/device.h"

static const size_t sizes[] = DEVICE_ALL_SIZES;
static size_t other_sizes[DEVICE_SIZE_COUNT];

/* The last kernel's arguments have grown. */
__attribute__((constructor)) static void grow(void)
{
    for (int i = 0; i < DEVICE_SIZE_COUNT; i++) other_sizes[i] = sizes[i];
    other_sizes[DEVICE_SIZE_COUNT - 1] += 8;
}

#ifdef WRONG_version
#define VERSION (CUDA_PLUGIN_VERSION - 1)
#else
#define VERSION CUDA_PLUGIN_VERSION
#endif
#ifdef WRONG_sources
#define SOURCES "0123456789ab"
#else
#define SOURCES CUDA_SOURCES
#endif
#ifdef WRONG_sizes
#define SIZES other_sizes
#else
#define SIZES sizes
#endif

extern const struct device_plugin deltaq_cuda_plugin;
__attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin = {
    .version = VERSION, .size_count = DEVICE_SIZE_COUNT, .sources = SOURCES, .sizes = SIZES};
