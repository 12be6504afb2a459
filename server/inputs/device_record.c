#include "inputs/device_record.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { RECORD_BYTES = 64 };

static void path_of(const char *data_directory, const char *device, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/devices/%s", data_directory, device);
}

int64_t device_record_read(const char *data_directory, const char *device)
{
    char path[PATH_MAX], *text = NULL;
    struct error ignored;
    size_t size = 0;
    path_of(data_directory, device, path);
    if (file_read_all(AT_FDCWD, path, RECORD_BYTES, &text, &size, &ignored) != STATUS_OK) return INT64_MAX;
    const long long bytes = strtoll(text, NULL, 10);
    memory_free(text);
    return bytes > 0 ? bytes : INT64_MAX;
}

/* The free memory of a device hardly changes between runs, so a file with nearly the same number is not rewritten. */
void device_record_write(const char *data_directory, const char *device, int64_t bytes)
{
    const int64_t before = device_record_read(data_directory, device);
    const int64_t apart = before > bytes ? before - bytes : bytes - before;
    char path[PATH_MAX], text[RECORD_BYTES];
    struct error ignored;
    if (apart < bytes / 100) return;
    (void)snprintf(path, sizeof path, "%s/devices", data_directory);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return;
    path_of(data_directory, device, path);
    const int length = snprintf(text, sizeof text, "%" PRId64 "\n", bytes);
    if (file_writer_put(path, text, (size_t)length, &ignored) != STATUS_OK) return;
}
