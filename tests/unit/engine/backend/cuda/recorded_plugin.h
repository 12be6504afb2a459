/* recorded_plugin.h: the plugin over a recorded runtime, for its tests. */
#ifndef TESTS_CUDA_RECORDED_PLUGIN_H
#define TESTS_CUDA_RECORDED_PLUGIN_H

#include "backend/cuda/device.h"
#include "engine/backend/cuda/recorded.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct device_plugin deltaq_cuda_plugin;

/* Calls that open a device: the device and its flags, a stream and two events, the lanes, cuBLAS and what there is. */
enum { OPENING = 2 + 3 + LANE_COUNT * (2 + LANE_POINTS) + 3 + 2, GEMM_FAILED = 100000 };

static inline void libraries(const char *named, const char *directories)
{
    unsetenv("DELTAQ_CUBLAS");
    unsetenv("DELTAQ_CUDA_LIBRARIES");
    if (named != NULL) setenv("DELTAQ_CUBLAS", named, 1);
    if (directories != NULL) setenv("DELTAQ_CUDA_LIBRARIES", directories, 1);
}

static inline void reset(void)
{
    recorded_reset();
    libraries(NULL, RECORDED "/cu13");
    unsetenv("DELTAQ_CUDA_SYNC");
}

static inline int prepare(void **state)
{
    (void)state;
    reset();
    return 0;
}

static inline struct device *open_as(const char *products)
{
    char text[DEVICE_TEXT] = "";
    enum device_failure failure = DEVICE_REFUSED;
    struct device *device = deltaq_cuda_plugin.open(2, products, text, sizeof text, &failure);
    if (device == NULL) fail_msg("%s", text);
    return device;
}

static inline void check_says(const char *text, const char *says)
{
    if (strstr(text, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, says);
}

static inline void check_call(int number, const char *wanted)
{
    assert_true(number >= 1 && number <= recorded.count);
    assert_string_equal(recorded.calls[number - 1], wanted);
}

#endif
