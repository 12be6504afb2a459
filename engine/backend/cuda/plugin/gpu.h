/* gpu.h: a device over CUDA's runtime. */
#ifndef BACKEND_CUDA_PLUGIN_GPU_H
#define BACKEND_CUDA_PLUGIN_GPU_H

#include "backend/cuda/plugin/gpu_blas.h"

struct CUevent_st;

struct gpu {
    struct device device;
    int ordinal;
    struct CUstream_st *stream;
    struct CUevent_st *marks[2];
    struct {
        struct CUstream_st *stream;
        struct CUevent_st *points[LANE_POINTS], *followed;
    } lanes[LANE_COUNT];
    struct gpu_blas blas;
};

/* Sets the functions of gpu->device. gpu->device.close releases everything made so far and frees `gpu`. */
void gpu_init(struct gpu *gpu, int ordinal);
/* Implement device.failure and device.error_text. */
enum device_failure gpu_failure(int code);
void gpu_error_text(int code, char *text, size_t size);

#endif
