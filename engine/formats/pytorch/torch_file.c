#include "formats/pytorch/torch_file.h"

#include "base/memory.h"
#include "formats/pytorch/torch_names.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 512, SMALL_ENTRY = 64 };

struct torch_file {
    struct file *file;
    struct torch_state state;
};

/* Recognizes other kinds of files with these endings by their first bytes. */
static enum status refuse_kind(const struct file *file, const char *head, size_t size, struct error *error)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t size;
        const char *advice;
    } kinds[] = {
        {0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14,
         "PyTorch's format of before version 1.6; load it with torch.load(path, weights_only=True)"
         " and torch.save it again"},
        {257, "ustar", 5, "a tar archive, PyTorch's first format; load it with an old PyTorch and torch.save it again"},
        {0, "\x80", 1, "a bare pickle; save the state dict with torch.save"},
        {0, "\x1f\x8b", 2, "compressed with gzip; decompress it first"},
        {0, "\x28\xb5\x2f\xfd", 4, "compressed with zstd; decompress it first"},
        {0, "version https://git-lfs", 23, "a pointer of git-lfs, not the file itself; run git lfs pull"},
        {0, "GGUF", 4, "a GGUF file; give it the ending .gguf"},
        {8, "{\"", 2, "a safetensors file; give it the ending .safetensors"},
        {0, "<", 1, "a web page; download the file again"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].at + kinds[i].size <= size && memcmp(head + kinds[i].at, kinds[i].bytes, kinds[i].size) == 0)
            return error_set(error, STATUS_UNSUPPORTED, "%s is %s", file_name(file), kinds[i].advice);
    return error_set(error, STATUS_CORRUPT, "%s is not a file of torch.save: it does not begin as a zip archive",
                     file_name(file));
}

static enum status check_kind(const struct file *file, struct error *error)
{
    char head[HEAD_BYTES];
    const size_t size = file_bytes(file) < HEAD_BYTES ? (size_t)file_bytes(file) : HEAD_BYTES;
    const enum status status = file_read(file, 0, head, size, error);
    if (status != STATUS_OK) return status;
    return size >= 4 && memcmp(head, "PK\3\4", 4) == 0 ? STATUS_OK : refuse_kind(file, head, size, error);
}

/* Finds the folder of all entries, which torch.save names after the file. The caller frees *out. */
static enum status find_folder(const struct file *file, const struct zip *zip, char **out, struct error *error)
{
    const char *first = zip_count(zip) > 0 ? zip_entry(zip, 0)->name : "", *slash = strchr(first, '/');
    const size_t size = slash != NULL ? (size_t)(slash - first) : 0;
    *out = NULL;
    for (int64_t i = 0; i < zip_count(zip); i++) {
        const char *name = zip_entry(zip, i)->name;
        if (size == 0 || strncmp(name, first, size + 1) != 0)
            return error_set(error, STATUS_CORRUPT,
                             "%s is not a file of torch.save: its entries do not lie in one folder", file_name(file));
        if (strcmp(name + size, "/constants.pkl") == 0 || strncmp(name + size, "/code/", 6) == 0)
            return error_set(error, STATUS_UNSUPPORTED, "%s is a TorchScript program; save module.state_dict() instead",
                             file_name(file));
    }
    if (size == 0)
        return error_set(error, STATUS_CORRUPT, "%s is not a file of torch.save: its entries do not lie in one folder",
                         file_name(file));
    *out = strndup(first, size);
    return *out != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "cannot allocate a name");
}

/* *out is NULL when there is none. */
static enum status find_entry(const struct zip *zip, const char *folder, const char *name, const struct zip_entry **out,
                              struct error *error)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    *out = NULL;
    if (path == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a name");
    memcpy(path, folder, strlen(folder));
    path[strlen(folder)] = '/';
    memcpy(path + strlen(folder) + 1, name, strlen(name) + 1);
    *out = zip_find(zip, path);
    free(path);
    return STATUS_OK;
}

static enum status check_order(const struct file *file, const struct zip *zip, const char *folder, struct error *error)
{
    const struct zip_entry *entry = NULL;
    char *text = NULL;
    size_t size = 0;
    enum status status = find_entry(zip, folder, "byteorder", &entry, error);
    if (status != STATUS_OK || entry == NULL) return status; /* written by PyTorch before 2.1 */
    status = zip_read(zip, entry, SMALL_ENTRY, &text, &size, error);
    const bool little = status == STATUS_OK && size == 6 && memcmp(text, "little", 6) == 0;
    memory_free(text);
    if (status != STATUS_OK || little) return status;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s was written on a big-endian machine; load it and save it on another", file_name(file));
}

