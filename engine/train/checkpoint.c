#include "train/checkpoint.h"

#include "base/directory.h"
#include "base/memory.h"
#include "base/version.h"
#include "files/file_writer.h"
#include "formats/safetensors/safetensors_writer.h"
#include "model/config_dtype.h"
#include "model/config_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char too_long[] = "a checkpoint's path is too long";

void checkpoint_remove(const char *directory)
{
    char path[PATH_MAX];
    struct error ignored;
    DIR *stream = opendir(directory);
    if (stream == NULL) return;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            directory_path(directory, entry->d_name, too_long, path, &ignored) == STATUS_OK)
            (void)unlink(path);
    (void)closedir(stream);
    (void)rmdir(directory);
}

static enum status sync_directory(const char *directory, struct error *error)
{
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return error_set_errno(error, "cannot open a checkpoint's directory");
    const bool failed = fsync(descriptor) != 0;
    const enum status status = failed ? error_set_errno(error, "cannot make a checkpoint durable") : STATUS_OK;
    (void)close(descriptor);
    return status;
}

static enum status tensors_write(struct safetensors_writer *writer, const struct parameters *parameters, float *staging,
                                 struct error *error)
{
    const struct parameters_layout *layout = parameters->layout;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct matrix view = parameters_view(parameters, i);
        enum status status = parameters_download(parameters, i, staging, DTYPE_F32, error);
        if (status == STATUS_OK) status = safetensors_writer_f32(writer, i, staging, view.rows * view.columns, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status weights_write(const char *path, const struct parameters *parameters, enum dtype dtype,
                                 struct error *error)
{
    const struct parameters_layout *layout = parameters->layout;
    struct safetensors_writer *writer = NULL;
    struct safetensors_entry *entries = NULL;
    int64_t(*shapes)[3] = NULL, largest = 0;
    float *staging = NULL;
    enum status status;
    if ((status = memory_new(layout->tensor_count, sizeof *entries, "tensor list", &entries, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(layout->tensor_count, sizeof *shapes, "tensor list", &shapes, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        const bool vector = !tensor->parameter.matrix, turned = tensor->parameter.transposed;
        const bool depthwise = tensor->parameter.depthwise;
        const int rank = tensor->parameter.constant ? 0 : vector ? 1 : depthwise ? 3 : 2;
        shapes[i][0] = vector || turned ? tensor->parameter.columns : tensor->parameter.rows;
        shapes[i][1] = depthwise ? 1 : turned ? tensor->parameter.rows : tensor->parameter.columns;
        shapes[i][2] = tensor->parameter.columns;
        entries[i] = (struct safetensors_entry){tensor->parameter.name, dtype, rank, shapes[i]};
        const int64_t count = tensor->parameter.rows * tensor->parameter.columns;
        if (count > largest) largest = count;
    }
    if ((status = memory_new(largest, sizeof *staging, "tensor to write", &staging, error)) != STATUS_OK) goto done;
    if ((status = safetensors_writer_open(path, entries, layout->tensor_count, &writer, error)) != STATUS_OK) goto done;
    if ((status = tensors_write(writer, parameters, staging, error)) != STATUS_OK) goto done;
    status = safetensors_writer_commit(writer, error);
done:
    safetensors_writer_close(writer);
    memory_free(staging);
    memory_free(shapes);
    memory_free(entries);
    return status;
}

static const char *number(double value, char out[32])
{
    (void)snprintf(out, 32, isfinite(value) ? "%.17g" : "null", value);
    return out;
}

static enum status record_write(const char *path, const struct checkpoint *checkpoint, struct error *error)
{
    const struct state_checkpoint *reached = &checkpoint->reached;
    char text[640], average[96] = "", rate[32], train[32], validation[32];
    if (reached->averaged != 0 && checkpoint->ema != NULL)
        (void)snprintf(average, sizeof average, "\"ema\": {\"decay\": %.17g, \"updates\": %lld}, ",
                       checkpoint->ema->decay, (long long)checkpoint->ema->updates);
    const int size = snprintf(
        text, sizeof text,
        "{\"step\": %lld, \"tokens\": %lld, \"learning_rate\": %s, \"train_loss\": %s, \"validation_loss\": %s, "
        "%s\"seed\": %llu, \"deltaq\": \"%s\"}\n",
        (long long)reached->step, (long long)reached->tokens, number(reached->learning_rate, rate),
        number(reached->train_loss, train), number(reached->validation_loss, validation), average,
        (unsigned long long)checkpoint->seed, DELTAQ_VERSION);
    return file_writer_put(path, text, (size_t)size, error);
}

/* The configuration as it is, but for a type of weights that is not the stored one. */
static enum status config_write(const char *path, const struct checkpoint *checkpoint, struct error *error)
{
    char members[CONFIG_DTYPE_SIZE], *merged = NULL;
    size_t size = 0;
    enum status status = config_dtype_members("config.json", checkpoint->config, checkpoint->config_size,
                                              checkpoint->dtype, members, error);
    if (status != STATUS_OK) return status;
    if (members[0] == '\0') return file_writer_put(path, checkpoint->config, checkpoint->config_size, error);
    const struct config_text texts[] = {{"type of weights", members, strlen(members)},
                                        {"config.json", checkpoint->config, checkpoint->config_size}};
    status = config_text_merge(texts, 2, &merged, &size, error);
    if (status == STATUS_OK) status = file_writer_put(path, merged, size, error);
    memory_free(merged);
    return status;
}

static enum status files_write(const char *directory, const struct checkpoint *checkpoint,
                               const struct parameters *parameters, struct error *error)
{
    char path[PATH_MAX];
    enum status status;
    if ((status = directory_path(directory, "model.safetensors", too_long, path, error)) != STATUS_OK) return status;
    if ((status = weights_write(path, parameters, checkpoint->dtype, error)) != STATUS_OK) return status;
    if ((status = directory_path(directory, "config.json", too_long, path, error)) != STATUS_OK) return status;
    if ((status = config_write(path, checkpoint, error)) != STATUS_OK) return status;
    if ((status = directory_path(directory, "training.json", too_long, path, error)) != STATUS_OK) return status;
    if ((status = record_write(path, checkpoint, error)) != STATUS_OK) return status;
    if ((status = directory_path(directory, "tokenizer.json", too_long, path, error)) != STATUS_OK) return status;
    if (checkpoint->tokenizer != NULL && (status = tokenizer_write(checkpoint->tokenizer, path, error)) != STATUS_OK)
        return status;
    if ((status = directory_path(directory, "training.state", too_long, path, error)) != STATUS_OK) return status;
    if (checkpoint->state != NULL && (status = state_write(path, checkpoint->state, parameters, checkpoint->optimizer,
                                                           checkpoint->ema, error)) != STATUS_OK)
        return status;
    return sync_directory(directory, error);
}

enum status checkpoint_publish(const char *temporary, const char *directory, struct error *error)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(directory, '/');
    const int length = slash != NULL ? (int)(slash - directory) : 1;
    if (rename(temporary, directory) != 0) {
        if (errno != EEXIST && errno != ENOTEMPTY) return error_set_errno(error, "cannot put a checkpoint in place");
        if (renameat2(AT_FDCWD, temporary, AT_FDCWD, directory, RENAME_EXCHANGE) != 0)
            return error_set_errno(error, "cannot replace a checkpoint");
        checkpoint_remove(temporary);
    }
    (void)snprintf(parent, sizeof parent, "%.*s", slash == directory ? 1 : length, slash != NULL ? directory : ".");
    return sync_directory(parent, error);
}

/* ".NAME.NUMBER.tmp" beside the checkpoint. Each attempt has its own, because one that lost its run may still be
 * writing. */
static enum status make_temporary(const char *directory, char out[PATH_MAX], struct error *error)
{
    const char *slash = strrchr(directory, '/');
    const int parent = slash != NULL ? (int)(slash + 1 - directory) : 0;
    unsigned long long number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return error_set_errno(error, "cannot name a checkpoint's directory");
    if (snprintf(out, PATH_MAX, "%.*s.%s.%016llx.tmp", parent, directory, directory + parent, number) >= PATH_MAX)
        return error_set(error, STATUS_INVALID, "%s", too_long);
    return mkdir(out, 0777) == 0 ? STATUS_OK : error_set_errno(error, "cannot make a checkpoint's directory");
}

enum status checkpoint_write(const struct checkpoint *checkpoint, const struct parameters *parameters,
                             struct error *error)
{
    char temporary[PATH_MAX];
    enum status status = make_temporary(checkpoint->directory, temporary, error);
    if (status != STATUS_OK) return status;
    if ((status = files_write(temporary, checkpoint, parameters, error)) == STATUS_OK)
        status = checkpoint_publish(temporary, checkpoint->directory, error);
    if (status != STATUS_OK) checkpoint_remove(temporary);
    return status;
}
