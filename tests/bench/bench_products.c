/* bench_products [tiny]: what the first CUDA device (DELTAQ_BENCH_DEVICE=cuda:N: another) makes of the products that
 * deltaq asks for, each in every way that cuBLAS may be asked: floats exactly, in tf32, rounded to bf16 by cuBLAS, and
 * bf16 operands; then triangles, batches as attention has them, copies, and what a launch takes. A line of JSON each:
 *   {"kind": …, "what": …, "shape": …, "milliseconds": …, "tflops" or "gbytes": …, "right": true}
 * right: one element is what the processor makes of it. Operands are random: of zeros a device makes more. Ends with 1
 * when something is wrong or fails. */
#include "backend/cuda/open.h"
#include "bench.h"

#include <math.h>
#include <string.h>

enum { HOST_NUMBERS = 1 << 22, MOST_RUNS = 1000, ALIGNED = 64 };

struct products {
    struct device *device;
    float *numbers;   /* [HOST_NUMBERS], random, of eight bits each, so that rounding to bf16 changes none */
    uint16_t *narrow; /* the same numbers as bf16 */
    int64_t scale;    /* shapes are divided by it */
    const char *kind;
    int failed;
};

/* A product as a layer makes it: rows of tokens by outputs, of inputs. */
struct shape {
    const char *what;
    int64_t rows, columns, inner, batch; /* batch: 0 for one alone */
    bool transpose_first;                /* a Hessian: the same tokens twice */
};

static const struct shape shapes[] = {
    {"160M attention", 2048, 768, 768, 0, false},
    {"160M MLP", 2048, 3072, 768, 0, false},
    {"7B attention", 2048, 4096, 4096, 0, false},
    {"7B MLP", 2048, 11008, 4096, 0, false},
    {"7B MLP, 8192 tokens", 8192, 11008, 4096, 0, false},
    {"7B logits", 2048, 100352, 4096, 0, false},
    {"a square", 8192, 8192, 8192, 0, false},
    {"errors of a layer, 256 rows", 256, 4096, 4096, 0, false},
    {"errors of a layer, 2048 rows", 2048, 4096, 4096, 0, false},
    {"Hessian, square of 1024", 1024, 1024, 2048, 0, true},
    {"Hessian, square of 2048", 2048, 2048, 2048, 0, true},
    {"Hessian, whole", 4096, 4096, 2048, 0, true},
    {"7B scores, 32 heads", 256, 2048, 128, 32, false},
    {"7B mix, 32 heads", 256, 128, 2048, 32, false},
    {"160M scores, 12 heads", 256, 2048, 64, 12, false},
};

static bool good(struct products *p, const char *what, int code)
{
    char text[DEVICE_TEXT];
    if (code == 0) return true;
    p->device->error_text(code, text, sizeof text);
    (void)fprintf(stderr, "%s: %s\n", what, text);
    p->failed = 1;
    return false;
}

static void *take(struct products *p, int64_t bytes)
{
    void *block = NULL;
    return good(p, "memory", p->device->allocate(p->device, (size_t)bytes, &block)) ? block : NULL;
}

static void give(struct products *p, void *block)
{
    if (block != NULL) (void)good(p, "memory", p->device->release(p->device, block));
}

/* The host's numbers, over and over. */
static void *random_operand(struct products *p, int64_t count, bool narrow)
{
    const int64_t width = narrow ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float);
    const char *numbers = narrow ? (const char *)p->narrow : (const char *)p->numbers;
    char *block = take(p, count * width);
    for (int64_t at = 0; block != NULL && at < count && p->failed == 0; at += HOST_NUMBERS) {
        const size_t bytes = (size_t)((count - at < HOST_NUMBERS ? count - at : HOST_NUMBERS) * width);
        (void)good(p, "an operand", p->device->upload(p->device, block + at * width, bytes, numbers, bytes, bytes, 1));
    }
    return block;
}

typedef int work(struct products *p, const void *call);

/* Seconds of one, of as many as fill a quarter of a second; 0 when one failed. */
static double time_work(struct products *p, const char *what, work *run, const void *call)
{
    int64_t runs = 1;
    for (;; runs *= 4) {
        const double began = bench_seconds();
        for (int64_t i = 0; i < runs; i++)
            if (!good(p, what, run(p, call))) return 0;
        if (!good(p, what, p->device->synchronize(p->device))) return 0;
        const double took = bench_seconds() - began;
        if (took > 0.25 || p->scale > 1 || runs > MOST_RUNS) return took / (double)runs;
    }
}

