#include "selftest/exam.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 16, UNCOPIED = 0xa5 }; /* UNCOPIED: a byte that the device shall overwrite */
static const float SENTINEL = 12345.5F;

enum status exam_init(struct exam *exam, struct backend *backend, struct error *error)
{
    enum status status;
    *exam = (struct exam){.backend = backend};
    if ((status = memory_new(EXAM_ARENA, sizeof *exam->staging, "a self-test", &exam->staging, error)) != STATUS_OK ||
        (status = memory_new(EXAM_VALUES, sizeof *exam->values, "a self-test", &exam->values, error)) != STATUS_OK ||
        (status = backend->ops->prepare(backend, EXAM_TOKENS, EXAM_ARENA, error)) != STATUS_OK)
        return status;
    return backend->ops->allocate(backend, EXAM_ARENA, "a self-test", &exam->arena, error);
}

void exam_reset(struct exam *exam)
{
    if (exam->arena != NULL) exam->backend->ops->release(exam->backend, exam->arena);
    memory_free(exam->staging);
    memory_free(exam->values);
    *exam = (struct exam){0};
}

void exam_begin(struct exam *exam)
{
    exam->used = exam->value_count = exam->output_count = 0;
    exam->stream = 0;
    exam->outside = NULL;
    exam->coarse = false;
    exam->status = STATUS_OK;
}

void exam_fail(struct exam *exam, enum status status, const struct error *error)
{
    if (status == STATUS_OK || exam->status != STATUS_OK) return;
    exam->status = status;
    exam->error = *error;
}

static void too_much(struct exam *exam, const char *what)
{
    struct error error;
    exam_fail(exam, error_set(&error, STATUS_INTERNAL, "a check has more %s than there is space for", what), &error);
}

/* Allocates elements of the arena at a multiple of 64 bytes; if they do not fit the run fails. */
static void *take(struct exam *exam, int64_t elements)
{
    const int64_t first = exam->used, whole = (elements + GUARD - 1) / GUARD * GUARD;
    if (whole > EXAM_ARENA - first) {
        too_much(exam, "matrices");
        return exam->arena;
    }
    exam->used += whole;
    return (char *)exam->arena + (size_t)first * exam->backend->ops->element;
}

/* Nearly normal and fast: four uniform numbers of 16 bits added up, from the `index`-th output of SplitMix64 (Steele,
 * Lea and Flood, OOPSLA 2014). At most 3.5. */
static float nearly_normal(uint64_t stream, uint64_t index)
{
    uint64_t x = (stream << 36) + index + 1;
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const int64_t sum = (int64_t)((x & 0xffff) + ((x >> 16) & 0xffff) + ((x >> 32) & 0xffff) + (x >> 48));
    return (float)((double)(sum - 131070) * (1.7320508075688772 / 65536));
}

static float random_of(const struct exam *exam, int64_t index)
{
    const float x = nearly_normal(exam->stream, (uint64_t)index);
    return exam->coarse ? roundf(32 * x) / 32 : x;
}

enum content { RANDOM, FILLED, GIVEN };

static struct matrix make(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, enum content content,
                          float number, const float *values)
{
    const int64_t stride = columns + gap, region = rows * stride + GUARD;
    const struct matrix m = {take(exam, region), rows, columns, stride, exam->backend->ops->element};
    if (exam->status != STATUS_OK) return m;
    exam->stream++;
    for (int64_t i = 0; i < region; i++) exam->staging[i] = SENTINEL;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t i = r * columns + c;
            exam->staging[r * stride + c] = content == RANDOM   ? number * random_of(exam, i)
                                            : content == FILLED ? number
                                                                : values[i];
        }
    exam->backend->ops->upload(exam->backend, matrix_of(m.data, 1, region, m.element), exam->staging, DTYPE_F32);
    return m;
}

struct matrix exam_random(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, double scale)
{
    return make(exam, rows, columns, gap, RANDOM, (float)scale, NULL);
}

struct matrix exam_filled(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, double value)
{
    return make(exam, rows, columns, gap, FILLED, (float)value, NULL);
}

struct matrix exam_given(struct exam *exam, int64_t rows, int64_t columns, const float *values)
{
    return make(exam, rows, columns, 0, GIVEN, 0, values);
}

struct matrix exam_target(struct exam *exam, int64_t rows, int64_t columns, int64_t gap, bool accumulate)
{
    return accumulate ? exam_random(exam, rows, columns, gap, 1) : exam_filled(exam, rows, columns, gap, NAN);
}

void *exam_bytes(struct exam *exam, const void *from, int64_t bytes)
{
    void *there = take(exam, backend_elements(exam->backend, bytes));
    if (exam->status != STATUS_OK || bytes > EXAM_ARENA) return there;
    memset(exam->staging, 0, (size_t)bytes);
    exam->backend->ops->write_bytes(exam->backend, there, from != NULL ? from : exam->staging, (size_t)bytes);
    return there;
}

