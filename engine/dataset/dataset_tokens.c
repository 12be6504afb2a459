/* Readers of token files: NumPy's .npy (numpy.lib.format, versions 1 to 3) and bare .bin, both little endian. */
#include "base/memory.h"
#include "dataset/dataset_reader.h"
#include "files/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_TOKENS = 1 << 16, HEADER_LIMIT = 1 << 16 };

struct layout {
    enum dtype dtype;
    int64_t offset, rows, columns; /* 1-D: one row */
};

static const struct kind {
    enum dtype dtype;
    const char *name; /* NumPy's */
    int width;
    bool is_signed;
} kinds[] = {{DTYPE_U8, "|u1", 1, false},  {DTYPE_U16, "<u2", 2, false}, {DTYPE_U32, "<u4", 4, false},
             {DTYPE_U64, "<u8", 8, false}, {DTYPE_I16, "<i2", 2, true},  {DTYPE_I32, "<i4", 4, true},
             {DTYPE_I64, "<i8", 8, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *find_kind(enum dtype dtype)
{
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].dtype == dtype) return &kinds[i];
    }
    return NULL;
}

/* ---- the header of .npy: a literal Python dictionary ---- */

struct literal {
    const char *at, *end;
};

static void skip_spaces(struct literal *literal)
{
    while (literal->at < literal->end && strchr(" \t\n\r", *literal->at) != NULL && *literal->at) literal->at++;
}

static bool take(struct literal *literal, const char *token)
{
    size_t size = strlen(token);
    skip_spaces(literal);
    if ((size_t)(literal->end - literal->at) < size || memcmp(literal->at, token, size) != 0) return false;
    literal->at += size;
    return true;
}

/* A quoted string of at most 31 characters. */
static bool take_string(struct literal *literal, char *out)
{
    skip_spaces(literal);
    if (literal->at >= literal->end || (*literal->at != '\'' && *literal->at != '"')) return false;
    char quote = *literal->at++;
    size_t size = 0;
    while (literal->at < literal->end && *literal->at != quote && size < 31) out[size++] = *literal->at++;
    out[size] = '\0';
    return literal->at < literal->end && *literal->at++ == quote;
}

static bool take_number(struct literal *literal, int64_t *out)
{
    skip_spaces(literal);
    const char *start = literal->at;
    for (*out = 0; literal->at < literal->end && *literal->at >= '0' && *literal->at <= '9'; literal->at++) {
        if (*out > INT64_MAX / 100) return false;
        *out = *out * 10 + (*literal->at - '0');
    }
    return literal->at > start;
}

static bool take_shape(struct literal *literal, int64_t *shape, int *rank)
{
    *rank = 0;
    if (!take(literal, "(")) return false;
    while (!take(literal, ")")) {
        if (*rank == 2 || !take_number(literal, &shape[*rank])) return false;
        ++*rank;
        if (!take(literal, ",") && !take(literal, ")")) return false;
        if (literal->at[-1] == ')') return true;
    }
    return true;
}

struct header {
    char descr[32];
    bool fortran_order;
    int64_t shape[2];
    int rank;
    int found; /* bits: descr, fortran_order, shape */
};

static bool take_header(struct literal *literal, struct header *header)
{
    char key[32];
    if (!take(literal, "{")) return false;
    while (!take(literal, "}")) {
        int field = -1;
        if (!take_string(literal, key) || !take(literal, ":")) return false;
        if (strcmp(key, "descr") == 0 && take_string(literal, header->descr)) field = 0;
        if (strcmp(key, "fortran_order") == 0) {
            header->fortran_order = take(literal, "True");
            if (header->fortran_order || take(literal, "False")) field = 1;
        }
        if (strcmp(key, "shape") == 0 && take_shape(literal, header->shape, &header->rank)) field = 2;
        if (field < 0 || header->found >> field & 1) return false;
        header->found |= 1 << field;
        take(literal, ",");
    }
    skip_spaces(literal);
    return header->found == 7 && literal->at == literal->end;
}

static enum status check_header(const struct file *file, const struct header *header, struct layout *layout,
                                struct error *error)
{
    const char *name = file_name(file);
    const struct kind *kind = NULL;
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, header->descr) == 0) kind = &kinds[i];
    }
    if (kind == NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: dtype \"%s\" holds no tokens; save as uint16, uint32 or int64, little endian", name,
                         header->descr);
    if (header->rank == 0 || (header->fortran_order && header->rank == 2))
        return error_set(error, STATUS_UNSUPPORTED, "%s: needs one or two dimensions in C order", name);
    layout->dtype = kind->dtype;
    layout->rows = header->rank == 2 ? header->shape[0] : 1;
    layout->columns = header->rank == 2 ? header->shape[1] : header->shape[0];
    int64_t elements, bytes;
    if (__builtin_mul_overflow(layout->rows, layout->columns, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)kind->width, &bytes) || bytes != file_bytes(file) - layout->offset)
        return error_set(error, STATUS_CORRUPT, "%s: %lld x %lld tokens of %d bytes announced, %lld bytes found", name,
                         (long long)layout->rows, (long long)layout->columns, kind->width,
                         (long long)(file_bytes(file) - layout->offset));
    return STATUS_OK;
}

