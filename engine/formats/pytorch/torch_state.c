#include "formats/pytorch/torch_state.h"

#include "base/memory.h"
#include "formats/pytorch/torch_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { LEVELS = 4, WRAPS = 4, NAME_BYTES_MAX = 1000, KEY_BYTES_MAX = 64, SHOWN = 80 };
#define DIMENSION_MAX (INT64_C(1) << 48)

struct reader {
    const char *file;
    const struct pickle *pickle;
    const struct zip *zip;
    const char *folder;
    struct error *error;
    char tensor[SHOWN + 1]; /* the one being read, for messages */
};

static enum status refuse(const struct reader *reader, enum status status, const char *what)
{
    return error_set(reader->error, status, "%s: tensor \"%s\" %s", reader->file, reader->tensor, what);
}

static bool names_function(const struct reader *reader, struct pickle_value value, int meaning)
{
    return value.kind == PICKLE_CALL && pickle_name(reader->pickle, value)->meaning == meaning;
}

/* ---- One tensor ---- */

/* Whether `value` is a tensor, possibly wrapped in parameters and subclasses. *typed: its dtype is an argument;
 * *arguments: those of the function that rebuilds it. */
static bool tensor_arguments(const struct reader *reader, struct pickle_value value, bool *typed,
                             struct pickle_list *arguments)
{
    int meaning = TORCH_PASSED_OVER;
    for (int level = 0; level < WRAPS && value.kind == PICKLE_CALL; level++) {
        meaning = pickle_name(reader->pickle, value)->meaning;
        *arguments = pickle_items(reader->pickle, value);
        if (meaning == TORCH_REBUILD_FROM_TYPE && arguments->count >= 3 && arguments->values[0].kind == PICKLE_GLOBAL &&
            arguments->values[2].kind == PICKLE_TUPLE) {
            meaning = pickle_name(reader->pickle, arguments->values[0])->meaning;
            *arguments = pickle_items(reader->pickle, arguments->values[2]);
        }
        if (meaning != TORCH_REBUILD_PARAMETER || arguments->count < 1) break;
        value = arguments->values[0];
    }
    *typed = meaning == TORCH_REBUILD_TYPED;
    return meaning == TORCH_REBUILD_TENSOR || meaning == TORCH_REBUILD_TYPED;
}

/* A tuple of numbers, or a torch.Size of such a tuple. */
static bool read_numbers(const struct reader *reader, struct pickle_value value, int64_t out[STRIDED_RANK_MAX],
                         int *count)
{
    if (names_function(reader, value, TORCH_SIZE)) {
        const struct pickle_list arguments = pickle_items(reader->pickle, value);
        if (arguments.count != 1) return false;
        value = arguments.values[0];
    }
    const struct pickle_list numbers = pickle_items(reader->pickle, value);
    if (value.kind != PICKLE_TUPLE || numbers.count > STRIDED_RANK_MAX) return false;
    for (int64_t i = 0; i < numbers.count; i++) {
        if (numbers.values[i].kind != PICKLE_INT) return false;
        out[i] = numbers.values[i].number;
    }
    *count = (int)numbers.count;
    return true;
}

/* The five parts of a storage, ("storage", type, key, device, numbers). */
static enum status storage_parts(const struct reader *reader, struct pickle_value value, struct pickle_list *parts)
{
    const struct pickle_list outer = pickle_items(reader->pickle, value);
    if (value.kind != PICKLE_PERSISTENT || outer.count != 1 || outer.values[0].kind != PICKLE_TUPLE)
        return refuse(reader, STATUS_CORRUPT, "has no storage");
    *parts = pickle_items(reader->pickle, outer.values[0]);
    if (parts->count != 5 || !pickle_is(reader->pickle, parts->values[0], "storage") ||
        parts->values[1].kind != PICKLE_GLOBAL || parts->values[2].kind != PICKLE_TEXT ||
        parts->values[3].kind != PICKLE_TEXT || parts->values[4].kind != PICKLE_INT)
        return refuse(reader, STATUS_CORRUPT, "has a storage that is not described as torch.save does");
    return STATUS_OK;
}

/* The entry of the archive that holds the storage `key`. */
static enum status storage_entry(const struct reader *reader, struct pickle_string key, const struct zip_entry **out)
{
    char path[SHOWN + KEY_BYTES_MAX + 512];
    if (key.size == 0 || key.size > KEY_BYTES_MAX || memchr(key.bytes, '/', key.size) != NULL ||
        memchr(key.bytes, '\0', key.size) != NULL)
        return refuse(reader, STATUS_CORRUPT, "has a storage whose key is no plain name");
    (void)snprintf(path, sizeof path, "%.512s/data/%.*s", reader->folder, (int)key.size, key.bytes);
    *out = zip_find(reader->zip, path);
    return *out != NULL ? STATUS_OK : refuse(reader, STATUS_CORRUPT, "has a storage that is not in the archive");
}