static void tell(const struct products *p, const char *what, const char *shape, double seconds, const char *unit,
                 double amount, bool right)
{
    printf("{\"kind\": \"%s\", \"what\": \"%s\", \"shape\": \"%s\", ", p->kind, what, shape);
    printf("\"milliseconds\": %.5f, \"%s\": %.3f, \"right\": %s}\n", seconds * 1e3, unit, amount / seconds,
           right ? "true" : "false");
    (void)fflush(stdout);
}

static int run_gemm(struct products *p, const void *call)
{
    return p->device->gemm(p->device, call);
}

static int run_batch(struct products *p, const void *call)
{
    return p->device->gemm_batched(p->device, call);
}

/* The first element against the processor's. Its terms are at most 1, and a sum of k of them in float is off by less
 * than k^2 / 2^24; tf32 and bf16 change no factor. */
static bool first_is_right(struct products *p, const struct device_gemm *g)
{
    float found = 0;
    double sum = 0;
    if (!good(p, "a result",
              p->device->download(p->device, &found, sizeof found, g->c, sizeof found, sizeof found, 1)) ||
        !good(p, "a result", p->device->synchronize(p->device)))
        return false;
    for (int64_t i = 0; i < g->k; i++) {
        const int64_t a = g->transpose_a ? i : i * g->lda, b = g->transpose_b ? i * g->ldb : i;
        sum += (double)p->numbers[a % HOST_NUMBERS] * (double)p->numbers[b % HOST_NUMBERS];
    }
    return fabs(sum - (double)found) <= (double)g->k * (double)g->k * 0x1p-24 + 1e-6;
}

static int64_t scaled(const struct products *p, int64_t size)
{
    const int64_t less = size / p->scale;
    return less > 8 ? less : 8;
}

/* Pointers to the parts of a batch, in the device's memory. */
static void *pointers_to(struct products *p, char *first, int64_t step, int64_t count)
{
    float *addresses[ALIGNED];
    void *block = take(p, count * (int64_t)sizeof addresses[0]);
    const size_t bytes = (size_t)count * sizeof addresses[0];
    for (int64_t i = 0; i < count; i++) addresses[i] = (float *)(void *)(first + i * step);
    if (block != NULL &&
        (!good(p, "pointers", p->device->upload(p->device, block, bytes, addresses, bytes, bytes, 1)) ||
         !good(p, "pointers", p->device->synchronize(p->device))))
        return NULL;
    return block;
}

/* Column-major, as cuBLAS has it: cᵀ [columns, rows] = w [inner, columns]ᵀ x [inner, rows]. */
static void time_shape(struct products *p, const struct shape *shape, bool narrow, bool exact)
{
    const int64_t rows = scaled(p, shape->rows), columns = scaled(p, shape->columns), inner = scaled(p, shape->inner);
    const int64_t batch = shape->batch > 0 ? shape->batch : 1, width = narrow ? 2 : 4;
    char text[80];
    struct device_gemm g = {.transpose_a = !shape->transpose_first,
                            .transpose_b = shape->transpose_first,
                            .m = columns,
                            .n = rows,
                            .k = inner,
                            .alpha = 1,
                            .lda = shape->transpose_first ? columns : inner,
                            .ldb = shape->transpose_first ? rows : inner,
                            .ldc = columns,
                            .exact = exact,
                            .bf16 = narrow};
    float *c = take(p, batch * rows * columns * (int64_t)sizeof *c);
    void *a = random_operand(p, batch * columns * inner, narrow), *b = random_operand(p, batch * rows * inner, narrow);
    g.a = a, g.b = b, g.c = c;
    (void)snprintf(text, sizeof text, "%s[%lld, %lld] = [., %lld]", shape->batch > 0 ? "batch of " : "",
                   (long long)rows, (long long)columns, (long long)inner);
    void *lists[3] = {NULL, NULL, NULL};
    double seconds = 0;
    if (p->failed == 0 && shape->batch == 0) seconds = time_work(p, shape->what, run_gemm, &g);
    if (p->failed == 0 && shape->batch > 0) {
        lists[0] = pointers_to(p, a, columns * inner * width, batch);
        lists[1] = pointers_to(p, b, rows * inner * width, batch);
        lists[2] = pointers_to(p, (char *)(void *)c, rows * columns * (int64_t)sizeof *c, batch);
        const struct device_gemm_batched call = {
            .each = g, .a = lists[0], .b = lists[1], .c = lists[2], .count = batch, .aligned = true};
        if (p->failed == 0) seconds = time_work(p, shape->what, run_batch, &call);
    }
    if (p->failed == 0) {
        const bool right = first_is_right(p, &g);
        tell(p, shape->what, text, seconds, "tflops", 2e-12 * (double)(batch * rows) * (double)columns * (double)inner,
             right);
        p->failed |= !right;
    }
    for (int i = 0; i < 3; i++) give(p, lists[i]);
    give(p, a), give(p, b), give(p, c);
}

