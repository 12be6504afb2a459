#include "formats/pytorch/pickle_steps.h"

#include <string.h>

enum { NAME_MAX_BYTES = 200 }; /* of a module, of a name in it */

typedef enum status step(struct pickle *pickle);

static enum status step_stop(struct pickle *pickle)
{
    const enum status status = pickle_machine_pop(pickle, &pickle->root);
    if (status != STATUS_OK) return status;
    if (pickle->stack.count != 0) return pickle_machine_corrupt(pickle, "values are left on the stack at the end");
    if (pickle->at != pickle->size) return pickle_machine_corrupt(pickle, "bytes follow the end");
    pickle->stopped = true;
    return STATUS_OK;
}

static enum status step_frame(struct pickle *pickle)
{
    uint64_t size;
    const enum status status = pickle_machine_number(pickle, 8, &size);
    if (status != STATUS_OK) return status;
    return size <= pickle->size - pickle->at ? STATUS_OK
                                             : pickle_machine_corrupt(pickle, "a frame is longer than the pickle");
}

static enum status step_mark(struct pickle *pickle)
{
    return pickle_machine_push_kind(pickle, PICKLE_MARK, 0);
}

static enum status step_pop(struct pickle *pickle)
{
    struct pickle_value value;
    return pickle_machine_pop(pickle, &value);
}

static enum status step_pop_mark(struct pickle *pickle)
{
    const struct pickle_value *first;
    size_t count;
    return pickle_machine_pop_mark(pickle, &first, &count);
}

static enum status step_none(struct pickle *pickle)
{
    return pickle_machine_push_kind(pickle, PICKLE_NONE, 0);
}

static enum status step_true(struct pickle *pickle)
{
    return pickle_machine_push_kind(pickle, PICKLE_BOOL, 1);
}

static enum status step_false(struct pickle *pickle)
{
    return pickle_machine_push_kind(pickle, PICKLE_BOOL, 0);
}

static enum status push_number(struct pickle *pickle, size_t width)
{
    uint64_t number;
    const enum status status = pickle_machine_number(pickle, width, &number);
    return status == STATUS_OK
               ? pickle_machine_push_kind(pickle, PICKLE_INT, width == 4 ? (int32_t)number : (int64_t)number)
               : status;
}

static enum status step_int1(struct pickle *pickle)
{
    return push_number(pickle, 1);
}

static enum status step_int2(struct pickle *pickle)
{
    return push_number(pickle, 2);
}

static enum status step_int4(struct pickle *pickle)
{
    return push_number(pickle, 4);
}

/* Pushes a value whose content is not kept. */
static enum status push_other(struct pickle *pickle)
{
    return pickle_machine_push_value(pickle, (struct pickle_value){.kind = PICKLE_OTHER, .index = UINT32_MAX});
}

/* A signed number of up to 255 bytes; those beyond 64 bits are states of random generators. */
static enum status step_long1(struct pickle *pickle)
{
    struct pickle_string digits;
    const enum status status = pickle_machine_counted(pickle, 1, &digits);
    if (status != STATUS_OK) return status;
    if (digits.size > 8) return push_other(pickle);
    uint64_t number = digits.size > 0 && (int8_t)digits.bytes[digits.size - 1] < 0 ? UINT64_MAX : 0;
    for (size_t i = digits.size; i-- > 0;) number = number << 8 | (uint8_t)digits.bytes[i];
    return pickle_machine_push_kind(pickle, PICKLE_INT, (int64_t)number);
}

static enum status step_float(struct pickle *pickle)
{
    const uint8_t *bytes;
    const enum status status = pickle_machine_take(pickle, 8, &bytes);
    return status == STATUS_OK ? push_other(pickle) : status;
}

static enum status push_text(struct pickle *pickle, size_t width)
{
    struct pickle_string text;
    const enum status status = pickle_machine_counted(pickle, width, &text);
    if (status != STATUS_OK) return status;
    return pickle_machine_push_value(pickle, (struct pickle_value){.kind = PICKLE_TEXT,
                                                                   .index = (uint32_t)(pickle->at - text.size),
                                                                   .number = (int64_t)text.size});
}