static enum status read_npy(struct file *file, struct layout *layout, struct error *error)
{
    uint8_t head[12] = {0};
    char *text = NULL;
    struct header header = {0};
    const char *name = file_name(file);
    if (file_bytes(file) < 12) return error_set(error, STATUS_CORRUPT, "%s: too short for a .npy file", name);
    enum status status = file_read(file, 0, head, sizeof head, error);
    if (status != STATUS_OK) return status;
    if (memcmp(head, "\x93NUMPY", 6) != 0) return error_set(error, STATUS_CORRUPT, "%s: not a .npy file", name);
    if (head[6] < 1 || head[6] > 3) return error_set(error, STATUS_UNSUPPORTED, "%s: .npy version %d", name, head[6]);
    int64_t size = head[8] | head[9] << 8;
    if (head[6] > 1) size |= (int64_t)head[10] << 16 | (int64_t)head[11] << 24;
    int64_t start = head[6] == 1 ? 10 : 12;
    if (size > HEADER_LIMIT || start + size > file_bytes(file))
        return error_set(error, STATUS_CORRUPT, "%s: header of %lld bytes does not fit", name, (long long)size);
    if ((status = memory_new(size + 1, 1, ".npy header", &text, error)) != STATUS_OK) return status;
    status = file_read(file, start, text, (size_t)size, error);
    struct literal literal = {.at = text, .end = text + size};
    if (status == STATUS_OK && !take_header(&literal, &header))
        status = error_set(error, STATUS_CORRUPT,
                           "%s: header is not descr, fortran_order and a shape of at most two dimensions", name);
    layout->offset = start + size;
    if (status == STATUS_OK) status = check_header(file, &header, layout, error);
    memory_free(text);
    return status;
}

static enum status read_bin(const struct dataset_source *source, struct file *file, struct layout *layout,
                            struct error *error)
{
    const struct kind *kind = find_kind(source->dtype);
    if (kind == NULL)
        return error_set(error, STATUS_INVALID, "%s: a .bin file needs its dtype: uint16, uint32 or int64",
                         file_name(file));
    if (file_bytes(file) % kind->width != 0)
        return error_set(error, STATUS_CORRUPT, "%s: %lld bytes are no whole number of tokens of %d bytes",
                         file_name(file), (long long)file_bytes(file), kind->width);
    *layout = (struct layout){.dtype = source->dtype, .rows = 1, .columns = file_bytes(file) / kind->width};
    return STATUS_OK;
}

/* ---- tokens ---- */

static int64_t element(const struct kind *kind, const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = kind->width - 1; i >= 0; i--) value = value << 8 | at[i];
    int unused = 64 - 8 * kind->width;
    if (kind->is_signed) return (int64_t)(value << unused) >> unused;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static enum status put_row(struct dataset_reader *reader, struct file *file, const struct layout *layout, int64_t row,
                           uint8_t *bytes, uint32_t *tokens, struct error *error)
{
    const struct kind *kind = find_kind(layout->dtype);
    for (int64_t at = 0; at < layout->columns && !dataset_sink_document_full(reader->sink);) {
        int64_t count = layout->columns - at < READ_TOKENS ? layout->columns - at : READ_TOKENS;
        int64_t offset = layout->offset + (row * layout->columns + at) * kind->width;
        enum status status = monitor_check(reader->monitor, error);
        if (status == STATUS_OK) status = file_read(file, offset, bytes, (size_t)(count * kind->width), error);
        if (status != STATUS_OK) return status;
        for (int64_t i = 0; i < count; i++) {
            int64_t value = element(kind, bytes + i * kind->width);
            if (value < 0 || value > UINT32_MAX) return dataset_sink_refuse(reader->sink, i, value, error);
            tokens[i] = (uint32_t)value;
        }
        if ((status = dataset_sink_put(reader->sink, tokens, count, error)) != STATUS_OK) return status;
        at += count;
    }
    return dataset_sink_end(reader->sink, error);
}

/* Reads the layout from the head of the file. */
static enum status read_layout(const struct dataset_source *source, const char *path, struct file **file,
                               struct layout *layout, struct error *error)
{
    const char *dot = strrchr(path, '.');
    const bool npy = dot != NULL && strcmp(dot, ".npy") == 0;
    const enum status status = file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, INT64_MAX, file, error);
    if (status != STATUS_OK) return status;
    return npy ? read_npy(*file, layout, error) : read_bin(source, *file, layout, error);
}

enum status dataset_reader_look_tokens(const struct dataset_source *source, const char *path, struct error *error)
{
    struct file *file = NULL;
    struct layout layout = {0};
    const enum status status = read_layout(source, path, &file, &layout, error);
    file_close(file);
    return status;
}

enum status dataset_reader_tokens(struct dataset_reader *reader, const char *path, struct error *error)
{
    struct file *file = NULL;
    struct layout layout = {0};
    uint8_t *bytes = NULL;
    uint32_t *tokens = NULL;
    enum status status = read_layout(reader->source, path, &file, &layout, error);
    if (status == STATUS_OK) status = memory_new(READ_TOKENS, 8, "read buffer", &bytes, error);
    if (status == STATUS_OK) status = memory_new(READ_TOKENS, sizeof *tokens, "read buffer", &tokens, error);
    for (int64_t row = 0; status == STATUS_OK && row < layout.rows && !dataset_sink_full(reader->sink); row++)
        status = put_row(reader, file, &layout, row, bytes, tokens, error);
    memory_free(tokens);
    memory_free(bytes);
    file_close(file);
    return status;
}