struct copy {
    void *device, *host;
    size_t bytes;
    bool in;
};

static int run_copy(struct products *p, const void *call)
{
    const struct copy *c = call;
    return c->in ? p->device->upload(p->device, c->device, c->bytes, c->host, c->bytes, c->bytes, 1)
                 : p->device->download(p->device, c->host, c->bytes, c->device, c->bytes, c->bytes, 1);
}

static int run_add(struct products *p, const void *call)
{
    return p->device->launch(p->device, KERNEL_add, 4096, call);
}

static int run_fill(struct products *p, const void *call)
{
    return p->device->launch(p->device, KERNEL_fill, 1, call);
}

static void time_memory(struct products *p)
{
    struct copy c = {.bytes = (size_t)((256 << 20) / p->scale)};
    const int64_t columns = 4096, rows = (int64_t)(c.bytes / sizeof(float)) / columns;
    if (!good(p, "pinned memory", p->device->allocate_host(p->device, c.bytes, &c.host))) return;
    memset(c.host, 0, c.bytes);
    c.device = take(p, (int64_t)c.bytes);
    void *other = take(p, (int64_t)c.bytes);
    const double gbytes = (double)c.bytes * 1e-9;
    for (int in = 1; in >= 0 && p->failed == 0; in--) {
        c.in = in == 1;
        const double seconds = time_work(p, "a copy", run_copy, &c);
        if (p->failed == 0)
            tell(p, in ? "from pinned memory" : "to pinned memory", "256 MiB", seconds, "gbytes", gbytes, true);
    }
    if (p->failed == 0) {
        const struct add_args add = {.to = matrix_of(c.device, rows, columns, sizeof(float)),
                                     .from = matrix_of(other, rows, columns, sizeof(float)),
                                     .alpha = 1,
                                     .beta = 1};
        const struct fill_args fill = {.to = matrix_of(c.device, 1, 1, sizeof(float)), .value = 1};
        const double seconds = time_work(p, "an addition", run_add, &add);
        if (p->failed == 0)
            tell(p, "the kernel add", "256 MiB, read twice, written once", seconds, "gbytes", 3 * gbytes, true);
        const double launch = p->failed == 0 ? time_work(p, "a launch", run_fill, &fill) : 0;
        if (p->failed == 0) tell(p, "a launch", "the kernel fill, one block", launch, "per_second", 1, true);
    }
    (void)p->device->release_host(p->device, c.host);
    give(p, c.device), give(p, other);
}

static void make_numbers(struct products *p)
{
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < HOST_NUMBERS; i++) {
        uint32_t bits;
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        p->numbers[i] = (float)((int)(state >> 32 & 127) - 64) / 64;
        memcpy(&bits, &p->numbers[i], sizeof bits);
        p->narrow[i] = (uint16_t)(bits >> 16);
    }
}

static void time_kind(struct products *p, const char *kind, const char *products, bool narrow)
{
    const char *named = getenv("DELTAQ_BENCH_DEVICE");
    const int ordinal = named != NULL && strncmp(named, "cuda:", 5) == 0 ? (int)strtol(named + 5, NULL, 10) : 0;
    struct error error = {.detail = ""};
    if (cuda_find_device(ordinal, products, &p->device, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        p->failed = 1;
        return;
    }
    p->kind = kind;
    const bool exact = strcmp(kind, "f32") == 0;
    if (exact) (void)fprintf(stderr, "%s\n", p->device->text);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && p->failed == 0; i++)
        time_shape(p, &shapes[i], narrow, exact);
    if (exact && p->failed == 0) time_memory(p);
    p->device->close(p->device);
}

int main(int argc, char **argv)
{
    struct products p = {.scale = argc > 1 && strcmp(argv[1], "tiny") == 0 ? 64 : 1};
    p.numbers = malloc(HOST_NUMBERS * sizeof *p.numbers);
    p.narrow = malloc(HOST_NUMBERS * sizeof *p.narrow);
    if (p.numbers == NULL || p.narrow == NULL) return 1;
    make_numbers(&p);
    time_kind(&p, "f32", "f32", false);
    if (p.failed == 0) time_kind(&p, "tf32", "tf32", false);
    if (p.failed == 0) time_kind(&p, "bf16, rounded by cuBLAS", "bf16", false);
    if (p.failed == 0) time_kind(&p, "bf16 operands", "bf16", true);
    free(p.numbers);
    free(p.narrow);
    return p.failed;
}