/* ("storage", type, key, device, numbers): sets the place of the storage, its bytes, and the dtype of a typed
 * storage. */
static enum status read_storage(const struct reader *reader, struct pickle_value value, bool typed,
                                struct torch_tensor *out, int64_t *bytes)
{
    struct pickle_list parts = {0};
    const struct zip_entry *entry = NULL;
    enum status status = storage_parts(reader, value, &parts);
    if (status != STATUS_OK) return status;
    const int meaning = pickle_name(reader->pickle, parts.values[1])->meaning;
    if (typed ? meaning != TORCH_BYTES : meaning < TORCH_STORAGE || meaning > TORCH_STORAGE + DTYPE_COUNT)
        return refuse(reader, STATUS_CORRUPT, "has a storage of no type");
    if (!typed) out->dtype = (enum dtype)(meaning - TORCH_STORAGE);
    if (out->dtype == DTYPE_COUNT) return refuse(reader, STATUS_UNSUPPORTED, "has complex numbers");
    status = storage_entry(reader, pickle_text(reader->pickle, parts.values[2]), &entry);
    if (status != STATUS_OK) return status;
    const int64_t width = typed ? 1 : (int64_t)dtype_info(out->dtype)->bits / 8;
    const int64_t numbers = parts.values[4].number;
    if (numbers < 0 || numbers > entry->bytes / width || numbers * width != entry->bytes)
        return refuse(reader, STATUS_CORRUPT, "has a storage of another size than its entry of the archive");
    out->offset = entry->offset;
    *bytes = entry->bytes;
    return STATUS_OK;
}

/* Checks that every element lies inside the storage, and that no dimension repeats its elements (stride 0). */
static enum status check_extent(const struct reader *reader, struct torch_tensor *tensor, int64_t first, int64_t stored)
{
    int64_t last = first;
    bool fits = first >= 0 && first <= stored;
    tensor->elements = 1;
    for (int i = 0; i < tensor->rank && fits; i++) {
        fits = tensor->shape[i] >= 0 && tensor->shape[i] < DIMENSION_MAX && tensor->stride[i] >= 0 &&
               !__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements);
    }
    for (int i = 0; i < tensor->rank && fits && tensor->elements > 0; i++) {
        int64_t reach;
        if (tensor->shape[i] > 1 && tensor->stride[i] == 0)
            return refuse(reader, STATUS_UNSUPPORTED,
                          "repeats its elements (stride 0, as expand makes them); save tensor.contiguous()");
        fits = !__builtin_mul_overflow(tensor->shape[i] - 1, tensor->stride[i], &reach) &&
               !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits || tensor->elements > stored || (tensor->elements > 0 && last >= stored))
        return refuse(reader, STATUS_CORRUPT, "reaches beyond its storage");
    return STATUS_OK;
}

static enum status read_tensor(const struct reader *reader, bool typed, struct pickle_list arguments,
                               struct torch_tensor *out)
{
    int64_t bytes = 0;
    int strides = 0;
    if (arguments.count < (typed ? 7 : 4) || arguments.values[1].kind != PICKLE_INT ||
        !read_numbers(reader, arguments.values[2], out->shape, &out->rank) ||
        !read_numbers(reader, arguments.values[3], out->stride, &strides) || strides != out->rank)
        return refuse(reader, STATUS_CORRUPT, "is not described as torch.save does, or has more than 8 dimensions");
    if (typed) {
        const struct pickle_value dtype = arguments.values[6];
        const int meaning =
            dtype.kind == PICKLE_GLOBAL ? pickle_name(reader->pickle, dtype)->meaning : TORCH_PASSED_OVER;
        if (meaning < TORCH_DTYPE || meaning > TORCH_DTYPE + DTYPE_COUNT)
            return refuse(reader, STATUS_CORRUPT, "has no dtype");
        out->dtype = (enum dtype)(meaning - TORCH_DTYPE);
    }
    const int extra = typed ? 7 : 6; /* bits that say "conjugated" or "negated" */
    if (arguments.count > extra && pickle_items(reader->pickle, arguments.values[extra]).count > 0)
        return refuse(reader, STATUS_UNSUPPORTED, "is a conjugated or negated view; save tensor.contiguous()");
    const enum status status = read_storage(reader, arguments.values[0], typed, out, &bytes);
    if (status != STATUS_OK) return status;
    const int64_t width = (int64_t)dtype_info(out->dtype)->bits / 8, first = arguments.values[1].number;
    const enum status inside = check_extent(reader, out, first, bytes / width);
    if (inside == STATUS_OK) out->offset += first * width;
    return inside;
}