static enum status read_archive(struct torch_file *file, struct error *error)
{
    struct zip *zip = NULL;
    struct pickle *pickle = NULL;
    const struct zip_entry *entry = NULL;
    char *folder = NULL, *text = NULL;
    size_t size = 0;
    enum status status;
    if ((status = zip_open(file->file, &zip, error)) != STATUS_OK) goto done;
    if ((status = find_folder(file->file, zip, &folder, error)) != STATUS_OK) goto done;
    if ((status = check_order(file->file, zip, folder, error)) != STATUS_OK) goto done;
    if ((status = find_entry(zip, folder, "data.pkl", &entry, error)) != STATUS_OK) goto done;
    if (entry == NULL) {
        status = error_set(error, STATUS_CORRUPT, "%s is not a file of torch.save: it has no data.pkl",
                           file_name(file->file));
        goto done;
    }
    if ((status = zip_read(zip, entry, PICKLE_BYTES_MAX, &text, &size, error)) != STATUS_OK) goto done;
    status = pickle_read(file_name(file->file), text, size, torch_names, torch_names_count, &pickle, error);
    if (status != STATUS_OK) goto done;
    status = torch_state_read(file_name(file->file), pickle, zip, folder, &file->state, error);
done:
    pickle_free(pickle);
    memory_free(text);
    free(folder);
    zip_close(zip);
    return status;
}

enum status torch_file_open(int directory, const char *path, struct torch_file **out, struct error *error)
{
    enum status status;
    *out = NULL;
    struct torch_file *file = calloc(1, sizeof *file);
    if (file == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a PyTorch file");
    if ((status = file_open(directory, path, FILE_FOLLOW_LINKS, INT64_MAX, &file->file, error)) != STATUS_OK) goto done;
    if ((status = check_kind(file->file, error)) != STATUS_OK) goto done;
    if ((status = read_archive(file, error)) != STATUS_OK) goto done;
    *out = file;
    file = NULL;
done:
    torch_file_close(file);
    return status;
}

void torch_file_close(struct torch_file *file)
{
    if (file == NULL) return;
    torch_state_reset(&file->state);
    file_close(file->file);
    free(file);
}

const struct torch_state *torch_file_state(const struct torch_file *file)
{
    return &file->state;
}

const struct file *torch_file_file(const struct torch_file *file)
{
    return file->file;
}

static struct strided view_of(const struct torch_tensor *tensor)
{
    return (struct strided){.dtype = tensor->dtype,
                            .rank = tensor->rank,
                            .shape = tensor->shape,
                            .stride = tensor->stride,
                            .offset = tensor->offset};
}

bool torch_file_scattered(const struct torch_file *file, int64_t index)
{
    const struct strided view = view_of(&file->state.tensors[index]);
    return !strided_contiguous(&view);
}

static enum status check_span(int64_t first, int64_t count, int64_t total, const char *unit, struct error *error)
{
    if (first >= 0 && count >= 0 && first <= total && count <= total - first) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%lld %s from %lld on, of a tensor that has %lld", (long long)count, unit,
                     (long long)first, (long long)total);
}

enum status torch_file_read_bytes(const struct torch_file *file, int64_t index, int64_t first, int64_t bytes, void *out,
                                  struct error *error)
{
    const struct torch_tensor *tensor = &file->state.tensors[index];
    const int64_t all = tensor->elements * (int64_t)dtype_info(tensor->dtype)->bits / 8;
    const enum status status = check_span(first, bytes, all, "bytes", error);
    return status == STATUS_OK ? file_read(file->file, tensor->offset + first, out, (size_t)bytes, error) : status;
}

enum status torch_file_read_f32(const struct torch_file *file, int64_t index, int64_t first, int64_t count, float *out,
                                struct error *error)
{
    const struct torch_tensor *tensor = &file->state.tensors[index];
    const struct strided view = view_of(tensor);
    const enum status status = check_span(first, count, tensor->elements, "elements", error);
    if (status != STATUS_OK) return status;
    if (dtype_info(tensor->dtype)->to_f32 == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "a tensor of %s is not one of weights",
                         dtype_info(tensor->dtype)->name);
    return strided_read_f32(file->file, &view, first, count, out, error);
}

void torch_file_readahead(const struct torch_file *file, int64_t index)
{
    const struct torch_tensor *tensor = &file->state.tensors[index];
    int64_t last = 0;
    for (int i = 0; i < tensor->rank && tensor->elements > 0; i++) last += (tensor->shape[i] - 1) * tensor->stride[i];
    file_readahead(file->file, tensor->offset, (last + 1) * (int64_t)dtype_info(tensor->dtype)->bits / 8);
}
