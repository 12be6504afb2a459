/* gguf.h: read-only access to a GGUF file, versions 2 and 3, little endian: metadata, then tensor descriptions, then
 * aligned data (github.com/ggml-org/ggml, docs/gguf.md). The header is checked in full; the file is read with pread and
 * never mapped. An open file does not change, so threads may share it. gguf_model.h interprets the metadata of a
 * model. */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include "files/file.h"
#include "tensor/dtype.h"

enum { GGUF_RANK_MAX = 4, GGUF_NAME_MAX = 255 };

struct gguf;

/* Lent by the file. */
struct gguf_tensor {
    const char *name; /* printable ASCII */
    enum dtype dtype;
    int rank;                     /* 1 to 4 */
    int64_t shape[GGUF_RANK_MAX]; /* outermost first (the file has them innermost first), each at least 1 */
    int64_t elements, bytes;
    int64_t offset; /* of its first byte in the file */
};

/* Opens `path` below the descriptor `directory` (see file_open) and checks all of its header: every length is held
 * against the bytes left, keys and names are unique, every tensor is aligned, lies inside the file and overlaps no
 * other. The caller owns *out. STATUS_CORRUPT; STATUS_UNSUPPORTED (another version, tensor types that deltaq does not
 * read); statuses of file_open. */
MUST_CHECK enum status gguf_open(int directory, const char *path, struct gguf **out, struct error *error);
void gguf_close(struct gguf *file); /* NULL is fine */

int64_t gguf_count(const struct gguf *file);
/* The tensor at `index`, in [0, count), in ascending byte order of names. */
const struct gguf_tensor *gguf_tensor(const struct gguf *file, int64_t index);
const struct gguf_tensor *gguf_find(const struct gguf *file, const char *name); /* NULL: none */
const struct file *gguf_file(const struct gguf *file);                          /* lent */

/* The place of an array of the metadata in the file. */
enum gguf_items { GGUF_ITEMS_TEXT, GGUF_ITEMS_I32, GGUF_ITEMS_F32, GGUF_ITEMS_OTHER };
struct gguf_array {
    enum gguf_items items; /* a text is 8 bytes of its length, then as many bytes */
    int64_t count, offset, bytes;
};

/* Metadata. False (NULL) when the key is absent or of another type; integers of any width and sign count as
 * integers. */
bool gguf_integer(const struct gguf *file, const char *key, int64_t *out);
bool gguf_number(const struct gguf *file, const char *key, double *out); /* floats and integers */
bool gguf_boolean(const struct gguf *file, const char *key, bool *out);
const char *gguf_text(const struct gguf *file, const char *key); /* lent; texts above 4096 bytes are not kept */

bool gguf_array(const struct gguf *file, const char *key, struct gguf_array *out); /* U32 counts as I32 */

/* Reads the items of an array as stored. The caller owns *out (memory_free), NULL for an empty array. STATUS_TOO_LARGE
 * (above `limit` bytes), STATUS_INPUT_CHANGED, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status gguf_array_read(const struct gguf *file, const struct gguf_array *array, int64_t limit,
                                       char **out, struct error *error);

/* Elements [first, first + count) of a tensor, flattened row-major, as float32; quantized blocks are decoded. Allocates
 * nothing. STATUS_INVALID (span outside the tensor), STATUS_UNSUPPORTED (not a floating point dtype),
 * STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status gguf_read_f32(const struct gguf *file, const struct gguf_tensor *tensor, int64_t first,
                                     int64_t count, float *out, struct error *error);

#endif
