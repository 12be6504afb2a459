/* device_record.h: a file below the data directory in which a worker records the memory of its device, so that the
 * server can plan without a driver in its process. */
#ifndef INPUTS_DEVICE_RECORD_H
#define INPUTS_DEVICE_RECORD_H

#include <stdint.h>

/* Records that a run on `device` ("cuda:0") may take so many bytes. Failures are ignored, because the file is only a
 * help. */
void device_record_write(const char *data_directory, const char *device, int64_t bytes);

/* The last recorded number; INT64_MAX: none was recorded. */
int64_t device_record_read(const char *data_directory, const char *device);

#endif
