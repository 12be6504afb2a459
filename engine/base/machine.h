/* machine.h: what the machine has left. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdint.h>

/* Bytes of memory that new work may take without anything being pushed out: what the kernel calls available, and no
 * more than the control group of this process (v2 or v1) has left. */
int64_t machine_free_memory(void);

/* Free bytes of the file system that `directory` lies on; -1: nobody knows. */
int64_t machine_free_disk(const char *directory);

#endif
