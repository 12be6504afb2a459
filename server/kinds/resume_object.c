#include "kinds/resume_object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = RESUME_OBJECT_DIGITS };

static bool read_digits(const char *text, int64_t *out)
{
    char digits[DIGITS + 1];
    if (strnlen(text, DIGITS) < DIGITS || strspn(text, "0123456789") != DIGITS) return false;
    memcpy(digits, text, DIGITS);
    digits[DIGITS] = '\0';
    *out = strtoll(digits, NULL, 10);
    return true;
}

bool resume_object_is_digest(const char *text)
{
    return strlen(text) == RESUME_OBJECT_DIGEST && strspn(text, "0123456789abcdef") == RESUME_OBJECT_DIGEST;
}

bool resume_object_read(const char *name, struct resume_object *out)
{
    *out = (struct resume_object){.sha256 = ""};
    if (strlen(name) <= DIGITS || name[DIGITS] != '/' || !read_digits(name, &out->epoch)) return false;
    out->sha256 = name + DIGITS + 1;
    if (resume_object_is_digest(out->sha256)) return true;
    if (strlen(out->sha256) <= DIGITS || out->sha256[DIGITS] != '-' || !read_digits(out->sha256, &out->number))
        return false;
    out->sha256 += DIGITS + 1;
    return out->number > 0 && resume_object_is_digest(out->sha256);
}

void resume_object_name(const char *run, int64_t epoch, const char *rest, char out[RESUME_OBJECT_NAME])
{
    (void)snprintf(out, RESUME_OBJECT_NAME, RESUME_OBJECT_FOLDER "/%s/%0*" PRId64 "/%s", run, DIGITS, epoch, rest);
}

enum status resume_object_list(const struct artifact_store *store, const char *run, double until,
                               const struct monitor *monitor, struct listing *out, struct error *error)
{
    char name[RESUME_OBJECT_NAME];
    (void)snprintf(name, sizeof name, RESUME_OBJECT_FOLDER "/%s", run);
    return artifact_store_list(store, name, until, monitor, out, error);
}

enum status resume_object_remove(const struct artifact_store *store, const char *run, const char *name, double until,
                                 const struct monitor *monitor, struct error *error)
{
    char whole[RESUME_OBJECT_NAME];
    if (snprintf(whole, sizeof whole, RESUME_OBJECT_FOLDER "/%s/%s", run, name) >= (int)sizeof whole)
        return STATUS_OK; /* no object of ours has so long a name */
    return artifact_store_remove(store, whole, until, monitor, error);
}
