#include "base/control_group.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A version: where its tree is below the mount, the controllers of its line in /proc/self/cgroup, names of files. */
struct version {
    const char *below, *controller, *limit, *used, *statistics, *reclaimable;
};

static const struct version versions[] = {
    {"", "", "memory.max", "memory.current", "memory.stat", "inactive_file "},
    {"/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file "},
};

int64_t control_group_number(const char *path, const char *word)
{
    char line[256];
    int64_t found = -1;
    const size_t length = strlen(word);
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    while (found < 0 && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        if (strncmp(line, word, length) != 0) continue;
        const long long value = strtoll(line + length, &end, 10);
        if (end != line + length && value >= 0) found = value;
    }
    (void)fclose(file);
    return found;
}

static int64_t number_in(const char *directory, const char *name, const char *word)
{
    char path[2 * PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    return length > 0 && (size_t)length < sizeof path ? control_group_number(path, word) : -1;
}

/* A group without a limit has "max" there (version 1: a number larger than any machine), the root has no file. */
static void read_group(const struct version *version, const char *directory, struct control_group_memory *out)
{
    const int64_t limit = number_in(directory, version->limit, "");
    const int64_t used = number_in(directory, version->used, "");
    const int64_t cached = number_in(directory, version->statistics, version->reclaimable);
    if (limit <= 0) return;
    if (limit < out->limit) out->limit = limit;
    if (used < 0) return;
    const int64_t left = limit - used + (cached > 0 ? cached : 0);
    if (left < out->left) out->left = left > 0 ? left : 0;
}

/* Whether `word` is one of a list with commas; "" is the empty list. */
static bool is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    if (length == 0) return list[0] == '\0';
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
    return false;
}

/* The path of the group of a version, from its line "NUMBER:CONTROLLERS:PATH". "": the root of the tree; so is a group
 * outside of the control group namespace, which is told as "/../..". */
static void find_group(const struct version *version, const char *process, char path[PATH_MAX])
{
    char line[PATH_MAX + 256];
    FILE *file = fopen(process, "re");
    path[0] = '\0';
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!is_listed(controllers + 1, version->controller) || strstr(group, "/..") != NULL) continue;
        if (group[0] == '/' && strlen(group) < PATH_MAX) (void)snprintf(path, PATH_MAX, "%s", group);
    }
    (void)fclose(file);
}

struct control_group_memory control_group_read(const char *process, const char *mount)
{
    struct control_group_memory out = {.limit = INT64_MAX, .left = INT64_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char group[PATH_MAX], directory[2 * PATH_MAX];
        find_group(&versions[i], process, group);
        for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
            *end = '\0';
            const int length = snprintf(directory, sizeof directory, "%s%s%s", mount, versions[i].below, group);
            if (length > 0 && (size_t)length < sizeof directory) read_group(&versions[i], directory, &out);
        }
    }
    return out;
}
