#include "weights/weights_writer.h"

#include "base/directory.h"
#include "base/memory.h"
#include "files/file_writer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14, SHARD_NAME = 64 };

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json",
                  gguf_name[] = "model.gguf";

/* The place of an entry. */
struct place {
    int64_t shard, index;
    const struct dtype_info *dtype;
};

struct weights_writer {
    char directory[PATH_MAX];
    struct place *places; /* [entry] */
    int64_t shard_count;
    struct safetensors_writer **shards;
    struct gguf_writer *gguf;
    char *index; /* text of the file that lists the shards; NULL: none */
    size_t index_size;
};

static const char too_long[] = "the path of weights to write is too long";

static int64_t bytes_of(const struct safetensors_entry *entry)
{
    const struct dtype_info *dtype = dtype_info(entry->dtype);
    int64_t bytes = (int64_t)dtype->bits / 8;
    for (int i = 0; i < entry->rank; i++)
        if (__builtin_mul_overflow(bytes, entry->shape[i], &bytes))
            return INT64_MAX / 4; /* the size is impossible; opening the file refuses it */
    return bytes / dtype->block;
}

/* Distributes entries over shards in their order; a new shard begins when the next entry would not fit. Returns the
 * number of bytes. */
static int64_t share_out(struct weights_writer *writer, const struct safetensors_entry *entries, int64_t count,
                         int64_t most)
{
    int64_t filled = 0, index = 0, total = 0;
    writer->shard_count = 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t bytes = bytes_of(&entries[i]);
        if (filled > 0 && bytes > most - filled) {
            writer->shard_count++;
            filled = index = 0;
        }
        writer->places[i] = (struct place){writer->shard_count - 1, index++, dtype_info(entries[i].dtype)};
        filled = filled > INT64_MAX - bytes ? INT64_MAX : filled + bytes;
        total = total > INT64_MAX - bytes ? INT64_MAX : total + bytes;
    }
    return total;
}

static void shard_name(const struct weights_writer *writer, int64_t shard, char out[SHARD_NAME])
{
    if (writer->shard_count == 1)
        (void)snprintf(out, SHARD_NAME, "%s", single_name);
    else
        (void)snprintf(out, SHARD_NAME, "model-%05lld-of-%05lld.safetensors", (long long)shard + 1,
                       (long long)writer->shard_count);
}

static enum status open_shards(struct weights_writer *writer, const struct safetensors_entry *entries, int64_t count,
                               bool kept, struct error *error)
{
    char name[SHARD_NAME], path[PATH_MAX];
    enum status status =
        memory_new(writer->shard_count, sizeof(struct safetensors_writer *), "shards", &writer->shards, error);
    for (int64_t shard = 0, first = 0; shard < writer->shard_count && status == STATUS_OK; shard++) {
        int64_t after = first;
        while (after < count && writer->places[after].shard == shard) after++;
        shard_name(writer, shard, name);
        if ((status = directory_path(writer->directory, name, too_long, path, error)) == STATUS_OK)
            status = (kept ? safetensors_writer_take_up : safetensors_writer_open)(path, entries + first, after - first,
                                                                                   &writer->shards[shard], error);
        first = after;
    }
    return status;
}

static enum status write_index(struct weights_writer *writer, const struct safetensors_entry *entries, int64_t count,
                               int64_t total, struct error *error)
{
    char name[SHARD_NAME];
    FILE *out = open_memstream(&writer->index, &writer->index_size);
    if (out == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for an index of shards");
    (void)fprintf(out, "{\"metadata\": {\"total_size\": %lld}, \"weight_map\": {", (long long)total);
    for (int64_t i = 0; i < count; i++) {
        (void)fputs(i > 0 ? ",\n\"" : "\n\"", out);
        for (const char *at = entries[i].name; *at != '\0'; at++) {
            if (*at == '"' || *at == '\\') (void)fputc('\\', out);
            (void)fputc(*at, out);
        }
        shard_name(writer, writer->places[i].shard, name);
        (void)fprintf(out, "\": \"%s\"", name);
    }
    (void)fputs("\n}}\n", out);
    return fclose(out) == 0 ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for an index of shards");
}

enum status weights_writer_open(const struct weights_writer_target *target, const struct safetensors_entry *entries,
                                int64_t count, struct weights_writer **out, struct error *error)
{
    struct weights_writer *writer = NULL;
    char path[PATH_MAX];
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *writer, "weights to write", &writer, error)) != STATUS_OK) return status;
    (void)snprintf(writer->directory, sizeof writer->directory, "%s", target->directory);
    if ((status = memory_new(count, sizeof *writer->places, "weights to write", &writer->places, error)) != STATUS_OK)
        goto done;
    const int64_t most = target->gguf != NULL ? INT64_MAX : target->shard_bytes;
    const int64_t total = share_out(writer, entries, count, most);
    if (target->gguf != NULL) {
        if ((status = directory_path(writer->directory, gguf_name, too_long, path, error)) != STATUS_OK) goto done;
        status = gguf_writer_open(path, target->gguf, entries, count, target->kept, &writer->gguf, error);
    } else if ((status = open_shards(writer, entries, count, target->kept, error)) == STATUS_OK &&
               writer->shard_count > 1) {
        status = write_index(writer, entries, count, total, error);
    }
    if (status != STATUS_OK) goto done;
    *out = writer;
    writer = NULL;
