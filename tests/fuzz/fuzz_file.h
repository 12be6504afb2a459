/* fuzz_file.h: an input as an open file, for parsers that read files. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include "fuzz.h"

#include "files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file in memory with these bytes; close the descriptor when done. Its path goes into `path`. */
static inline int fuzz_file(const uint8_t *bytes, size_t size, char path[64])
{
    const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_require(descriptor >= 0 && write(descriptor, bytes, size) == (ssize_t)size);
    (void)snprintf(path, 64, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

#endif
