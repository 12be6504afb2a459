/* machine.h: free memory and disk of the machine, and how much this process has read from files. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of memory that new work may take without anything being pushed out: what the kernel calls available, and no
 * more than the control groups of this process have left (control_group.h). */
int64_t machine_free_memory(void);

/* Bytes of memory in total, used or not: the machine's, at most the limit of the control groups of this process. */
int64_t machine_memory(void);

/* Free bytes of the file system that holds `directory`; -1: unknown. */
int64_t machine_free_disk(const char *directory);

/* Bytes that this process has read from files so far (not from sockets); -1: the kernel does not say. */
int64_t machine_bytes_read(void);

/* The id of the current boot of the kernel; "" where the kernel has none. */
void machine_boot_id(char *text, size_t size);

#endif