static enum status step_text1(struct pickle *pickle)
{
    return push_text(pickle, 1);
}

static enum status step_text4(struct pickle *pickle)
{
    return push_text(pickle, 4);
}

static enum status skip_bytes(struct pickle *pickle, size_t width)
{
    struct pickle_string bytes;
    const enum status status = pickle_machine_counted(pickle, width, &bytes);
    return status == STATUS_OK ? push_other(pickle) : status;
}

static enum status step_bytes1(struct pickle *pickle)
{
    return skip_bytes(pickle, 1);
}

static enum status step_bytes4(struct pickle *pickle)
{
    return skip_bytes(pickle, 4);
}

static enum status step_empty_tuple(struct pickle *pickle)
{
    return pickle_machine_push_object(pickle, PICKLE_TUPLE, NULL, 0);
}

static enum status step_empty_dict(struct pickle *pickle)
{
    return pickle_machine_push_object(pickle, PICKLE_DICT, NULL, 0);
}

static enum status step_empty_other(struct pickle *pickle)
{
    return pickle_machine_push_object(pickle, PICKLE_OTHER, NULL, 0);
}

static enum status step_tuple(struct pickle *pickle)
{
    const struct pickle_value *first;
    size_t count;
    const enum status status = pickle_machine_pop_mark(pickle, &first, &count);
    return status == STATUS_OK ? pickle_machine_push_object(pickle, PICKLE_TUPLE, first, count) : status;
}

static enum status short_tuple(struct pickle *pickle, size_t count)
{
    struct pickle_value values[3];
    enum status status = STATUS_OK;
    for (size_t i = count; i-- > 0 && status == STATUS_OK;) status = pickle_machine_pop(pickle, &values[i]);
    return status == STATUS_OK ? pickle_machine_push_object(pickle, PICKLE_TUPLE, values, count) : status;
}

static enum status step_tuple1(struct pickle *pickle)
{
    return short_tuple(pickle, 1);
}

static enum status step_tuple2(struct pickle *pickle)
{
    return short_tuple(pickle, 2);
}

static enum status step_tuple3(struct pickle *pickle)
{
    return short_tuple(pickle, 3);
}

/* Puts values into the object on top of the stack. */
static enum status fill(struct pickle *pickle, const struct pickle_value *values, size_t count, bool pairs)
{
    if (pickle->stack.count == 0) return pickle_machine_corrupt(pickle, "the stack is empty");
    const struct pickle_value target = pickle->stack.values[pickle->stack.count - 1];
    const bool dict = target.kind == PICKLE_DICT, call = target.kind == PICKLE_CALL;
    if (pairs && !dict && !call) return pickle_machine_corrupt(pickle, "keys for something that is no dict");
    if (!pairs && !call && !(target.kind == PICKLE_OTHER && pickle_machine_is_object(target)))
        return pickle_machine_corrupt(pickle, "items for something that is no list");
    if (pairs && count % 2 != 0) return pickle_machine_corrupt(pickle, "a key without a value");
    return pickle_machine_insert(pickle, target.index, values, count, dict);
}

static enum status step_append(struct pickle *pickle)
{
    struct pickle_value value;
    const enum status status = pickle_machine_pop(pickle, &value);
    return status == STATUS_OK ? fill(pickle, &value, 1, false) : status;
}

static enum status step_appends(struct pickle *pickle)
{
    const struct pickle_value *first;
    size_t count;
    const enum status status = pickle_machine_pop_mark(pickle, &first, &count);
    return status == STATUS_OK ? fill(pickle, first, count, false) : status;
}

static enum status step_setitem(struct pickle *pickle)
{
    struct pickle_value pair[2];
    enum status status = pickle_machine_pop(pickle, &pair[1]);
    if (status == STATUS_OK) status = pickle_machine_pop(pickle, &pair[0]);
    return status == STATUS_OK ? fill(pickle, pair, 2, true) : status;
}

