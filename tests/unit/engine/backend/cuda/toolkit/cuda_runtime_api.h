/* cuda_runtime_api.h: as much of CUDA's runtime as the plugin calls, declared again, so that its host code is compiled
 * and run where no toolkit is (recorded.c is the runtime then). tests/gpu/test_machine.py holds both lists to the real
 * header where there is one. */
#ifndef TESTS_CUDA_TOOLKIT_CUDA_RUNTIME_API_H
#define TESTS_CUDA_TOOLKIT_CUDA_RUNTIME_API_H

#include <stddef.h>

#define CUDART_VERSION 13000

typedef enum cudaError {
#define X(name, number) name = number,
#include "toolkit/errors.h"
#undef X
} cudaError_t;

enum {
#define X(name, number) name = number,
#include "toolkit/flags.h"
#undef X
};

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct dim3 {
    unsigned x, y, z;
} dim3;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

/* Of its members those that are read. */
struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    int major, minor, pciBusID, pciDeviceID, pciDomainID;
};

#include "toolkit/functions.h"

#endif