done:
    weights_writer_close(writer);
    return status;
}

enum status weights_writer_bytes(struct weights_writer *writer, int64_t index, const void *bytes, int64_t size,
                                 struct error *error)
{
    const struct place *place = &writer->places[index];
    if (writer->gguf != NULL) return gguf_writer_bytes(writer->gguf, index, bytes, size, error);
    return safetensors_writer_bytes(writer->shards[place->shard], place->index, bytes, size, error);
}

enum status weights_writer_f32(struct weights_writer *writer, int64_t index, const float *values, int64_t count,
                               struct error *error)
{
    const struct place *place = &writer->places[index];
    float chunk[CHUNK / sizeof(float)]; /* for element types no wider than float */
    if (writer->gguf == NULL)
        return safetensors_writer_f32(writer->shards[place->shard], place->index, values, count, error);
    if (place->dtype->from_f32 == NULL)
        return error_set(error, STATUS_INVALID, "float values for a tensor of %s", place->dtype->name);
    for (int64_t at = 0, now; at < count; at += now) {
        const int64_t left = count - at, width = (int64_t)place->dtype->bits / 8;
        now = left < CHUNK / (int64_t)sizeof(float) ? left : CHUNK / (int64_t)sizeof(float);
        place->dtype->from_f32(values + at, chunk, now);
        const enum status status = gguf_writer_bytes(writer->gguf, index, chunk, now * width, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

bool weights_writer_full(const struct weights_writer *writer, int64_t index)
{
    const struct place *place = &writer->places[index];
    if (writer->gguf != NULL) return gguf_writer_full(writer->gguf, index);
    return safetensors_writer_full(writer->shards[place->shard], place->index);
}

void weights_writer_rewind(struct weights_writer *writer, int64_t index)
{
    const struct place *place = &writer->places[index];
    if (writer->gguf != NULL)
        gguf_writer_rewind(writer->gguf, index);
    else
        safetensors_writer_rewind(writer->shards[place->shard], place->index);
}

enum status weights_writer_save(struct weights_writer *writer, struct error *error)
{
    enum status status = STATUS_OK;
    if (writer->gguf != NULL) return gguf_writer_save(writer->gguf, error);
    for (int64_t i = 0; i < writer->shard_count && status == STATUS_OK; i++)
        status = safetensors_writer_save(writer->shards[i], error);
    return status;
}

const char *weights_writer_name(const struct weights_writer *writer)
{
    return writer->gguf != NULL ? gguf_name : writer->shard_count > 1 ? index_name : single_name;
}

enum status weights_writer_commit(struct weights_writer *writer, struct error *error)
{
    char path[PATH_MAX];
    enum status status = STATUS_OK;
    if (writer->gguf != NULL) return gguf_writer_commit(writer->gguf, error);
    for (int64_t i = 0; i < writer->shard_count && status == STATUS_OK; i++)
        status = safetensors_writer_commit(writer->shards[i], error);
    if (status != STATUS_OK || writer->index == NULL) return status;
    if ((status = directory_path(writer->directory, index_name, too_long, path, error)) != STATUS_OK) return status;
    return file_writer_put(path, writer->index, writer->index_size, error);
}

void weights_writer_close(struct weights_writer *writer)
{
    if (writer == NULL) return;
    for (int64_t i = 0; writer->shards != NULL && i < writer->shard_count; i++)
        safetensors_writer_close(writer->shards[i]);
    memory_free(writer->shards);
    memory_free(writer->places);
    gguf_writer_close(writer->gguf);
    free(writer->index);
    memory_free(writer);
}