static enum status step_setitems(struct pickle *pickle)
{
    const struct pickle_value *first;
    size_t count;
    const enum status status = pickle_machine_pop_mark(pickle, &first, &count);
    return status == STATUS_OK ? fill(pickle, first, count, true) : status;
}

/* The state of an object is dropped, but it may not contain the object. */
static enum status step_build(struct pickle *pickle)
{
    struct pickle_value state;
    const enum status status = pickle_machine_pop(pickle, &state);
    if (status != STATUS_OK) return status;
    if (pickle->stack.count == 0) return pickle_machine_corrupt(pickle, "the stack is empty");
    const struct pickle_value target = pickle->stack.values[pickle->stack.count - 1];
    if (target.kind != PICKLE_DICT && target.kind != PICKLE_CALL)
        return pickle_machine_corrupt(pickle, "a state for something that has none");
    return pickle_machine_insert(pickle, target.index, &state, 1, false);
}

/* Copies a name for messages without bytes that a log or document cannot hold. */
static void show(struct pickle_string name, char *out, size_t size)
{
    size_t i = 0;
    for (; i < name.size && i + 1 < size; i++)
        out[i] = (char)(name.bytes[i] < ' ' || name.bytes[i] > '~' || name.bytes[i] == '"' ? '?' : name.bytes[i]);
    out[i] = '\0';
}

static enum status push_global(struct pickle *pickle, struct pickle_string module, struct pickle_string name)
{
    char shown_module[80], shown_name[80];
    show(module, shown_module, sizeof shown_module);
    show(name, shown_name, sizeof shown_name);
    for (size_t i = 0; i < pickle->global_count; i++) {
        const struct pickle_global *global = &pickle->globals[i];
        if (!pickle_machine_same(module, global->module) || !pickle_machine_same(name, global->name)) continue;
        if (global->rule != PICKLE_RULE_REFUSE)
            return pickle_machine_push_value(pickle,
                                             (struct pickle_value){.kind = PICKLE_GLOBAL, .index = (uint32_t)i});
        return error_set(pickle->error, STATUS_UNSUPPORTED, "%s: the pickle names %s.%s: %s", pickle->name,
                         shown_module, shown_name, global->advice);
    }
    return error_set(
        pickle->error, STATUS_UNSUPPORTED,
        "%s: byte %zu of the pickle names %s.%s, which is refused: nothing in a checkpoint is imported or executed,"
        " and only "
        "what tensors need is read; save model.state_dict() alone, or as safetensors",
        pickle->name, pickle->at, shown_module, shown_name);
}

static enum status take_line(struct pickle *pickle, struct pickle_string *out)
{
    const char *from = pickle->bytes + pickle->at;
    const char *end = memchr(from, '\n', pickle->size - pickle->at);
    if (end == NULL || end - from > NAME_MAX_BYTES) return pickle_machine_corrupt(pickle, "a name without an end");
    *out = (struct pickle_string){from, (size_t)(end - from)};
    pickle->at += out->size + 1;
    return STATUS_OK;
}

static enum status step_global(struct pickle *pickle)
{
    struct pickle_string module, name;
    enum status status = take_line(pickle, &module);
    if (status == STATUS_OK) status = take_line(pickle, &name);
    return status == STATUS_OK ? push_global(pickle, module, name) : status;
}

static enum status step_stack_global(struct pickle *pickle)
{
    struct pickle_value module, name;
    enum status status = pickle_machine_pop(pickle, &name);
    if (status == STATUS_OK) status = pickle_machine_pop(pickle, &module);
    if (status != STATUS_OK) return status;
    if (module.kind != PICKLE_TEXT || name.kind != PICKLE_TEXT)
        return pickle_machine_corrupt(pickle, "a name that is no text");
    return push_global(pickle, pickle_text(pickle, module), pickle_text(pickle, name));
}

