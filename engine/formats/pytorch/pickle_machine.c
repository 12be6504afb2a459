#include "formats/pytorch/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECTS_MAX = 1 << 20, ITEMS_MAX = 1 << 22, HEIGHT_MAX = 64 };

enum status pickle_machine_corrupt(const struct pickle *pickle, const char *what)
{
    return error_set(pickle->error, STATUS_CORRUPT, "%s: byte %zu of the pickle: %s", pickle->name, pickle->at, what);
}

enum status pickle_machine_too_large(const struct pickle *pickle, const char *what, size_t most)
{
    return error_set(pickle->error, STATUS_TOO_LARGE, "%s: byte %zu of the pickle: more than %zu %s", pickle->name,
                     pickle->at, most, what);
}

/* ---- Bytes ---- */

enum status pickle_machine_take(struct pickle *pickle, size_t size, const uint8_t **out)
{
    if (size > pickle->size - pickle->at) return pickle_machine_corrupt(pickle, "the pickle ends early");
    *out = (const uint8_t *)pickle->bytes + pickle->at;
    pickle->at += size;
    return STATUS_OK;
}

enum status pickle_machine_number(struct pickle *pickle, size_t width, uint64_t *out)
{
    const uint8_t *bytes = NULL;
    const enum status status = pickle_machine_take(pickle, width, &bytes);
    *out = 0;
    for (size_t i = 0; status == STATUS_OK && i < width; i++) *out |= (uint64_t)bytes[i] << 8 * i;
    return status;
}

enum status pickle_machine_counted(struct pickle *pickle, size_t width, struct pickle_string *out)
{
    uint64_t size;
    const uint8_t *bytes = NULL;
    enum status status = pickle_machine_number(pickle, width, &size);
    if (status == STATUS_OK) status = pickle_machine_take(pickle, size, &bytes);
    *out = (struct pickle_string){(const char *)bytes, (size_t)size};
    return status;
}

/* ---- Values ---- */

enum status pickle_machine_push(struct pickle *pickle, struct values *to, struct pickle_value value, size_t most,
                                const char *what)
{
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity ? 2 * to->capacity : 256;
        if (to->count >= most) return pickle_machine_too_large(pickle, what, most);
        struct pickle_value *values = realloc(to->values, capacity * sizeof *values);
        if (values == NULL) return error_set(pickle->error, STATUS_NO_MEMORY, "cannot allocate the values of a pickle");
        to->values = values;
        to->capacity = capacity;
    }
    to->values[to->count++] = value;
    return STATUS_OK;
}

enum status pickle_machine_push_value(struct pickle *pickle, struct pickle_value value)
{
    return pickle_machine_push(pickle, &pickle->stack, value, PICKLE_MACHINE_STACK, "values on the stack");
}

enum status pickle_machine_push_kind(struct pickle *pickle, enum pickle_kind kind, int64_t number)
{
    return pickle_machine_push_value(pickle, (struct pickle_value){.kind = (uint8_t)kind, .number = number});
}

enum status pickle_machine_pop(struct pickle *pickle, struct pickle_value *out)
{
    if (pickle->stack.count == 0) return pickle_machine_corrupt(pickle, "the stack is empty");
    *out = pickle->stack.values[pickle->stack.count - 1];
    if (out->kind == PICKLE_MARK) return pickle_machine_corrupt(pickle, "a mark where a value is expected");
    pickle->stack.count--;
    return STATUS_OK;
}

enum status pickle_machine_pop_mark(struct pickle *pickle, const struct pickle_value **first, size_t *count)
{
    size_t at = pickle->stack.count;
    while (at > 0 && pickle->stack.values[at - 1].kind != PICKLE_MARK) at--;
    if (at == 0) return pickle_machine_corrupt(pickle, "there is no mark");
    *first = &pickle->stack.values[at];
    *count = pickle->stack.count - at;
    pickle->stack.count = at - 1;
    return STATUS_OK;
}

bool pickle_machine_is_object(struct pickle_value value)
{
    return value.kind == PICKLE_TUPLE || value.kind == PICKLE_DICT || value.kind == PICKLE_CALL ||
           value.kind == PICKLE_PERSISTENT || (value.kind == PICKLE_OTHER && value.index != UINT32_MAX);
}

enum status pickle_machine_object(struct pickle *pickle, enum pickle_kind kind, struct pickle_value *out)
{
    if (pickle->object_count == pickle->object_capacity) {
        const size_t capacity = pickle->object_capacity ? 2 * pickle->object_capacity : 256;
        if (pickle->object_count >= OBJECTS_MAX) return pickle_machine_too_large(pickle, "objects", OBJECTS_MAX);
        struct object *objects = realloc(pickle->objects, capacity * sizeof *objects);
        if (objects == NULL)
            return error_set(pickle->error, STATUS_NO_MEMORY, "cannot allocate the objects of a pickle");
        pickle->objects = objects;
        pickle->object_capacity = capacity;
    }
    *out = (struct pickle_value){.kind = (uint8_t)kind, .index = (uint32_t)pickle->object_count};
    pickle->objects[pickle->object_count++] = (struct object){.kind = (uint8_t)kind};
    return STATUS_OK;
}

enum status pickle_machine_insert(struct pickle *pickle, uint32_t index, const struct pickle_value *values,
                                  size_t count, bool keep)
{
    struct object *object = &pickle->objects[index];
    if (object->used)
        return pickle_machine_corrupt(pickle,
                                      "an object changes after it became part of another, as one that contains itself");
    for (size_t i = 0; i < count; i++) {
        if (!pickle_machine_is_object(values[i])) continue;
        struct object *part = &pickle->objects[values[i].index];
        if (part == object) return pickle_machine_corrupt(pickle, "an object contains itself");
        part->used = true;
        if (part->height >= object->height) object->height = (uint8_t)(part->height + 1);
        if (object->height > HEIGHT_MAX) return pickle_machine_too_large(pickle, "levels of nesting", HEIGHT_MAX);
    }
    if (!keep || count == 0) return STATUS_OK;
    if (count > ITEMS_MAX - pickle->item_count) return pickle_machine_too_large(pickle, "items", ITEMS_MAX);
    pickle->item_count += count;
    if (count > object->capacity - object->count) {
        const size_t needed = object->count + count, doubled = 2 * (size_t)object->capacity;
        const size_t capacity = needed > doubled ? needed : doubled;
        struct pickle_value *items = realloc(object->items, capacity * sizeof *items);
        if (items == NULL) return error_set(pickle->error, STATUS_NO_MEMORY, "cannot allocate the items of a pickle");
        object->items = items;
        object->capacity = (uint32_t)capacity;
    }
    memcpy(object->items + object->count, values, count * sizeof *values);
    object->count += (uint32_t)count;
    return STATUS_OK;
}

enum status pickle_machine_push_object(struct pickle *pickle, enum pickle_kind kind, const struct pickle_value *values,
                                       size_t count)
{
    struct pickle_value value;
    enum status status = pickle_machine_object(pickle, kind, &value);
    if (status == STATUS_OK) status = pickle_machine_insert(pickle, value.index, values, count, kind != PICKLE_OTHER);
    return status == STATUS_OK ? pickle_machine_push_value(pickle, value) : status;
}

bool pickle_machine_same(struct pickle_string text, const char *literal)
{
    return text.size == strlen(literal) && memcmp(text.bytes, literal, text.size) == 0;
}
