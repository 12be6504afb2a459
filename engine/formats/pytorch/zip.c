#include "formats/pytorch/zip.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    DESCRIPTOR_MAX = 24, /* after the bytes of an entry that was written as a stream */
    NAME_MOST = 1024,
    EXTRA_ZIP64 = 1,
    FLAG_DESCRIPTOR = 1 << 3,
    FLAG_UTF8 = 1 << 11,
    ENTRIES_MAX = 1 << 20,
    DIRECTORY_MAX = 128 << 20
};
#define SATURATED_16 0xffffu
#define SATURATED_32 0xffffffffu

struct slot {
    struct zip_entry entry; /* the name points into the directory, where zip_open ends it with NUL */
    int64_t header;         /* of its local header in the file */
    uint16_t flags;
    uint16_t name_size;
};

struct zip {
    const struct file *file; /* lent */
    char *directory;    /* owned; the central directory; names end with NUL, written over a byte that was read before */
    struct slot *slots; /* owned; sorted by name */
    int64_t count;
};

static uint16_t u16(const char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t u64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static enum status corrupt(const struct zip *zip, const char *what, struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "%s: not a sound zip archive: %s", file_name(zip->file), what);
}

static enum status corrupt_entry(const struct zip *zip, const struct slot *slot, const char *what, struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "%s: entry \"%.80s\" of the archive %s", file_name(zip->file),
                     slot->entry.name, what);
}

/* The place of the directory, on which both of its end records agree. */
struct extent {
    uint64_t entries, bytes, offset;
};

/* A 16 or 32 bit field equals the 64-bit record's value, or has all bits set because the value does not fit. */
static bool agrees(uint64_t small, uint64_t full, uint64_t large)
{
    return small == large || (small == full && large >= full);
}

/* The zip64 end record at `at`, to which the locator must point, and which must not contradict the end record, *out. */
static enum status read_extent64(const struct zip *zip, int64_t at, const char *locator, struct extent *out,
                                 struct error *error)
{
    char large[END64_BYTES];
    if (u32(locator + 4) != 0 || u32(locator + 16) != 1 || u64(locator + 8) != (uint64_t)at)
        return corrupt(zip, "its zip64 locator points elsewhere than to the record before it", error);
    const enum status status = file_read(zip->file, at, large, sizeof large, error);
    if (status != STATUS_OK) return status;
    if (memcmp(large, "PK\6\6", 4) != 0 || u64(large + 4) != END64_BYTES - 12)
        return corrupt(zip, "its zip64 end record is not where it must be", error);
    const struct extent full = {u64(large + 32), u64(large + 40), u64(large + 48)};
    if (u32(large + 16) != 0 || u32(large + 20) != 0 || u64(large + 24) != full.entries ||
        !agrees(out->entries, SATURATED_16, full.entries) || !agrees(out->bytes, SATURATED_32, full.bytes) ||
        !agrees(out->offset, SATURATED_32, full.offset))
        return corrupt(zip, "its two end records contradict each other", error);
    *out = full;
    return STATUS_OK;
}

/* The end record; *at: where it begins. */
static enum status read_end(const struct zip *zip, int64_t *at, struct extent *out, struct error *error)
{
    char end[END_BYTES];
    *at = file_bytes(zip->file) - END_BYTES;
    if (*at < 0) return corrupt(zip, "it is too short", error);
    const enum status status = file_read(zip->file, *at, end, sizeof end, error);
    if (status != STATUS_OK) return status;
    if (memcmp(end, "PK\5\6", 4) != 0 || u16(end + 20) != 0)
        return corrupt(zip, "it does not end with its end record", error);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != u16(end + 10))
        return error_set(error, STATUS_UNSUPPORTED, "%s: an archive on several disks; join it first",
                         file_name(zip->file));
    *out = (struct extent){u16(end + 10), u32(end + 12), u32(end + 16)};
    return STATUS_OK;
}

