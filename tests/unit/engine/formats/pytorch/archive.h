/* archive.h: a zip archive of stored entries in memory, as torch.save writes one, to be spoiled by tests and
 * fuzzers. */
#ifndef ARCHIVE_H
#define ARCHIVE_H

#include <stdint.h>
#include <string.h>
#include <zlib.h>

enum { ARCHIVE_ENTRIES = 12, ARCHIVE_BYTES = 1 << 17 };

struct archive {
    uint8_t bytes[ARCHIVE_BYTES];
    size_t size;
    struct {
        const char *name;
        uint32_t crc, size;
        size_t local, central; /* where its two headers are */
    } entries[ARCHIVE_ENTRIES];
    int count;
    size_t directory, end; /* where the central directory and the end record are */
};

static inline void archive_put(struct archive *archive, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) archive->bytes[archive->size++] = (uint8_t)(value >> 8 * i);
}

static inline void archive_bytes(struct archive *archive, const void *bytes, size_t size)
{
    memcpy(archive->bytes + archive->size, bytes, size);
    archive->size += size;
}

/* Overwrites a number that stands at `at`. */
static inline void archive_patch(struct archive *archive, size_t at, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) archive->bytes[at + (size_t)i] = (uint8_t)(value >> 8 * i);
}

static inline void archive_add(struct archive *archive, const char *name, const void *bytes, size_t size)
{
    const int i = archive->count++;
    archive->entries[i].name = name;
    archive->entries[i].size = (uint32_t)size;
    archive->entries[i].crc = (uint32_t)crc32_z(0, bytes, size);
    archive->entries[i].local = archive->size;
    archive_bytes(archive, "PK\3\4\0\0\0\10\0\0\0\0\0\0", 14);
    archive_put(archive, archive->entries[i].crc, 4);
    archive_put(archive, size, 4);
    archive_put(archive, size, 4);
    archive_put(archive, strlen(name), 2);
    archive_put(archive, 0, 2);
    archive_bytes(archive, name, strlen(name));
    archive_bytes(archive, bytes, size);
}

static inline void archive_finish(struct archive *archive)
{
    archive->directory = archive->size;
    for (int i = 0; i < archive->count; i++) {
        archive->entries[i].central = archive->size;
        archive_bytes(archive, "PK\1\2\0\0\0\0\0\10\0\0\0\0\0\0", 16);
        archive_put(archive, archive->entries[i].crc, 4);
        archive_put(archive, archive->entries[i].size, 4);
        archive_put(archive, archive->entries[i].size, 4);
        archive_put(archive, strlen(archive->entries[i].name), 2);
        archive_bytes(archive, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
        archive_put(archive, archive->entries[i].local, 4);
        archive_bytes(archive, archive->entries[i].name, strlen(archive->entries[i].name));
    }
    archive->end = archive->size;
    archive_bytes(archive, "PK\5\6\0\0\0\0", 8);
    archive_put(archive, (uint64_t)archive->count, 2);
    archive_put(archive, (uint64_t)archive->count, 2);
    archive_put(archive, archive->end - archive->directory, 4);
    archive_put(archive, archive->directory, 4);
    archive_put(archive, 0, 2);
}

/* What torch.save(…, "a.bin") leaves: `pickle` [size], and storages "0" of 16 bytes and "1" of 8. */
static inline void archive_of_pickle(struct archive *archive, const void *pickle, size_t size)
{
    static const float numbers[4] = {1, 2, 3, 4};
    memset(archive, 0, sizeof *archive);
    archive_add(archive, "a/data.pkl", pickle, size);
    archive_add(archive, "a/byteorder", "little", 6);
    archive_add(archive, "a/data/0", numbers, sizeof numbers);
    archive_add(archive, "a/data/1", numbers, 8);
    archive_add(archive, "a/version", "3\n", 2);
    archive_finish(archive);
}

#endif