/* Space for an output, or NULL. */
static double *output(struct exam *exam, const char *name, int64_t count, double bound)
{
    if (exam->output_count == EXAM_OUTPUTS || count > EXAM_VALUES - exam->value_count) too_much(exam, "outputs");
    if (exam->status != STATUS_OK) return NULL;
    double *values = exam->values + exam->value_count;
    exam->outputs[exam->output_count++] = (struct exam_output){name, exam->value_count, count, bound};
    exam->value_count += count;
    return values;
}

/* Whether numbers of the gaps or of the guard have changed. */
static bool written_outside(const float *region, struct matrix m)
{
    for (int64_t i = 0; i < m.rows * m.stride + GUARD; i++)
        if ((i % m.stride >= m.columns || i >= m.rows * m.stride) &&
            memcmp(&region[i], &SENTINEL, sizeof SENTINEL) != 0)
            return true;
    return false;
}

void exam_record(struct exam *exam, const char *name, struct matrix m, double growth, double norm)
{
    const int64_t region = m.rows * m.stride + GUARD;
    double *values = output(exam, name, m.rows * m.columns, 0), largest = norm;
    if (values == NULL) return;
    memset(exam->staging, UNCOPIED, (size_t)region * sizeof *exam->staging);
    exam->backend->ops->download(exam->backend, matrix_of(m.data, 1, region, m.element), exam->staging, DTYPE_F32);
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t c = 0; c < m.columns; c++) {
            const double value = (double)exam->staging[r * m.stride + c];
            if (fabs(value) > largest) largest = fabs(value);
            *values++ = value;
        }
    if (exam->outside == NULL && written_outside(exam->staging, m)) exam->outside = name;
    exam->outputs[exam->output_count - 1].bound = growth * EXAM_ROUNDOFF * largest;
}

void exam_record_bytes(struct exam *exam, const char *name, const void *bytes, int64_t count)
{
    double *values = output(exam, name, count, 0);
    if (values == NULL) return;
    memset(exam->staging, UNCOPIED, (size_t)count);
    exam->backend->ops->read_bytes(exam->backend, bytes, exam->staging, (size_t)count);
    exam_sync(exam);
    const unsigned char *found = (const unsigned char *)exam->staging;
    for (int64_t i = 0; i < count; i++) values[i] = (double)found[i];
}

void exam_record_doubles(struct exam *exam, const char *name, const double *values, int64_t count, double bound)
{
    double *to = output(exam, name, count, bound);
    if (to != NULL) memcpy(to, values, (size_t)count * sizeof *values);
}

void exam_record_number(struct exam *exam, const char *name, double value, double bound)
{
    exam_record_doubles(exam, name, &value, 1, bound);
}

void exam_sync(struct exam *exam)
{
    struct error error;
    exam_fail(exam, exam->backend->ops->sync(exam->backend, &error), &error);
}

bool exam_differs(const struct exam *truth, const struct exam *found, double *worst, char *text, size_t size)
{
    if (found->outside != NULL) {
        (void)snprintf(text, size, "%s: wrote outside of it", found->outside);
        return true;
    }
    for (int i = 0; i < truth->output_count; i++) {
        const struct exam_output *output = &truth->outputs[i];
        for (int64_t k = 0; k < output->count; k++) {
            const double expected = truth->values[output->first + k], is = found->values[output->first + k];
            const double gap = fabs(is - expected);
            if (isnan(expected) ? isnan(is) : gap <= output->bound || is == expected) {
                if (output->bound > 0 && gap / output->bound > *worst) *worst = gap / output->bound;
                continue;
            }
            (void)snprintf(text, size, "%s [%lld] is %.9g, plain loops give %.9g (may differ by %.2g)", output->name,
                           (long long)k, is, expected, output->bound);
            return true;
        }
    }
    return false;
}

void exam_batch_fill(struct exam_batch *batch, const int64_t *lengths, uint32_t vocabulary)
{
    int64_t t = 0, sequences = 0, longest = 0;
    for (; lengths[sequences] > 0; sequences++) {
        batch->starts[sequences] = t;
        longest = lengths[sequences] > longest ? lengths[sequences] : longest;
        for (int64_t i = 0; i < lengths[sequences]; i++, t++) {
            batch->positions[t] = (int32_t)i;
            batch->ids[t] = (uint32_t)random_below(11, 1, (uint64_t)t, vocabulary);
            batch->targets[t] = (uint32_t)random_below(11, 2, (uint64_t)t, vocabulary);
        }
        batch->targets[t - 1] = TARGET_NONE;
    }
    batch->starts[sequences] = t;
    batch->batch = (struct batch){.tokens = t,
                                  .sequences = sequences,
                                  .longest = longest,
                                  .starts = batch->starts,
                                  .ids = batch->ids,
                                  .targets = batch->targets,
                                  .positions = batch->positions};
}