/* REDUCE and NEWOBJ: records the callable and its arguments; calls nothing. */
static enum status step_call(struct pickle *pickle)
{
    struct pickle_value arguments, callable, value;
    enum status status = pickle_machine_pop(pickle, &arguments);
    if (status == STATUS_OK) status = pickle_machine_pop(pickle, &callable);
    if (status != STATUS_OK) return status;
    if (callable.kind != PICKLE_GLOBAL) return pickle_machine_corrupt(pickle, "a call of something that is no name");
    if (arguments.kind != PICKLE_TUPLE) return pickle_machine_corrupt(pickle, "a call without a tuple of arguments");
    const struct pickle_list items = pickle_items(pickle, arguments);
    const bool dict = pickle->globals[callable.index].rule == PICKLE_RULE_DICT && items.count == 0;
    if ((status = pickle_machine_object(pickle, dict ? PICKLE_DICT : PICKLE_CALL, &value)) != STATUS_OK) return status;
    pickle->objects[value.index].global = callable.index;
    if (!dict) status = pickle_machine_insert(pickle, value.index, items.values, (size_t)items.count, true);
    return status == STATUS_OK ? pickle_machine_push_value(pickle, value) : status;
}

static enum status step_persistent(struct pickle *pickle)
{
    struct pickle_value name;
    const enum status status = pickle_machine_pop(pickle, &name);
    return status == STATUS_OK ? pickle_machine_push_object(pickle, PICKLE_PERSISTENT, &name, 1) : status;
}

static enum status memo_get(struct pickle *pickle, size_t width)
{
    uint64_t index;
    const enum status status = pickle_machine_number(pickle, width, &index);
    if (status != STATUS_OK) return status;
    if (index >= pickle->memo.count) return pickle_machine_corrupt(pickle, "a memo that was not written");
    return pickle_machine_push_value(pickle, pickle->memo.values[index]);
}

/* Memos must be numbered in order, so that a memo takes no more memory than its own bytes. */
static enum status memo_put(struct pickle *pickle, uint64_t index)
{
    if (pickle->stack.count == 0) return pickle_machine_corrupt(pickle, "the stack is empty");
    const struct pickle_value value = pickle->stack.values[pickle->stack.count - 1];
    if (value.kind == PICKLE_MARK) return pickle_machine_corrupt(pickle, "a mark where a value is expected");
    if (index > pickle->memo.count) return pickle_machine_corrupt(pickle, "memos are not numbered in order");
    if (index == pickle->memo.count)
        return pickle_machine_push(pickle, &pickle->memo, value, PICKLE_MACHINE_MEMOS, "memos");
    pickle->memo.values[index] = value;
    return STATUS_OK;
}

static enum status step_get1(struct pickle *pickle)
{
    return memo_get(pickle, 1);
}

static enum status step_get4(struct pickle *pickle)
{
    return memo_get(pickle, 4);
}

static enum status step_put1(struct pickle *pickle)
{
    uint64_t index;
    const enum status status = pickle_machine_number(pickle, 1, &index);
    return status == STATUS_OK ? memo_put(pickle, index) : status;
}

static enum status step_put4(struct pickle *pickle)
{
    uint64_t index;
    const enum status status = pickle_machine_number(pickle, 4, &index);
    return status == STATUS_OK ? memo_put(pickle, index) : status;
}

static enum status step_memoize(struct pickle *pickle)
{
    return memo_put(pickle, pickle->memo.count);
}

/* All opcodes that torch.save writes in protocols 2 to 5. The others are listed to be refused by name: they belong to
 * protocols 0 and 1, run code, or exist for buffers outside the pickle. */
