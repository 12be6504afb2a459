/* agrees.c: compiled with the real cuda_runtime_api.h and never run: what this folder declares again is what that
 * header declares. */
#include <cuda_runtime_api.h>

#define X(name, number) _Static_assert((int)name == number, #name);
#include "errors.h"
#include "flags.h"
#undef X
#include "functions.h"
_Static_assert((int)cudaMemcpyHostToDevice == 1 && (int)cudaMemcpyDeviceToHost == 2, "directions of copies");
_Static_assert(sizeof((struct cudaDeviceProp *)0)->uuid.bytes == 16, "a UUID");
