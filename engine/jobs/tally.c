#include "jobs/tally.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/version.h"
#include "files/file.h"
#include "files/file_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The file: this, then `done` rows. */
struct header {
    char magic[8];
    uint64_t fingerprint; /* with the engine's revision in it */
    int64_t rows, width, done;
    uint64_t sum; /* of the rows */
};
_Static_assert(sizeof(struct header) == 48, "the header has no gaps");

static const char magic[8] = "deltaqT1";
#define SAVE_SECONDS 1.0

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t sum_of(const void *bytes, size_t size)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, bytes, size);
    return checksum_value(&sum);
}

/* What was left; anything that does not fit is as if it were not there. */
static void take_up(struct tally *tally)
{
    struct header header;
    struct error ignored;
    char *bytes = NULL;
    size_t size = 0;
    const int64_t limit = (int64_t)sizeof header + tally->rows * tally->width * (int64_t)sizeof(double);
    if (file_read_all(AT_FDCWD, tally->path, limit, &bytes, &size, &ignored) != STATUS_OK) return;
    if (size >= sizeof header) {
        memcpy(&header, bytes, sizeof header);
        const size_t body = size - sizeof header;
        if (memcmp(header.magic, magic, sizeof magic) == 0 && header.fingerprint == tally->fingerprint &&
            header.rows == tally->rows && header.width == tally->width && header.done >= 0 &&
            header.done <= tally->rows && body == (size_t)(header.done * header.width) * sizeof(double) &&
            header.sum == sum_of(bytes + sizeof header, body)) {
            memcpy(tally->values, bytes + sizeof header, body);
            tally->done = tally->saved = header.done;
        }
    }
    memory_free(bytes);
}

enum status tally_open(const char *directory, const char *name, uint64_t fingerprint, int64_t rows, int64_t width,
                       struct tally *out, struct error *error)
{
    struct checksum sum;
    const int64_t revision = ENGINE_REVISION;
    *out = (struct tally){.rows = rows, .width = width, .saved_at = seconds_now()};
    const enum status status = memory_new(rows * width, sizeof(double), "a run's numbers", &out->values, error);
    if (status != STATUS_OK) return status;
    checksum_init(&sum);
    checksum_add(&sum, &revision, sizeof revision);
    checksum_add(&sum, &fingerprint, sizeof fingerprint);
    out->fingerprint = checksum_value(&sum);
    for (int64_t i = 0; i < rows * width; i++) out->values[i] = NAN;
    if (directory == NULL) return STATUS_OK;
    if (snprintf(out->path, sizeof out->path, "%s/%s", directory, name) >= (int)sizeof out->path) {
        tally_reset(out);
        return error_set(error, STATUS_INVALID, "a work directory's path is too long");
    }
    take_up(out);
    return STATUS_OK;
}

/* A new file replaces the old one when it is whole. It grows by and by: half of it is written on average. */
void tally_plan(int64_t rows, int64_t width, int64_t saves, struct run_plan *plan)
{
    const int64_t header = (int64_t)sizeof(struct header), row = width * (int64_t)sizeof(double);
    plan_take(plan, PLAN_HOST, rows * row);
    if (saves == 0) return;
    plan_take(plan, PLAN_DISK, header + rows * row + (saves > 1 ? header + (rows - 1) * row : 0));
    plan->written_bytes += saves * header + (saves + 1) * rows * row / 2;
}

void tally_reset(struct tally *tally)
{
    memory_free(tally->values);
    *tally = (struct tally){0};
}

enum status tally_save(struct tally *tally, struct error *error)
{
    if (tally->path[0] == '\0' || tally->saved == tally->done) return STATUS_OK;
    const size_t body = (size_t)(tally->done * tally->width) * sizeof(double);
    struct header header = {.fingerprint = tally->fingerprint,
                            .rows = tally->rows,
                            .width = tally->width,
                            .done = tally->done,
                            .sum = sum_of(tally->values, body)};
    struct file_writer *writer = NULL;
    memcpy(header.magic, magic, sizeof magic);
    enum status status = file_writer_open(tally->path, 0, &writer, error);
    if (status == STATUS_OK) status = file_writer_append(writer, &header, sizeof header, error);
    if (status == STATUS_OK) status = file_writer_append(writer, tally->values, body, error);
    if (status == STATUS_OK) status = file_writer_commit(writer, error);
    file_writer_close(writer);
    if (status == STATUS_OK) tally->saved = tally->done;
    tally->saved_at = seconds_now();
    return status;
}

enum status tally_add(struct tally *tally, const double *row, struct error *error)
{
    memcpy(tally->values + tally->done * tally->width, row, (size_t)tally->width * sizeof *row);
    tally->done++;
    if (tally->path[0] == '\0' || seconds_now() - tally->saved_at < SAVE_SECONDS) return STATUS_OK;
    return tally_save(tally, error);
}
