#include "model/config_text.h"

#include "base/memory.h"
#include "files/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 64, MEMBERS_MAX = 16384 };

struct member {
    char key[KEY_SIZE];
    int text, order;
    bool chosen;
    struct json_reader_text value; /* lent from its text */
};

struct members {
    struct member *list; /* owned */
    int count, capacity;
    size_t bytes; /* of all values and keys, with what stands between */
};

/* Leaves out keys that are longer or have other characters than any key that is read. */
static bool plain_key(struct json_reader_text key)
{
    if (key.size == 0 || key.size >= KEY_SIZE) return false;
    for (size_t i = 0; i < key.size; i++)
        if (key.bytes[i] < ' ' || key.bytes[i] > '~' || key.bytes[i] == '"' || key.bytes[i] == '\\') return false;
    return true;
}

static bool add(struct members *members, struct json_reader *reader, struct json_reader_text key, int text)
{
    struct member *member;
    if (members->count == members->capacity) {
        const int capacity = members->capacity == 0 ? 64 : 2 * members->capacity;
        if (capacity > MEMBERS_MAX) return json_reader_fail(reader, STATUS_INVALID, "more than %d keys", MEMBERS_MAX);
        member = realloc(members->list, (size_t)capacity * sizeof *member);
        if (member == NULL) return json_reader_fail(reader, STATUS_NO_MEMORY, "cannot allocate a configuration");
        members->list = member;
        members->capacity = capacity;
    }
    member = &members->list[members->count];
    *member = (struct member){.text = text, .order = members->count};
    memcpy(member->key, key.bytes, key.size);
    if (!json_reader_skip(reader, &member->value)) return false;
    members->bytes += key.size + member->value.size + sizeof ", \"\": ";
    members->count++;
    return true;
}

static enum status collect(const struct config_text *text, int index, struct members *members, struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct json_reader reader;
    struct json_reader_text key;
    json_reader_init(&reader, text->name, text->text, text->size, &options, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key))
        if (plain_key(key)) add(members, &reader, key, index);
    return json_reader_finish(&reader);
}

/* The key, or the key of which it is another spelling. */
static const char *group_of(const struct member *member)
{
    static const struct {
        const char *key, *group;
    } spellings[] = {{"rope_parameters", "rope_scaling"},
                     {"rotary_emb_base", "rope_theta"},
                     {"rotary_pct", "partial_rotary_factor"}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        if (strcmp(member->key, spellings[i].key) == 0) return spellings[i].group;
    return member->key;
}

/* Orders a group's members by text, the first text first; of one key in a text the last value comes first. */
static int by_group(const void *a, const void *b)
{
    const struct member *first = a, *second = b;
    int order = strcmp(group_of(first), group_of(second));
    if (order == 0) order = first->text - second->text;
    if (order == 0) order = strcmp(first->key, second->key);
    return order != 0 ? order : second->order - first->order;
}

/* Marks the members that are kept; the list is sorted. */
static void choose(struct members *members)
{
    const struct member *head = NULL; /* the first of its group */
    for (int i = 0; i < members->count; i++) {
        struct member *member = &members->list[i], *before = i > 0 ? member - 1 : NULL;
        if (head == NULL || strcmp(group_of(head), group_of(member)) != 0) head = member;
        const bool again = before != NULL && before->text == member->text && strcmp(before->key, member->key) == 0;
        member->chosen = member->text == head->text && !again;
    }
}

/* The members of the most important text are written last, because a reader that knows two names for a setting takes
 * the last one. */
static enum status print(const struct members *members, int texts, char **out, size_t *size, struct error *error)
{
    char *text = NULL;
    size_t used = 0;
    const enum status status = memory_new((int64_t)members->bytes + 8, 1, "configuration", &text, error);
    if (status != STATUS_OK) return status;
    for (int from = texts - 1; from >= 0; from--)
        for (int i = 0; i < members->count; i++) {
            const struct member *member = &members->list[i];
            if (!member->chosen || member->text != from) continue;
            used += (size_t)snprintf(text + used, members->bytes + 8 - used, "%s\"%s\": ", used == 0 ? "{" : ", ",
                                     member->key);
            memcpy(text + used, member->value.bytes, member->value.size);
            used += member->value.size;
        }
    if (used == 0) text[used++] = '{';
    text[used++] = '}';
    *out = text;
    *size = used;
    return STATUS_OK;
}

enum status config_text_merge(const struct config_text *texts, int count, char **out, size_t *size, struct error *error)
{
    struct members members = {0};
    enum status status = STATUS_OK;
    *out = NULL;
    *size = 0;
    for (int i = 0; i < count && status == STATUS_OK; i++) status = collect(&texts[i], i, &members, error);
    if (members.count > 0) qsort(members.list, (size_t)members.count, sizeof *members.list, by_group);
    choose(&members);
    if (status == STATUS_OK) status = print(&members, count, out, size, error);
    free(members.list);
    return status;
}
