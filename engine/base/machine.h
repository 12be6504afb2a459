/* machine.h: what the machine has left, and what this process has read of it. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of memory that new work may take without anything being pushed out: what the kernel calls available, and no
 * more than the control groups of this process have left (control_group.h). */
int64_t machine_free_memory(void);

/* Bytes of memory that there are, in use or not: of the machine, and no more than the control groups of this process
 * may have. */
int64_t machine_memory(void);

/* Free bytes of the file system that `directory` lies on; -1: nobody knows. */
int64_t machine_free_disk(const char *directory);

/* Bytes that this process has read of files so far (not of sockets); -1: the kernel does not say. */
int64_t machine_bytes_read(void);

/* The id of this start of the machine's kernel; "" where there is none. */
void machine_boot_id(char *text, size_t size);

#endif