static const struct {
    const char *name;
    step *run; /* NULL: refused */
} opcodes[256] = {
    ['.'] = {"STOP", step_stop},
    [0x95] = {"FRAME", step_frame},
    ['('] = {"MARK", step_mark},
    ['0'] = {"POP", step_pop},
    ['1'] = {"POP_MARK", step_pop_mark},
    ['N'] = {"NONE", step_none},
    [0x88] = {"NEWTRUE", step_true},
    [0x89] = {"NEWFALSE", step_false},
    ['K'] = {"BININT1", step_int1},
    ['M'] = {"BININT2", step_int2},
    ['J'] = {"BININT", step_int4},
    [0x8a] = {"LONG1", step_long1},
    ['G'] = {"BINFLOAT", step_float},
    ['X'] = {"BINUNICODE", step_text4},
    [0x8c] = {"SHORT_BINUNICODE", step_text1},
    ['T'] = {"BINSTRING", step_text4}, /* Python 2's texts */
    ['U'] = {"SHORT_BINSTRING", step_text1},
    ['B'] = {"BINBYTES", step_bytes4},
    ['C'] = {"SHORT_BINBYTES", step_bytes1},
    [')'] = {"EMPTY_TUPLE", step_empty_tuple},
    ['t'] = {"TUPLE", step_tuple},
    [0x85] = {"TUPLE1", step_tuple1},
    [0x86] = {"TUPLE2", step_tuple2},
    [0x87] = {"TUPLE3", step_tuple3},
    [']'] = {"EMPTY_LIST", step_empty_other},
    ['a'] = {"APPEND", step_append},
    ['e'] = {"APPENDS", step_appends},
    [0x8f] = {"EMPTY_SET", step_empty_other},
    [0x90] = {"ADDITEMS", step_appends},
    ['}'] = {"EMPTY_DICT", step_empty_dict},
    ['s'] = {"SETITEM", step_setitem},
    ['u'] = {"SETITEMS", step_setitems},
    ['c'] = {"GLOBAL", step_global},
    [0x93] = {"STACK_GLOBAL", step_stack_global},
    ['R'] = {"REDUCE", step_call},
    [0x81] = {"NEWOBJ", step_call},
    ['b'] = {"BUILD", step_build},
    ['Q'] = {"BINPERSID", step_persistent},
    ['h'] = {"BINGET", step_get1},
    ['j'] = {"LONG_BINGET", step_get4},
    ['q'] = {"BINPUT", step_put1},
    ['r'] = {"LONG_BINPUT", step_put4},
    [0x94] = {"MEMOIZE", step_memoize},
    ['i'] = {"INST", NULL},
    ['o'] = {"OBJ", NULL},
    [0x92] = {"NEWOBJ_EX", NULL},
    [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},
    [0x84] = {"EXT4", NULL},
    ['P'] = {"PERSID", NULL},
    ['2'] = {"DUP", NULL},
    ['F'] = {"FLOAT", NULL},
    ['I'] = {"INT", NULL},
    ['L'] = {"LONG", NULL},
    [0x8b] = {"LONG4", NULL},
    ['S'] = {"STRING", NULL},
    ['V'] = {"UNICODE", NULL},
    [0x8d] = {"BINUNICODE8", NULL},
    [0x8e] = {"BINBYTES8", NULL},
    [0x91] = {"FROZENSET", NULL},
    ['d'] = {"DICT", NULL},
    ['l'] = {"LIST", NULL},
    ['g'] = {"GET", NULL},
    ['p'] = {"PUT", NULL},
    [0x80] = {"PROTO", NULL},
    [0x96] = {"BYTEARRAY8", NULL},
    [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
};

static enum status refuse_opcode(const struct pickle *pickle, uint8_t code)
{
    const char *name = opcodes[code].name;
    if (name == NULL)
        return error_set(pickle->error, STATUS_CORRUPT, "%s: byte %zu of the pickle: 0x%02x is no opcode", pickle->name,
                         pickle->at - 1, code);
    return error_set(pickle->error, STATUS_UNSUPPORTED,
                     "%s: byte %zu of the pickle: opcode %s is refused: torch.save does not write it for tensors",
                     pickle->name, pickle->at - 1, name);
}

enum status pickle_steps_run(struct pickle *pickle, uint8_t code)
{
    return opcodes[code].run != NULL ? opcodes[code].run(pickle) : refuse_opcode(pickle, code);
}
