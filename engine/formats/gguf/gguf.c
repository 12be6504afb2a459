#include "formats/gguf/gguf.h"

#include "base/memory.h"
#include "formats/gguf/gguf_cursor.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MAX = 65536,
    TEXT_KEPT = 4096,
    ALIGNMENT = 32,
    ALIGNMENT_MAX = 1 << 20,
    CHUNK_BYTES = 1 << 15,
    HEADER_MIN = 24
};
#define TEXT_MAX      (INT64_C(64) << 20) /* bytes of a text, of an array's items */
#define DIMENSION_MAX (INT64_C(1) << 48)

enum type {
    TYPE_U8,
    TYPE_I8,
    TYPE_U16,
    TYPE_I16,
    TYPE_U32,
    TYPE_I32,
    TYPE_F32,
    TYPE_BOOL,
    TYPE_TEXT,
    TYPE_ARRAY,
    TYPE_U64,
    TYPE_I64,
    TYPE_F64
};

static const struct {
    size_t bytes; /* 0: not of one size */
    bool is_signed;
} types[] = {
    [TYPE_U8] = {1, false},   [TYPE_I8] = {1, true},     [TYPE_U16] = {2, false}, [TYPE_I16] = {2, true},
    [TYPE_U32] = {4, false},  [TYPE_I32] = {4, true},    [TYPE_F32] = {4, true},  [TYPE_BOOL] = {1, false},
    [TYPE_TEXT] = {0, false}, [TYPE_ARRAY] = {0, false}, [TYPE_U64] = {8, false}, [TYPE_I64] = {8, true},
    [TYPE_F64] = {8, true},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* Tensor types by their number in the file. */
static const struct {
    const char *name;
    int dtype; /* -1: not read */
} tensor_types[] = {
    [0] = {"F32", DTYPE_F32},    [1] = {"F16", DTYPE_F16},  [2] = {"Q4_0", DTYPE_Q4_0},  [3] = {"Q4_1", DTYPE_Q4_1},
    [6] = {"Q5_0", -1},          [7] = {"Q5_1", -1},        [8] = {"Q8_0", DTYPE_Q8_0},  [9] = {"Q8_1", -1},
    [10] = {"Q2_K", -1},         [11] = {"Q3_K", -1},       [12] = {"Q4_K", DTYPE_Q4_K}, [13] = {"Q5_K", -1},
    [14] = {"Q6_K", DTYPE_Q6_K}, [15] = {"Q8_K", -1},       [16] = {"IQ2_XXS", -1},      [17] = {"IQ2_XS", -1},
    [18] = {"IQ3_XXS", -1},      [19] = {"IQ1_S", -1},      [20] = {"IQ4_NL", -1},       [21] = {"IQ3_S", -1},
    [22] = {"IQ2_S", -1},        [23] = {"IQ4_XS", -1},     [24] = {"I8", DTYPE_I8},     [25] = {"I16", DTYPE_I16},
    [26] = {"I32", DTYPE_I32},   [27] = {"I64", DTYPE_I64}, [28] = {"F64", DTYPE_F64},   [29] = {"IQ1_M", -1},
    [30] = {"BF16", DTYPE_BF16}, [34] = {"TQ1_0", -1},      [35] = {"TQ2_0", -1},        [39] = {"MXFP4", -1},
};

struct entry {
    char *key, *text; /* owned */
    enum type type;
    int64_t integer;
    double number;
    struct gguf_array array;
};

struct gguf {
    struct file *file;
    struct entry *entries;       /* sorted by key */
    struct gguf_tensor *tensors; /* sorted by name; names owned */
    int64_t entry_count, tensor_count;
};

/* ---- Metadata ---- */

static enum status read_scalar(struct gguf_cursor *cursor, enum type type, struct entry *entry, struct error *error)
{
    uint64_t bits = 0;
    float single;
    const size_t width = types[type].bytes;
    const enum status status = gguf_cursor_take(cursor, &bits, width, error);
    if (status != STATUS_OK) return status;
    if (type == TYPE_F32) {
        memcpy(&single, &bits, sizeof single);
        entry->number = (double)single;
    } else if (type == TYPE_F64) {
        memcpy(&entry->number, &bits, sizeof entry->number);
    } else {
        const int shift = 64 - 8 * (int)width;
        entry->integer = types[type].is_signed ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
        entry->number = (double)entry->integer;
    }
    if (type == TYPE_BOOL && bits > 1)
        return gguf_cursor_corrupt(cursor, "a truth value that is neither 0 nor 1", error);
    if (type == TYPE_U64 && entry->integer < 0)
        entry->type = TYPE_ARRAY; /* too large for any key that deltaq reads: it is then no number */
    return STATUS_OK;
}

static enum gguf_items items_of(uint32_t type)
{
    switch (type) {
    case TYPE_TEXT:
        return GGUF_ITEMS_TEXT;
    case TYPE_I32:
    case TYPE_U32:
        return GGUF_ITEMS_I32;
    case TYPE_F32:
        return GGUF_ITEMS_F32;
    default:
        return GGUF_ITEMS_OTHER;
    }
}

/* Records the type, count and place of an array; vocabularies are read only on request. */
static enum status skip_array(struct gguf_cursor *cursor, struct gguf_array *out, struct error *error)
{
    uint32_t type = 0;
    uint64_t count = 0;
    enum status status;
    if ((status = gguf_cursor_take(cursor, &type, sizeof type, error)) != STATUS_OK) return status;
    if ((status = gguf_cursor_take(cursor, &count, sizeof count, error)) != STATUS_OK) return status;
    if (type == TYPE_ARRAY) return gguf_cursor_corrupt(cursor, "an array of arrays", error);
    if (type >= TYPES) return gguf_cursor_corrupt(cursor, "an array of an unknown type", error);
    const uint64_t least = type == TYPE_TEXT ? sizeof(uint64_t) : types[type].bytes;
    if (count > (uint64_t)gguf_cursor_left(cursor) / least || count > (uint64_t)TEXT_MAX / least)
        return gguf_cursor_corrupt(cursor, "an array longer than the file, or than 64 MiB", error);
    *out = (struct gguf_array){.items = items_of(type), .count = (int64_t)count, .offset = cursor->at};
    if (type != TYPE_TEXT) {
        out->bytes = (int64_t)(count * least);
        return gguf_cursor_skip(cursor, out->bytes, error);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t size = 0;
        if ((status = gguf_cursor_take(cursor, &size, sizeof size, error)) != STATUS_OK) return status;
        if (size > (uint64_t)TEXT_MAX) return gguf_cursor_corrupt(cursor, "a text of more than 64 MiB", error);
        if ((status = gguf_cursor_skip(cursor, (int64_t)size, error)) != STATUS_OK) return status;
    }
    out->bytes = cursor->at - out->offset;
    return STATUS_OK;
}

static enum status read_text(struct gguf_cursor *cursor, char **out, struct error *error)
{
    uint64_t size = 0;
    enum status status = gguf_cursor_take(cursor, &size, sizeof size, error);
    if (status != STATUS_OK) return status;
    if (size > (uint64_t)TEXT_MAX) return gguf_cursor_corrupt(cursor, "a text of more than 64 MiB", error);
    if (size > TEXT_KEPT) return gguf_cursor_skip(cursor, (int64_t)size, error);
    char *text = calloc(1, size + 1);
    if (text == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate metadata");
    if ((status = gguf_cursor_take(cursor, text, size, error)) != STATUS_OK || memchr(text, '\0', size) != NULL) {
        free(text); /* no key that deltaq reads has a text with NUL */
        return status;
    }
    *out = text;
    return STATUS_OK;
}

static enum status read_entry(struct gguf_cursor *cursor, struct entry *entry, struct error *error)
{
    uint32_t type = 0;
    enum status status;
    if ((status = gguf_cursor_name(cursor, 65535, &entry->key, error)) != STATUS_OK) return status;
    if ((status = gguf_cursor_take(cursor, &type, sizeof type, error)) != STATUS_OK) return status;
    if (type >= TYPES) return gguf_cursor_corrupt(cursor, "a value of an unknown type", error);
    entry->type = (enum type)type;
    if (type == TYPE_ARRAY) return skip_array(cursor, &entry->array, error);
    if (type == TYPE_TEXT) return read_text(cursor, &entry->text, error);
    return read_scalar(cursor, entry->type, entry, error);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static enum status read_entries(struct gguf *file, struct gguf_cursor *cursor, int64_t count, struct error *error)
{
    enum status status = memory_new(count, sizeof *file->entries, "metadata", &file->entries, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < count; i++) {
        file->entry_count = i + 1;
        if ((status = read_entry(cursor, &file->entries[i], error)) != STATUS_OK) return status;
    }
    if (count > 0) qsort(file->entries, (size_t)count, sizeof *file->entries, by_key);
    for (int64_t i = 1; i < count; i++)
        if (by_key(&file->entries[i - 1], &file->entries[i]) == 0)
            return error_set(error, STATUS_CORRUPT, "%s: the metadata \"%.80s\" is given twice", file_name(file->file),
                             file->entries[i].key);
    return STATUS_OK;
}

static int by_key_alone(const void *key, const void *entry)
{
    return strcmp(key, ((const struct entry *)entry)->key);
}

static const struct entry *find_entry(const struct gguf *file, const char *key)
{
    if (file->entry_count == 0) return NULL;
    return bsearch(key, file->entries, (size_t)file->entry_count, sizeof(struct entry), by_key_alone);
}

bool gguf_integer(const struct gguf *file, const char *key, int64_t *out)
{
    const struct entry *entry = find_entry(file, key);
    if (entry == NULL || types[entry->type].bytes == 0 || entry->type == TYPE_F32 || entry->type == TYPE_F64 ||
        entry->type == TYPE_BOOL)
        return false;
    *out = entry->integer;
    return true;
}

bool gguf_number(const struct gguf *file, const char *key, double *out)
{
    const struct entry *entry = find_entry(file, key);
    if (entry == NULL || types[entry->type].bytes == 0 || entry->type == TYPE_BOOL || !isfinite(entry->number))
        return false;
    *out = entry->number;
    return true;
}

bool gguf_boolean(const struct gguf *file, const char *key, bool *out)
{
    const struct entry *entry = find_entry(file, key);
    if (entry == NULL || entry->type != TYPE_BOOL) return false;
    *out = entry->integer != 0;
    return true;
}

const char *gguf_text(const struct gguf *file, const char *key)
{
    const struct entry *entry = find_entry(file, key);
    return entry != NULL ? entry->text : NULL;
}

bool gguf_array(const struct gguf *file, const char *key, struct gguf_array *out)
{
    const struct entry *entry = find_entry(file, key);
    if (entry == NULL || entry->type != TYPE_ARRAY || entry->array.offset == 0) return false;
    *out = entry->array;
    return true;
}

enum status gguf_array_read(const struct gguf *file, const struct gguf_array *array, int64_t limit, char **out,
                            struct error *error)
{
    *out = NULL;
    if (array->bytes > limit)
        return error_set(error, STATUS_TOO_LARGE, "%s: an array of %lld bytes, at most %lld are read",
                         file_name(file->file), (long long)array->bytes, (long long)limit);
    if (array->bytes == 0) return STATUS_OK;
    enum status status = memory_new(array->bytes, 1, "metadata", out, error);
    if (status == STATUS_OK) status = file_read(file->file, array->offset, *out, (size_t)array->bytes, error);
    if (status == STATUS_OK) return STATUS_OK;
    memory_free(*out);
    *out = NULL;
    return status;
}

/* ---- Tensors ---- */

static enum status wrong_tensor(const struct gguf *file, const struct gguf_tensor *tensor, const char *what,
                                struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.80s\" %s", file_name(file->file), tensor->name, what);
}

static enum status read_shape(const struct gguf *file, struct gguf_cursor *cursor, struct gguf_tensor *tensor,
                              struct error *error)
{
    uint32_t rank = 0;
    uint64_t dimension = 0;
    enum status status;
    if ((status = gguf_cursor_take(cursor, &rank, sizeof rank, error)) != STATUS_OK) return status;
    if (rank < 1 || rank > GGUF_RANK_MAX) return wrong_tensor(file, tensor, "has not 1 to 4 dimensions", error);
    tensor->rank = (int)rank;
    tensor->elements = 1;
    for (int i = tensor->rank; i-- > 0;) {
        if ((status = gguf_cursor_take(cursor, &dimension, sizeof dimension, error)) != STATUS_OK) return status;
        if (dimension < 1 || dimension >= (uint64_t)DIMENSION_MAX ||
            __builtin_mul_overflow(tensor->elements, (int64_t)dimension, &tensor->elements))
            return wrong_tensor(file, tensor, "has an impossible shape", error);
        tensor->shape[i] = (int64_t)dimension;
    }
    return STATUS_OK;
}

static enum status read_tensor(const struct gguf *file, struct gguf_cursor *cursor, struct gguf_tensor *tensor,
                               struct error *error)
{
    uint32_t type = 0;
    uint64_t offset = 0;
    char *name = NULL;
    enum status status = gguf_cursor_name(cursor, GGUF_NAME_MAX, &name, error);
    tensor->name = name;
    if (status != STATUS_OK) return status;
    if ((status = read_shape(file, cursor, tensor, error)) != STATUS_OK) return status;
    if ((status = gguf_cursor_take(cursor, &type, sizeof type, error)) != STATUS_OK) return status;
    if ((status = gguf_cursor_take(cursor, &offset, sizeof offset, error)) != STATUS_OK) return status;
    const bool known = type < sizeof tensor_types / sizeof tensor_types[0] && tensor_types[type].name != NULL;
    if (!known) return wrong_tensor(file, tensor, "is of a type that does not exist", error);
    if (tensor_types[type].dtype < 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor \"%.80s\" is %s; read are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K",
                         file_name(file->file), tensor->name, tensor_types[type].name);
    tensor->dtype = (enum dtype)tensor_types[type].dtype;
    const struct dtype_info *dtype = dtype_info(tensor->dtype);
    if (tensor->shape[tensor->rank - 1] % dtype->block != 0)
        return wrong_tensor(file, tensor, "has rows that are no whole number of blocks", error);
    if (__builtin_mul_overflow(tensor->elements / dtype->block, (int64_t)dtype->bits / 8, &tensor->bytes) ||
        offset > INT64_MAX / 4)
        return wrong_tensor(file, tensor, "is larger than any file", error);
    tensor->offset = (int64_t)offset;
    return STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const int64_t first = ((const struct gguf_tensor *)a)->offset, second = ((const struct gguf_tensor *)b)->offset;
    return first < second ? -1 : first > second;
}

/* Tensor offsets count from `start`, the first multiple of `alignment` after the header. */
static enum status place_tensors(struct gguf *file, int64_t start, int64_t alignment, struct error *error)
{
    const int64_t data = file_bytes(file->file) - start;
    int64_t before = 0;
    if (file->tensor_count == 0) return STATUS_OK;
    qsort(file->tensors, (size_t)file->tensor_count, sizeof *file->tensors, by_offset);
    for (int64_t i = 0; i < file->tensor_count; i++) {
        struct gguf_tensor *tensor = &file->tensors[i];
        if (tensor->offset % alignment != 0) return wrong_tensor(file, tensor, "is not aligned", error);
        if (tensor->offset < before) return wrong_tensor(file, tensor, "overlaps another tensor", error);
        if (data < 0 || tensor->offset > data || tensor->bytes > data - tensor->offset)
            return wrong_tensor(file, tensor, "reaches beyond the end of the file", error);
        before = tensor->offset + tensor->bytes;
        tensor->offset += start;
    }
    qsort(file->tensors, (size_t)file->tensor_count, sizeof *file->tensors, by_name);
    for (int64_t i = 1; i < file->tensor_count; i++)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return wrong_tensor(file, &file->tensors[i], "is there twice", error);
    return STATUS_OK;
}

struct head {
    char magic[4];
    uint32_t version;
    uint64_t tensors, entries;
};
static_assert(sizeof(struct head) == HEADER_MIN, "as it lies in the file");

static enum status read_head(const struct gguf *file, struct gguf_cursor *cursor, struct head *out, struct error *error)
{
    const char *name = file_name(file->file);
    if (file_bytes(file->file) < HEADER_MIN)
        return error_set(error, STATUS_CORRUPT, "%s is too short for a GGUF file", name);
    const enum status status = gguf_cursor_take(cursor, out, sizeof *out, error);
    if (status != STATUS_OK) return status;
    if (memcmp(out->magic, "GGUF", 4) != 0)
        return error_set(error, STATUS_CORRUPT, "%s does not begin as a GGUF file", name);
    if (out->version < 2 || out->version > 3)
        return error_set(error, STATUS_UNSUPPORTED, "%s is GGUF version %u%s; read are 2 and 3", name, out->version,
                         out->version > 0xffff ? " (or big endian)" : "");
    if (out->tensors > ENTRIES_MAX || out->entries > ENTRIES_MAX)
        return error_set(error, STATUS_CORRUPT,
                         "%s: %llu tensors and %llu values of metadata; at most %d of each are accepted", name,
                         (unsigned long long)out->tensors, (unsigned long long)out->entries, ENTRIES_MAX);
    return STATUS_OK;
}

static enum status read_alignment(const struct gguf *file, int64_t *out, struct error *error)
{
    const struct entry *wanted = find_entry(file, "general.alignment");
    *out = ALIGNMENT;
    if (wanted != NULL && wanted->type == TYPE_U32) *out = wanted->integer;
    if ((wanted != NULL && wanted->type != TYPE_U32) || *out < 1 || *out > ALIGNMENT_MAX || (*out & (*out - 1)) != 0)
        return error_set(error, STATUS_CORRUPT, "%s: general.alignment is no power of two up to %d",
                         file_name(file->file), ALIGNMENT_MAX);
    return STATUS_OK;
}

static enum status read_header(struct gguf *file, struct gguf_cursor *cursor, struct error *error)
{
    struct head head = {0};
    int64_t alignment;
    enum status status;
    if ((status = read_head(file, cursor, &head, error)) != STATUS_OK) return status;
    if ((status = read_entries(file, cursor, (int64_t)head.entries, error)) != STATUS_OK) return status;
    if ((status = read_alignment(file, &alignment, error)) != STATUS_OK) return status;
    status = memory_new((int64_t)head.tensors, sizeof *file->tensors, "list of tensors", &file->tensors, error);
    for (int64_t i = 0; status == STATUS_OK && i < (int64_t)head.tensors; i++) {
        file->tensor_count = i + 1;
        status = read_tensor(file, cursor, &file->tensors[i], error);
    }
    if (status != STATUS_OK) return status;
    return place_tensors(file, (cursor->at + alignment - 1) / alignment * alignment, alignment, error);
}

enum status gguf_open(int directory, const char *path, struct gguf **out, struct error *error)
{
    struct gguf_cursor *cursor = NULL;
    enum status status;
    *out = NULL;
    struct gguf *file = calloc(1, sizeof *file);
    if (file == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a GGUF file");
    if ((status = file_open(directory, path, FILE_FOLLOW_LINKS, INT64_MAX, &file->file, error)) != STATUS_OK) goto done;
    if ((status = memory_new(1, sizeof *cursor, "reading window", &cursor, error)) != STATUS_OK) goto done;
    cursor->file = file->file;
    if ((status = read_header(file, cursor, error)) != STATUS_OK) goto done;
    *out = file;
    file = NULL;
done:
    memory_free(cursor);
    gguf_close(file);
    return status;
}

void gguf_close(struct gguf *file)
{
    if (file == NULL) return;
    for (int64_t i = 0; i < file->entry_count; i++) {
        free(file->entries[i].key);
        free(file->entries[i].text);
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        union { /* lent to the outside as const */
            const char *lent;
            char *owned;
        } name = {file->tensors[i].name};
        free(name.owned);
    }
    memory_free(file->entries);
    memory_free(file->tensors);
    file_close(file->file);
    free(file);
}

int64_t gguf_count(const struct gguf *file)
{
    return file->tensor_count;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *file, int64_t index)
{
    return &file->tensors[index];
}

const struct gguf_tensor *gguf_find(const struct gguf *file, const char *name)
{
    const struct gguf_tensor key = {.name = name};
    if (file->tensor_count == 0) return NULL;
    return bsearch(&key, file->tensors, (size_t)file->tensor_count, sizeof key, by_name);
}

const struct file *gguf_file(const struct gguf *file)
{
    return file->file;
}

/* Decodes one block into a buffer and copies some of its elements. */
static enum status read_part(const struct gguf *file, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                             float *out, struct error *error)
{
    _Alignas(64) char bytes[DTYPE_BLOCK_BYTES_MAX];
    float values[DTYPE_BLOCK_MAX];
    const struct dtype_info *dtype = dtype_info(tensor->dtype);
    const size_t width = dtype->bits / 8;
    const int64_t block = first / dtype->block;
    const enum status status = file_read(file->file, tensor->offset + block * (int64_t)width, bytes, width, error);
    if (status != STATUS_OK) return status;
    dtype->to_f32(bytes, values, dtype->block);
    memcpy(out, values + first % dtype->block, (size_t)count * sizeof *out);
    return STATUS_OK;
}

enum status gguf_read_f32(const struct gguf *file, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                          float *out, struct error *error)
{
    _Alignas(64) char chunk[CHUNK_BYTES];
    const struct dtype_info *dtype = dtype_info(tensor->dtype);
    const int64_t width = (int64_t)dtype->bits / 8, most = CHUNK_BYTES / width;
    if (first < 0 || count < 0 || first > tensor->elements || count > tensor->elements - first)
        return error_set(error, STATUS_INVALID, "%lld elements from %lld on, of a tensor that has %lld",
                         (long long)count, (long long)first, (long long)tensor->elements);
    if (dtype->to_f32 == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "a tensor of %s is not one of weights", dtype->name);
    while (count > 0) {
        const int64_t blocks = count / dtype->block;
        int64_t taken;
        enum status status;
        if (first % dtype->block != 0 || blocks == 0) {
            const int64_t left = dtype->block - first % dtype->block;
            taken = count < left ? count : left;
            status = read_part(file, tensor, first, taken, out, error);
        } else {
            const int64_t now = blocks < most ? blocks : most;
            taken = now * dtype->block;
            status = file_read(file->file, tensor->offset + first / dtype->block * width, chunk, (size_t)(now * width),
                               error);
            if (status == STATUS_OK) dtype->to_f32(chunk, out, taken);
        }
        if (status != STATUS_OK) return status;
        first += taken;
        count -= taken;
        out += taken;
    }
    return STATUS_OK;
}