static enum status read_extent(const struct zip *zip, struct extent *out, struct error *error)
{
    char locator[LOCATOR_BYTES];
    int64_t at = 0;
    enum status status = read_end(zip, &at, out, error);
    if (status != STATUS_OK) return status;
    if (at >= LOCATOR_BYTES + END64_BYTES) {
        if ((status = file_read(zip->file, at - LOCATOR_BYTES, locator, sizeof locator, error)) != STATUS_OK)
            return status;
        if (memcmp(locator, "PK\6\7", 4) == 0) {
            at -= LOCATOR_BYTES + END64_BYTES;
            if ((status = read_extent64(zip, at, locator, out, error)) != STATUS_OK) return status;
        }
    }
    if (out->bytes > (uint64_t)at || out->offset != (uint64_t)at - out->bytes)
        return corrupt(zip, "its directory is not right before its end record", error);
    if (out->bytes > DIRECTORY_MAX || out->entries > ENTRIES_MAX || out->entries > out->bytes / CENTRAL_BYTES)
        return corrupt(zip, "its directory has an impossible size", error);
    return STATUS_OK;
}

/* Finds the zip64 values among the extra fields. *out: their bytes, 8 for each field that has all bits set, in
 * order. */
static bool extra_zip64(const char *extra, size_t size, const char **out, size_t *out_size)
{
    *out = NULL;
    *out_size = 0;
    while (size >= 4) {
        const uint16_t kind = u16(extra), length = u16(extra + 2);
        if (length > size - 4) return false;
        if (kind == EXTRA_ZIP64 && *out != NULL) return false;
        if (kind == EXTRA_ZIP64) {
            *out = extra + 4;
            *out_size = length;
        }
        extra += 4 + (size_t)length;
        size -= 4 + (size_t)length;
    }
    return size == 0;
}

/* Replaces *value by the next 64-bit value when all its bits are set. */
static bool widen(uint64_t *value, const char **wide, size_t *wide_size)
{
    if (*value != SATURATED_32) return true;
    if (*wide_size < 8) return false;
    *value = u64(*wide);
    *wide += 8;
    *wide_size -= 8;
    return true;
}

/* Refuses names that could leave a directory. Names are only compared and shown, but are checked all the same. */
static bool plain_name(const char *name, size_t size)
{
    if (size == 0 || size > NAME_MOST || name[0] == '/' || name[size - 1] == '/') return false;
    for (size_t i = 0; i < size; i++) {
        if (name[i] < ' ' || name[i] > '~' || name[i] == '\\') return false;
        if (name[i] == '.' && i + 1 < size && name[i + 1] == '.' && (i == 0 || name[i - 1] == '/') &&
            (i + 2 == size || name[i + 2] == '/'))
            return false;
    }
    return true;
}

/* Reads the record at `at` of the central directory, `left` bytes before its end; *size: its length. */
static enum status read_central(struct zip *zip, char *at, size_t left, uint64_t end, struct slot *slot, size_t *size,
                                struct error *error)
{
    const char *wide;
    size_t wide_size;
    if (left < CENTRAL_BYTES || memcmp(at, "PK\1\2", 4) != 0)
        return corrupt(zip, "a record of its directory is damaged", error);
    const size_t name_size = u16(at + 28), extra_size = u16(at + 30), comment = u16(at + 32);
    *size = CENTRAL_BYTES + name_size + extra_size;
    if (*size > left || comment != 0) return corrupt(zip, "a record of its directory is damaged", error);
    if (!plain_name(at + CENTRAL_BYTES, name_size))
        return corrupt(zip, "an entry's name is empty, absolute, has \"..\" or characters that no name needs", error);
    uint64_t packed = u32(at + 20), bytes = u32(at + 24), header = u32(at + 42);
    if (!extra_zip64(at + CENTRAL_BYTES + name_size, extra_size, &wide, &wide_size) ||
        !widen(&bytes, &wide, &wide_size) || !widen(&packed, &wide, &wide_size) || !widen(&header, &wide, &wide_size))
        return corrupt(zip, "the zip64 values of an entry are damaged", error);
    *slot = (struct slot){.flags = u16(at + 8), .name_size = (uint16_t)name_size};
    slot->entry.crc = u32(at + 16);
    const uint16_t method = u16(at + 10), disk = u16(at + 34);
    /* The record's signature has been read: the name moves over it, which leaves a byte to end it with NUL. */
    memmove(at, at + CENTRAL_BYTES, name_size);
    at[name_size] = '\0';
    slot->entry.name = at;
    if ((slot->flags & ~(FLAG_DESCRIPTOR | FLAG_UTF8)) != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: entry \"%.80s\" of the archive is encrypted or has unknown flags (0x%x)",
                         file_name(zip->file), slot->entry.name, slot->flags);
    if (method != 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: entry \"%.80s\" of the archive is compressed (method %d); torch.save stores entries as they are: load "
            "the file and save it again (of a TorchScript module its state_dict)",
            file_name(zip->file), slot->entry.name, method);
    if (disk != 0) return corrupt_entry(zip, slot, "is on another disk", error);
    if (packed != bytes) return corrupt_entry(zip, slot, "has two different sizes", error);
    if (header > end || bytes > end - header) return corrupt_entry(zip, slot, "lies outside the file", error);
    slot->entry.bytes = (int64_t)bytes;
    slot->header = (int64_t)header;
    return STATUS_OK;
}