/* ---- The state dict in the pickle ---- */

static bool holds_tensors(const struct reader *reader, struct pickle_value dict)
{
    const struct pickle_list items = pickle_items(reader->pickle, dict);
    struct pickle_list arguments;
    bool typed;
    for (int64_t i = 0; i + 1 < items.count; i += 2)
        if (tensor_arguments(reader, items.values[i + 1], &typed, &arguments)) return true;
    return false;
}

static int64_t find(const struct reader *reader, struct pickle_list items, const char *key)
{
    for (int64_t i = 0; i + 1 < items.count; i += 2)
        if (pickle_is(reader->pickle, items.values[i], key)) return i + 1;
    return -1;
}

static enum status no_state(const struct reader *reader, struct pickle_list items)
{
    char keys[200] = "";
    size_t used = 0;
    for (int64_t i = 0; i + 1 < items.count && used < sizeof keys; i += 2) {
        if (items.values[i].kind != PICKLE_TEXT) continue;
        const struct pickle_string key = pickle_text(reader->pickle, items.values[i]);
        bool plain = key.size < 40;
        for (size_t c = 0; c < key.size && plain; c++) plain = key.bytes[c] >= ' ' && key.bytes[c] <= '~';
        if (plain)
            used +=
                (size_t)snprintf(keys + used, sizeof keys - used, "%s%.*s", used ? ", " : "", (int)key.size, key.bytes);
    }
    return error_set(
        reader->error, STATUS_INVALID,
        "%s: no state dict in it (found: %s); expected a dict of tensors, alone or as \"state_dict\" or \"model\"",
        reader->file, keys[0] ? keys : "nothing that has a name");
}

/* Searches from the root for the dict of tensors. A training state may hold other tensors too, such as states of random
 * generators, so names that trainers give to the weights are tried first. */
static enum status find_state(const struct reader *reader, struct pickle_value *out, bool *lightning)
{
    static const char *const names[] = {"state_dict", "model_state_dict", "model_state", "model", "module",
                                        "net",        "weights"};
    struct pickle_value dict = pickle_root(reader->pickle);
    *lightning = false;
    for (int level = 0; level < LEVELS; level++) {
        const struct pickle_list items = pickle_items(reader->pickle, dict);
        int64_t next = -1;
        bool next_holds = false;
        if (dict.kind != PICKLE_DICT) return no_state(reader, (struct pickle_list){NULL, 0});
        *lightning |= find(reader, items, "pytorch-lightning_version") >= 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            const int64_t at = find(reader, items, names[i]);
            if (at < 0 || items.values[at].kind != PICKLE_DICT) continue;
            const bool holds = holds_tensors(reader, items.values[at]);
            if (next_holds && holds)
                return error_set(reader->error, STATUS_INVALID,
                                 "%s: two state dicts in it, \"%s\" and another; save the one to measure alone",
                                 reader->file, names[i]);
            if (next < 0 || (holds && !next_holds)) next = at;
            next_holds |= holds;
        }
        if (next < 0) {
            *out = dict;
            return holds_tensors(reader, dict) ? STATUS_OK : no_state(reader, items);
        }
        dict = items.values[next];
    }
    return no_state(reader, (struct pickle_list){NULL, 0});
}

/* ---- Names ---- */

static bool sound_name(struct pickle_string name)
{
    if (name.size == 0 || name.size > NAME_BYTES_MAX) return false;
    for (size_t at = 0; at < name.size;) {
        utf8proc_int32_t code;
        const utf8proc_ssize_t size =
            utf8proc_iterate((const utf8proc_uint8_t *)name.bytes + at, (utf8proc_ssize_t)(name.size - at), &code);
        if (size < 1 || code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
        at += (size_t)size;
    }
    return true;
}

/* Components that wrappers insert anywhere in a name, and those that they put in front. */
static const char *const inserted[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                       "_forward_module."};
static const char *const leading[] = {"module."};

static bool take_off(char *at, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(list[i]);
        if (strncmp(at, list[i], size) != 0) continue;
        memmove(at, at + size, strlen(at + size) + 1);
        return true;
    }
    return false;
}

static void strip(char *name)
{
    while (take_off(name, inserted, sizeof inserted / sizeof inserted[0]) ||
           take_off(name, leading, sizeof leading / sizeof leading[0]))
        continue;
    for (char *at = strchr(name, '.'); at != NULL; at = strchr(at, '.')) {
        at++;
        while (take_off(at, inserted, sizeof inserted / sizeof inserted[0])) continue;
    }
}

