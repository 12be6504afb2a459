#include "quant/element.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>

enum { MXFP4_BLOCK = 32, NVFP4_BLOCK = 16 };

const float element_e2m1[ELEMENT_E2M1_VALUES] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/* Seven of the eight numbers with one exponent, and all: multiples of the least significant bit. */
#define SEVEN(bit) 8 * (bit), 9 * (bit), 10 * (bit), 11 * (bit), 12 * (bit), 13 * (bit), 14 * (bit)
#define EIGHT(bit) SEVEN(bit), 15 * (bit)

/* clang-format off */
const float element_e4m3[ELEMENT_E4M3_VALUES] = {
    0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f, /* below the normal numbers */
    EIGHT(0x1p-9f), EIGHT(0x1p-8f), EIGHT(0x1p-7f), EIGHT(0x1p-6f), EIGHT(0x1p-5f), EIGHT(0x1p-4f), EIGHT(0x1p-3f),
    EIGHT(0x1p-2f), EIGHT(0x1p-1f), EIGHT(0x1p0f), EIGHT(0x1p1f), EIGHT(0x1p2f), EIGHT(0x1p3f), EIGHT(0x1p4f),
    SEVEN(0x1p5f),
};
/* clang-format on */

struct coding element_coding_e2m1(void)
{
    return (struct coding){
        .bits = 4, .values = element_e2m1, .count = ELEMENT_E2M1_VALUES, .mirrored = true, .ties = TIES_EVEN};
}

struct coding element_coding_e4m3(void)
{
    return (struct coding){
        .bits = 8, .values = element_e4m3, .count = ELEMENT_E4M3_VALUES, .mirrored = true, .ties = TIES_EVEN};
}

enum status element_largest(struct backend *backend, struct matrix weight, float *out, struct error *error)
{
    const int64_t columns = weight.columns;
    struct matrix largest = matrix_of(NULL, 1, columns, backend->ops->element);
    void *sums = NULL;
    float *line = NULL;
    enum status status;
    *out = 0;
    if ((status = memory_new(columns, sizeof *line, "largest weights", &line, error)) != STATUS_OK) goto done;
    if ((status = backend->ops->allocate(backend, columns, "largest weights", &largest.data, error)) != STATUS_OK)
        goto done;
    status = backend->ops->allocate(backend, backend_elements(backend, columns * (int64_t)sizeof(double)),
                                    "largest weights", &sums, error);
    if (status != STATUS_OK) goto done;
    backend->ops->add_magnitudes(backend, sums, largest, weight);
    backend->ops->download(backend, largest, line, DTYPE_F32);
    if ((status = backend->ops->sync(backend, error)) != STATUS_OK) goto done;
    for (int64_t c = 0; c < columns; c++) *out = line[c] > *out ? line[c] : *out;
done:
    if (sums != NULL) backend->ops->release(backend, sums);
    matrix_release(backend, &largest);
    memory_free(line);
    return status;
}

static struct coding blocks_of(int64_t columns, enum scale_rule rule, enum scale_type type)
{
    struct coding coding = element_coding_e2m1();
    coding.rule = rule;
    coding.type = type;
    coding.group_size = columns;
    return coding;
}

struct coding element_mxfp4(void)
{
    return blocks_of(MXFP4_BLOCK, SCALE_POWER, SCALE_TYPE_E8M0);
}

struct coding element_nvfp4(void)
{
    return blocks_of(NVFP4_BLOCK, SCALE_ABSMAX, SCALE_TYPE_E4M3);
}

enum status element_nvfp4_factor(struct backend *backend, struct matrix weight, struct coding *coding,
                                 struct error *error)
{
    float most;
    const enum status status = element_largest(backend, weight, &most, error);
    coding->factor = fmaxf((float)((double)most / (6 * CODING_E4M3_LARGEST)), FLT_MIN);
    return status;
}