/* The sizes of a local header, out of the `extra_size` bytes after its name when they do not fit its own fields. */
static enum status read_sizes(const struct zip *zip, const struct slot *slot, size_t extra_size, uint64_t *packed,
                              uint64_t *bytes, struct error *error)
{
    char *extra = NULL;
    const char *wide;
    size_t wide_size;
    if (*packed != SATURATED_32 && *bytes != SATURATED_32) return STATUS_OK;
    enum status status = memory_new((int64_t)extra_size, 1, "extra fields", &extra, error);
    if (status != STATUS_OK) return status;
    status = file_read(zip->file, slot->header + LOCAL_BYTES + slot->name_size, extra, extra_size, error);
    const bool sound = status == STATUS_OK && extra_zip64(extra, extra_size, &wide, &wide_size) &&
                       widen(bytes, &wide, &wide_size) && widen(packed, &wide, &wide_size);
    memory_free(extra);
    if (status != STATUS_OK) return status;
    return sound ? STATUS_OK : corrupt(zip, "the zip64 values of an entry are damaged", error);
}

/* Whether the local header has the name and the flags of the directory. */
static bool same_entry(const char *head, const struct slot *slot)
{
    return memcmp(head, "PK\3\4", 4) == 0 && u16(head + 6) == slot->flags && u16(head + 8) == 0 &&
           u16(head + 26) == slot->name_size && memcmp(head + LOCAL_BYTES, slot->entry.name, slot->name_size) == 0;
}

/* The local header before the entry's bytes must agree with the directory. Sets entry.offset. */
static enum status read_local(const struct zip *zip, struct slot *slot, int64_t end, struct error *error)
{
    char head[LOCAL_BYTES + NAME_MOST];
    enum status status;
    if (slot->header > end - LOCAL_BYTES - slot->name_size)
        return corrupt_entry(zip, slot, "lies outside the file", error);
    if ((status = file_read(zip->file, slot->header, head, LOCAL_BYTES + (size_t)slot->name_size, error)) != STATUS_OK)
        return status;
    const size_t extra_size = u16(head + 28);
    if (!same_entry(head, slot))
        return corrupt_entry(zip, slot, "is called or stored otherwise in the directory than where it lies", error);
    slot->entry.offset = slot->header + LOCAL_BYTES + slot->name_size + (int64_t)extra_size;
    if (slot->entry.offset > end || slot->entry.bytes > end - slot->entry.offset)
        return corrupt_entry(zip, slot, "lies outside the file", error);
    uint64_t packed = u32(head + 18), bytes = u32(head + 22);
    const bool later = (slot->flags & FLAG_DESCRIPTOR) != 0 && packed == 0 && bytes == 0 && u32(head + 14) == 0;
    if (later) return STATUS_OK;
    if ((status = read_sizes(zip, slot, extra_size, &packed, &bytes, error)) != STATUS_OK) return status;
    /* A writer of streams that learns the sizes later may leave them 0 in either width. */
    const bool unsaid = (slot->flags & FLAG_DESCRIPTOR) != 0 && packed == 0 && bytes == 0;
    if (!unsaid && (packed != (uint64_t)slot->entry.bytes || bytes != packed || u32(head + 14) != slot->entry.crc))
        return corrupt_entry(zip, slot, "has another size or checksum in the directory than where it lies", error);
    return STATUS_OK;
}

static int by_header(const void *a, const void *b)
{
    const int64_t first = ((const struct slot *)a)->header, second = ((const struct slot *)b)->header;
    return first < second ? -1 : first > second;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct slot *)a)->entry.name, ((const struct slot *)b)->entry.name);
}

/* Checks that entries follow one another from the first byte on, with at most a stream's descriptor between them, and
 * that no name occurs twice. */
