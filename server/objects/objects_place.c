#include "objects/objects_place.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool objects_place_is(const char *text)
{
    return strncmp(text, OBJECTS_PLACE_SCHEME, strlen(OBJECTS_PLACE_SCHEME)) == 0;
}

static bool is_bucket(const char *text, size_t length)
{
    if (length < 3 || length >= OBJECTS_PLACE_BUCKET || !isalnum((unsigned char)text[0])) return false;
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr(".-_", text[i]) == NULL) return false;
        if (i > 0 && text[i] == '.' && text[i - 1] == '.') return false;
    }
    return isalnum((unsigned char)text[length - 1]);
}

static bool is_key(const char *text, size_t length)
{
    size_t part = 0;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && text[i] != '/') {
            if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
            part++;
            continue;
        }
        const char *begin = text + i - part;
        if (part == 0 || (part == 1 && begin[0] == '.') || (part == 2 && begin[0] == '.' && begin[1] == '.'))
            return false;
        part = 0;
    }
    return true;
}

enum status objects_place_read(const char *text, const char *pointer, struct objects_place *out, struct error *error)
{
    *out = (struct objects_place){.key = ""};
    const bool named = objects_place_is(text) && strlen(text) <= OBJECTS_PLACE_MOST;
    const char *bucket = named ? text + strlen(OBJECTS_PLACE_SCHEME) : "";
    const size_t bucket_length = strcspn(bucket, "/");
    const char *key = bucket + bucket_length + (bucket[bucket_length] == '/');
    size_t key_length = strlen(key);
    while (key_length > 0 && key[key_length - 1] == '/') key_length--;
    if (!is_bucket(bucket, bucket_length) || (key_length > 0 && !is_key(key, key_length)))
        return error_set_at(error, STATUS_INVALID, pointer,
                            "must be a place like s3://BUCKET/PREFIX: a bucket of 3 to 63 letters, digits, \"-\", \"_\""
                            " and \".\", and a prefix without empty parts, \".\" and \"..\"; at most %d bytes",
                            OBJECTS_PLACE_MOST);
    (void)snprintf(out->bucket, sizeof out->bucket, "%.*s", (int)bucket_length, bucket);
    (void)snprintf(out->key, sizeof out->key, "%.*s", (int)key_length, key);
    return STATUS_OK;
}

void objects_place_write(const struct objects_place *place, char *out, size_t size)
{
    (void)snprintf(out, size, OBJECTS_PLACE_SCHEME "%s%s%s", place->bucket, place->key[0] != '\0' ? "/" : "",
                   place->key);
}

bool objects_place_key(const struct objects_place *place, const char *name, char out[OBJECTS_PLACE_KEY])
{
    const int length = snprintf(out, OBJECTS_PLACE_KEY, "%s%s%s", place->key, place->key[0] != '\0' ? "/" : "", name);
    return length < OBJECTS_PLACE_KEY;
}
