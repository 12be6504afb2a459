#include "formats/pytorch/pickle_steps.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 50000000 };

static enum status run(struct pickle *pickle)
{
    const uint8_t *code = NULL;
    if (pickle->size < 2 || (uint8_t)pickle->bytes[0] != 0x80 || pickle->bytes[1] < 2 || pickle->bytes[1] > 5)
        return pickle_machine_corrupt(pickle, "it does not begin with protocol 2, 3, 4 or 5");
    pickle->at = 2;
    for (int64_t steps = 0; !pickle->stopped; steps++) {
        enum status status = pickle_machine_take(pickle, 1, &code);
        if (status != STATUS_OK) return status;
        if (steps == STEPS_MAX) return pickle_machine_too_large(pickle, "opcodes", STEPS_MAX);
        status = pickle_steps_run(pickle, *code);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

enum status pickle_read(const char *name, const char *bytes, size_t size, const struct pickle_global *globals,
                        size_t count, struct pickle **out, struct error *error)
{
    *out = NULL;
    if (size > PICKLE_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, "%s: a pickle of %zu bytes, at most %d are accepted", name, size,
                         PICKLE_BYTES_MAX);
    struct pickle *pickle = calloc(1, sizeof *pickle);
    if (pickle == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a pickle");
    *pickle = (struct pickle){
        .name = name, .bytes = bytes, .size = size, .globals = globals, .global_count = count, .error = error};
    const enum status status = run(pickle);
    pickle->error = NULL;
    if (status != STATUS_OK) {
        pickle_free(pickle);
        return status;
    }
    *out = pickle;
    return STATUS_OK;
}

void pickle_free(struct pickle *pickle)
{
    if (pickle == NULL) return;
    for (size_t i = 0; i < pickle->object_count; i++) free(pickle->objects[i].items);
    free(pickle->objects);
    free(pickle->stack.values);
    free(pickle->memo.values);
    free(pickle);
}

struct pickle_value pickle_root(const struct pickle *pickle)
{
    return pickle->root;
}

struct pickle_list pickle_items(const struct pickle *pickle, struct pickle_value value)
{
    if (!pickle_machine_is_object(value)) return (struct pickle_list){NULL, 0};
    const struct object *object = &pickle->objects[value.index];
    return (struct pickle_list){object->items, object->count};
}

struct pickle_string pickle_text(const struct pickle *pickle, struct pickle_value value)
{
    return (struct pickle_string){pickle->bytes + value.index, (size_t)value.number};
}

const struct pickle_global *pickle_name(const struct pickle *pickle, struct pickle_value value)
{
    return &pickle->globals[value.kind == PICKLE_CALL ? pickle->objects[value.index].global : value.index];
}

bool pickle_is(const struct pickle *pickle, struct pickle_value value, const char *literal)
{
    return value.kind == PICKLE_TEXT && pickle_machine_same(pickle_text(pickle, value), literal);
}
