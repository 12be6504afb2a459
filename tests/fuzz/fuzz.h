/* fuzz.h: what every fuzzer includes. `make fuzz` links them with libFuzzer; the unit tests replay their corpora. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A broken promise is a crash, which is what a fuzzer looks for. */
#define fuzz_require(condition)                                                   \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                              \
        }                                                                         \
    } while (0)

#endif