static enum status check_places(struct zip *zip, int64_t end, struct error *error)
{
    int64_t before = 0, slack = 0;
    qsort(zip->slots, (size_t)zip->count, sizeof *zip->slots, by_header);
    for (int64_t i = 0; i < zip->count; i++) {
        const struct slot *slot = &zip->slots[i];
        if (slot->header < before) return corrupt_entry(zip, slot, "overlaps another entry", error);
        if (slot->header - before > slack)
            return corrupt_entry(zip, slot, "has bytes before it that belong to no entry", error);
        before = slot->entry.offset + slot->entry.bytes;
        slack = (slot->flags & FLAG_DESCRIPTOR) != 0 ? DESCRIPTOR_MAX : 0;
    }
    if (end < before || end - before > slack)
        return corrupt(zip, "bytes before its directory belong to no entry", error);
    qsort(zip->slots, (size_t)zip->count, sizeof *zip->slots, by_name);
    for (int64_t i = 1; i < zip->count; i++)
        if (by_name(&zip->slots[i - 1], &zip->slots[i]) == 0)
            return corrupt_entry(zip, &zip->slots[i], "is there twice", error);
    return STATUS_OK;
}

static enum status read_directory(struct zip *zip, struct error *error)
{
    struct extent extent = {0};
    enum status status;
    if ((status = read_extent(zip, &extent, error)) != STATUS_OK) return status;
    if ((status = memory_new((int64_t)extent.bytes, 1, "archive directory", &zip->directory, error)) != STATUS_OK)
        return status;
    if ((status = memory_new((int64_t)extent.entries, sizeof *zip->slots, "list of entries", &zip->slots, error)) !=
        STATUS_OK)
        return status;
    if ((status = file_read(zip->file, (int64_t)extent.offset, zip->directory, extent.bytes, error)) != STATUS_OK)
        return status;
    size_t at = 0, size = 0;
    for (; zip->count < (int64_t)extent.entries; zip->count++, at += size) {
        struct slot *slot = &zip->slots[zip->count];
        status = read_central(zip, zip->directory + at, extent.bytes - at, extent.offset, slot, &size, error);
        if (status == STATUS_OK) status = read_local(zip, slot, (int64_t)extent.offset, error);
        if (status != STATUS_OK) return status;
    }
    if (at != extent.bytes) return corrupt(zip, "its directory is longer than its entries", error);
    return check_places(zip, (int64_t)extent.offset, error);
}

enum status zip_open(const struct file *file, struct zip **out, struct error *error)
{
    *out = NULL;
    struct zip *zip = calloc(1, sizeof *zip);
    if (zip == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate an archive");
    zip->file = file;
    const enum status status = read_directory(zip, error);
    if (status != STATUS_OK) {
        zip_close(zip);
        return status;
    }
    *out = zip;
    return STATUS_OK;
}

void zip_close(struct zip *zip)
{
    if (zip == NULL) return;
    memory_free(zip->slots);
    memory_free(zip->directory);
    free(zip);
}

int64_t zip_count(const struct zip *zip)
{
    return zip->count;
}

const struct zip_entry *zip_entry(const struct zip *zip, int64_t index)
{
    return &zip->slots[index].entry;
}

const struct zip_entry *zip_find(const struct zip *zip, const char *name)
{
    const struct slot key = {.entry.name = name};
    if (zip->count == 0) return NULL;
    const struct slot *slot = bsearch(&key, zip->slots, (size_t)zip->count, sizeof key, by_name);
    return slot != NULL ? &slot->entry : NULL;
}

enum status zip_read(const struct zip *zip, const struct zip_entry *entry, int64_t limit, char **out, size_t *bytes,
                     struct error *error)
{
    char *content = NULL;
    enum status status;
    *out = NULL;
    *bytes = 0;
    if (entry->bytes > limit)
        return error_set(error, STATUS_TOO_LARGE,
                         "%s: entry \"%.80s\" of the archive has %lld bytes, at most %lld are accepted",
                         file_name(zip->file), entry->name, (long long)entry->bytes, (long long)limit);
    if ((status = memory_new(entry->bytes, 1, "archive entry", &content, error)) != STATUS_OK) return status;
    if ((status = file_read(zip->file, entry->offset, content, (size_t)entry->bytes, error)) != STATUS_OK) goto done;
    if (crc32_z(0, (const Bytef *)content, (size_t)entry->bytes) != entry->crc) {
        status = error_set(error, STATUS_CORRUPT, "%s: entry \"%.80s\" of the archive fails its checksum",
                           file_name(zip->file), entry->name);
        goto done;
    }
    *out = content;
    *bytes = (size_t)entry->bytes;
    content = NULL;
done:
    memory_free(content);
    return status;
}
