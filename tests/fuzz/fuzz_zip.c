/* The directory of a zip archive. Entries that are accepted lie in the file, apart from each other, under plain
 * names. */
#include "fuzz_file.h"

#include "base/memory.h"
#include "formats/pytorch/zip.h"

#include <string.h>

static void check(const struct zip *zip, int64_t size)
{
    for (int64_t i = 0; i < zip_count(zip); i++) {
        const struct zip_entry *entry = zip_entry(zip, i);
        struct error error;
        char *bytes = NULL;
        size_t read = 0;
        fuzz_require(entry->offset >= 30 && entry->bytes >= 0 && entry->offset + entry->bytes <= size);
        fuzz_require(entry->name[0] != '\0' && entry->name[0] != '/' && strncmp(entry->name, "../", 3) != 0 &&
                     strstr(entry->name, "/../") == NULL);
        fuzz_require(zip_find(zip, entry->name) == entry &&
                     (i == 0 || strcmp(zip_entry(zip, i - 1)->name, entry->name) < 0));
        for (int64_t k = 0; k < i && k < 64; k++) {
            const struct zip_entry *other = zip_entry(zip, k);
            fuzz_require(other->offset + other->bytes <= entry->offset ||
                         entry->offset + entry->bytes <= other->offset);
        }
        const enum status status = zip_read(zip, entry, 4096, &bytes, &read, &error);
        fuzz_require(status == STATUS_OK ? read == (size_t)entry->bytes
                                         : status == STATUS_CORRUPT || status == STATUS_TOO_LARGE);
        memory_free(bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    struct file *file = NULL;
    struct zip *zip = NULL;
    struct error error;
    const int descriptor = fuzz_file(bytes, size, path);
    fuzz_require(file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, INT64_MAX, &file, &error) == STATUS_OK);
    const enum status status = zip_open(file, &zip, &error);
    if (status == STATUS_OK)
        check(zip, (int64_t)size);
    else
        fuzz_require(zip == NULL && (status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED) && error.detail[0]);
    zip_close(zip);
    file_close(file);
    (void)close(descriptor);
    return 0;
}
