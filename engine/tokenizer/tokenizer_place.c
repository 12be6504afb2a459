#include "tokenizer/tokenizer_place.h"

#include "files/file.h"
#include "tokenizer/tokenizer_gguf.h"
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVELS = 2 }; /* run/checkpoints/step100 */

static bool ends_with(const char *name, const char *ending)
{
    const size_t size = strlen(name), end = strlen(ending);
    return size > end && strcmp(name + size - end, ending) == 0;
}

/* The only .gguf of a directory without other weights; other weights would be the checkpoint. */
static bool only_gguf(const char *directory, char *out, size_t size)
{
    static const char *const others[] = {".safetensors", ".bin", ".pt", ".pth"};
    int found = 0;
    struct error ignored;
    DIR *stream = NULL;
    if (file_directory_list(directory, &stream, &ignored) != STATUS_OK) return false;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            if (ends_with(entry->d_name, others[i])) found += 2;
        if (!tokenizer_gguf_is(entry->d_name) || !weights_file_is_whole(entry->d_name)) continue;
        if ((size_t)snprintf(out, size, "%s/%s", directory, entry->d_name) < size) found++;
    }
    (void)closedir(stream);
    return found == 1;
}

/* tokenizer.json in one of the directories above `directory` [length]. */
static bool find_above(const char *directory, int length, char *out, size_t size)
{
    for (int up = 0; up < LEVELS; up++) {
        while (length > 0 && directory[length - 1] != '/') length--;
        if (length <= 1) return false;
        length--;
        if ((size_t)snprintf(out, size, "%.*s/tokenizer.json", length, directory) < size && access(out, R_OK) == 0)
            return true;
    }
    return false;
}

bool tokenizer_place_find(const char *checkpoint, char *out, size_t size, bool *above)
{
    struct stat found;
    const char *slash = strrchr(checkpoint, '/');
    const bool file = stat(checkpoint, &found) == 0 && S_ISREG(found.st_mode);
    const int length = !file ? (int)strlen(checkpoint) : slash != NULL ? (int)(slash - checkpoint) : 0;
    const char *name = file && slash == NULL ? "./tokenizer.json" : "/tokenizer.json";
    char other[4096];
    if (above != NULL) *above = false;
    if ((size_t)snprintf(out, size, "%.*s%s", length, checkpoint, name) >= size) return false;
    if (access(out, R_OK) == 0) return true;
    if (file && tokenizer_gguf_is(checkpoint)) return (size_t)snprintf(out, size, "%s", checkpoint) < size;
    if ((!file && only_gguf(checkpoint, other, sizeof other)) || find_above(checkpoint, length, other, sizeof other)) {
        if (above != NULL) *above = !tokenizer_gguf_is(other);
        return (size_t)snprintf(out, size, "%s", other) < size;
    }
    return false;
}
