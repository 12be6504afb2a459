#include "jobs/saved_table.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/version.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The file: this header, then `done` rows. */
struct header {
    char magic[8];
    uint64_t fingerprint; /* with the engine's revision in it */
    int64_t rows, width, done;
    uint64_t sum; /* of the rows */
};
_Static_assert(sizeof(struct header) == 48, "the header has no gaps");

static const char magic[8] = "deltaqT1";
#define SAVE_SECONDS 1.0

static uint64_t sum_of(const void *bytes, size_t size)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, bytes, size);
    return checksum_value(&sum);
}

/* Reads the rows of an earlier attempt; a file that does not fit is ignored. */
static void take_up(struct saved_table *table)
{
    struct header header;
    struct error ignored;
    char *bytes = NULL;
    size_t size = 0;
    const int64_t limit = (int64_t)sizeof header + table->rows * table->width * (int64_t)sizeof(double);
    if (file_read_all(AT_FDCWD, table->path, limit, &bytes, &size, &ignored) != STATUS_OK) return;
    if (size >= sizeof header) {
        memcpy(&header, bytes, sizeof header);
        const size_t body = size - sizeof header;
        if (memcmp(header.magic, magic, sizeof magic) == 0 && header.fingerprint == table->fingerprint &&
            header.rows == table->rows && header.width == table->width && header.done >= 0 &&
            header.done <= table->rows && body == (size_t)(header.done * header.width) * sizeof(double) &&
            header.sum == sum_of(bytes + sizeof header, body)) {
            memcpy(table->values, bytes + sizeof header, body);
            table->done = table->saved = header.done;
        }
    }
    memory_free(bytes);
}

enum status saved_table_open(const char *directory, const char *name, uint64_t fingerprint, int64_t rows, int64_t width,
                             struct saved_table *out, struct error *error)
{
    struct checksum sum;
    const int64_t revision = ENGINE_REVISION;
    *out = (struct saved_table){.rows = rows, .width = width, .saved_at = clock_seconds()};
    const enum status status = memory_new(rows * width, sizeof(double), "a run's numbers", &out->values, error);
    if (status != STATUS_OK) return status;
    checksum_init(&sum);
    checksum_add(&sum, &revision, sizeof revision);
    checksum_add(&sum, &fingerprint, sizeof fingerprint);
    out->fingerprint = checksum_value(&sum);
    for (int64_t i = 0; i < rows * width; i++) out->values[i] = NAN;
    if (directory == NULL) return STATUS_OK;
    if (snprintf(out->path, sizeof out->path, "%s/%s", directory, name) >= (int)sizeof out->path) {
        saved_table_reset(out);
        return error_set(error, STATUS_INVALID, "a work directory's path is too long");
    }
    take_up(out);
    return STATUS_OK;
}

/* A complete new file replaces the old one. It grows gradually: on average half of it is written. */
void saved_table_plan(int64_t rows, int64_t width, int64_t saves, struct run_plan *plan)
{
    const int64_t header = (int64_t)sizeof(struct header), row = width * (int64_t)sizeof(double);
    plan_take(plan, PLAN_HOST, rows * row);
    if (saves == 0) return;
    plan_take(plan, PLAN_DISK, header + rows * row + (saves > 1 ? header + (rows - 1) * row : 0));
    const int64_t rewritten = saturating_multiply(saves + 1, rows * row) / 2;
    plan->written_bytes = saturating_add(plan->written_bytes, saturating_add(saves * header, rewritten));
}

void saved_table_reset(struct saved_table *table)
{
    memory_free(table->values);
    *table = (struct saved_table){0};
}

enum status saved_table_save(struct saved_table *table, struct error *error)
{
    if (table->path[0] == '\0' || table->saved == table->done) return STATUS_OK;
    const size_t body = (size_t)(table->done * table->width) * sizeof(double);
    struct header header = {.fingerprint = table->fingerprint,
                            .rows = table->rows,
                            .width = table->width,
                            .done = table->done,
                            .sum = sum_of(table->values, body)};
    struct file_writer *writer = NULL;
    memcpy(header.magic, magic, sizeof magic);
    enum status status = file_writer_open(table->path, 0, &writer, error);
    if (status == STATUS_OK) status = file_writer_append(writer, &header, sizeof header, error);
    if (status == STATUS_OK) status = file_writer_append(writer, table->values, body, error);
    if (status == STATUS_OK) status = file_writer_commit(writer, error);
    file_writer_close(writer);
    if (status == STATUS_OK) table->saved = table->done;
    table->saved_at = clock_seconds();
    return status;
}

void saved_table_put(struct saved_table *table, const double *row)
{
    memcpy(table->values + table->done * table->width, row, (size_t)table->width * sizeof *row);
    table->done++;
}

enum status saved_table_add(struct saved_table *table, const double *row, struct error *error)
{
    saved_table_put(table, row);
    if (table->path[0] == '\0' || clock_seconds() - table->saved_at < SAVE_SECONDS) return STATUS_OK;
    return saved_table_save(table, error);
}