/* Removes the attribute of the Lightning module with which its names begin. */
static void strip_attribute(struct torch_state *state)
{
    const char *dot = state->count > 0 ? strchr(state->tensors[0].name, '.') : NULL;
    if (dot == NULL) return;
    const size_t size = (size_t)(dot - state->tensors[0].name) + 1;
    for (int64_t i = 1; i < state->count; i++)
        if (strncmp(state->tensors[i].name, state->tensors[0].name, size) != 0) return;
    for (int64_t i = 0; i < state->count; i++)
        memmove(state->tensors[i].name, state->tensors[i].name + size, strlen(state->tensors[i].name + size) + 1);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct torch_tensor *)a)->name, ((const struct torch_tensor *)b)->name);
}

static enum status finish_names(const struct reader *reader, struct torch_state *state, bool lightning)
{
    for (int64_t i = 0; i < state->count; i++) {
        strip(state->tensors[i].name);
        if (strstr(state->tensors[i].name, "flat_param") != NULL)
            return error_set(reader->error, STATUS_UNSUPPORTED,
                             "%s: tensor \"%.80s\" is a shard of FSDP's flat parameters; gather a full state dict "
                             "(StateDictType.FULL_STATE_DICT) and save that",
                             reader->file, state->tensors[i].name);
    }
    if (lightning) strip_attribute(state);
    if (state->count > 0) qsort(state->tensors, (size_t)state->count, sizeof *state->tensors, by_name);
    for (int64_t i = 0; i < state->count; i++)
        if (state->tensors[i].name[0] == '\0' || (i > 0 && by_name(&state->tensors[i - 1], &state->tensors[i]) == 0))
            return error_set(reader->error, STATUS_CORRUPT, "%s: two tensors are called \"%.80s\"", reader->file,
                             state->tensors[i].name);
    return STATUS_OK;
}

static enum status read_all(struct reader *reader, struct pickle_list items, struct torch_state *out)
{
    struct pickle_list arguments;
    bool typed;
    enum status status =
        memory_new(items.count / 2, sizeof *out->tensors, "list of tensors", &out->tensors, reader->error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i + 1 < items.count; i += 2) {
        if (!tensor_arguments(reader, items.values[i + 1], &typed, &arguments))
            continue; /* states of modules, counters */
        const struct pickle_string key = pickle_text(reader->pickle, items.values[i]);
        if (items.values[i].kind != PICKLE_TEXT || !sound_name(key))
            return error_set(reader->error, STATUS_CORRUPT,
                             "%s: a tensor's name is not UTF-8, empty, too long or has control characters",
                             reader->file);
        struct torch_tensor *tensor = &out->tensors[out->count];
        tensor->name = strndup(key.bytes, key.size);
        if (tensor->name == NULL)
            return error_set(reader->error, STATUS_NO_MEMORY, "cannot allocate the name of a tensor");
        out->count++;
        (void)snprintf(reader->tensor, sizeof reader->tensor, "%.*s", SHOWN, tensor->name);
        if ((status = read_tensor(reader, typed, arguments, tensor)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static int64_t read_count(const struct reader *reader, const char *const *names, size_t count)
{
    const struct pickle_value root = pickle_root(reader->pickle);
    const struct pickle_list items = pickle_items(reader->pickle, root);
    for (size_t i = 0; i < count && root.kind == PICKLE_DICT; i++) {
        const int64_t at = find(reader, items, names[i]);
        if (at >= 0 && items.values[at].kind == PICKLE_INT && items.values[at].number >= 0)
            return items.values[at].number;
    }
    return -1;
}

enum status torch_state_read(const char *name, const struct pickle *pickle, const struct zip *zip, const char *folder,
                             struct torch_state *out, struct error *error)
{
    static const char *const steps[] = {"step", "global_step", "iteration", "iter_num", "iter"};
    static const char *const tokens[] = {"tokens", "tokens_seen", "num_tokens", "num_input_tokens_seen"};
    struct reader reader = {.file = name, .pickle = pickle, .zip = zip, .folder = folder, .error = error};
    struct pickle_value state;
    bool lightning;
    *out = (struct torch_state){.step = -1, .tokens = -1};
    enum status status = find_state(&reader, &state, &lightning);
    if (status == STATUS_OK) status = read_all(&reader, pickle_items(pickle, state), out);
    if (status == STATUS_OK) status = finish_names(&reader, out, lightning);
    if (status != STATUS_OK) return status;
    out->step = read_count(&reader, steps, sizeof steps / sizeof steps[0]);
    out->tokens = read_count(&reader, tokens, sizeof tokens / sizeof tokens[0]);
    return STATUS_OK;
}

void torch_state_reset(struct torch_state *state)
{
    for (int64_t i = 0; i < state->count; i++) free(state->tensors[i].name);
    memory_free(state->tensors);
    *state = (struct torch_state){0};
}
