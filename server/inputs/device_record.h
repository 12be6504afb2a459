/* device_record.h: what a worker found of its device's memory, in a file below the data directory, so that the server
 * can plan without a driver in its process. */
#ifndef INPUTS_DEVICE_RECORD_H
#define INPUTS_DEVICE_RECORD_H

#include <stdint.h>

/* Notes that a run on `device` ("cuda:0") may take so many bytes of it. Only a help: what goes wrong is not told. */
void device_record_write(const char *data_directory, const char *device, int64_t bytes);

/* The last that was noted; INT64_MAX: nothing was. */
int64_t device_record_read(const char *data_directory, const char *device);

#endif
