/* bench_attention SEQUENCES LENGTH HEADS KV_HEADS HEAD_DIM [RUNS]: times attention forward and backward on random
 * numbers, on the CPU or on DELTAQ_BENCH_DEVICE, with products in DELTAQ_BENCH_PRODUCTS (f32). A line of JSON each with
 * the median of RUNS calls (5): seconds, and TFLOP/s of what a causal mask leaves (a query sees half of the keys; two
 * products forward, five backward). */
#include "bench.h"

struct timed {
    struct backend *backend;
    struct attention_args args;
    int runs;
};

static struct matrix random_matrix(struct backend *backend, int64_t rows, int64_t columns)
{
    struct error error;
    struct matrix m = matrix_of(NULL, rows, columns, backend->ops->element);
    float *values = calloc((size_t)(rows * columns), sizeof *values);
    for (int64_t i = 0; i < rows * columns; i++) values[i] = (float)(i * 7919 % 1009) / 500 - 1;
    if (backend->ops->allocate(backend, rows * columns, "attention", &m.data, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        exit(1);
    }
    backend->ops->upload(backend, m, values, DTYPE_F32);
    free(values);
    return m;
}

static void wait(struct backend *backend)
{
    struct error error;
    if (backend->ops->sync(backend, &error) == STATUS_OK) return;
    (void)fprintf(stderr, "%s\n", error.detail);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct timed *t, const char *what, int products,
                    void (*call)(struct backend *, const struct attention_args *))
{
    double seconds[100];
    const struct batch *batch = t->args.batch;
    for (int i = -1; i < t->runs; i++) {
        const double began = bench_seconds();
        call(t->backend, &t->args);
        wait(t->backend);
        if (i >= 0) seconds[i] = bench_seconds() - began;
    }
    qsort(seconds, (size_t)t->runs, sizeof *seconds, by_size);
    const double median = seconds[t->runs / 2], length = (double)batch->longest;
    const double flop = 2.0 * products * (double)(batch->tokens * t->args.heads * t->args.head_dim) * (length + 1) / 2;
    printf("{\"what\": \"%s\", \"seconds\": %.6f, \"tflops\": %.3f}\n", what, median, flop / median / 1e12);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        (void)fputs("usage: bench_attention SEQUENCES LENGTH HEADS KV_HEADS HEAD_DIM [RUNS]\n", stderr);
        return 2;
    }
    int64_t n[7] = {0, 0, 0, 0, 0, 0, 5};
    for (int i = 1; i < argc && i < 7; i++) n[i] = atoll(argv[i]);
    const struct sequences sequences = bench_sequences(n[1], n[2], 2, 1);
    const int64_t tokens = n[1] * n[2], d = n[5];
    const struct batch batch = {.sequences = n[1], .tokens = tokens, .longest = n[2], .starts = sequences.starts};
    struct timed t = {.runs = (int)(n[6] < 1 ? 1 : n[6] > 100 ? 100 : n[6])};
    struct team *team = NULL;
    struct error error;
    if (team_new(0, &team, &error) != STATUS_OK ||
        backend_new(bench_device(), bench_products(), team, &t.backend, &error) != STATUS_OK ||
        t.backend->ops->prepare(t.backend, n[2], n[3] * d, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    t.args = (struct attention_args){.batch = &batch,
                                     .heads = n[3],
                                     .kv_heads = n[4],
                                     .head_dim = d,
                                     .scale = 0.1,
                                     .q = {random_matrix(t.backend, tokens, n[3] * d), 0, d},
                                     .k = {random_matrix(t.backend, tokens, n[4] * d), 0, d},
                                     .v = {random_matrix(t.backend, tokens, n[4] * d), 0, d},
                                     .out = {random_matrix(t.backend, tokens, n[3] * d), 0, d},
                                     .dout = {random_matrix(t.backend, tokens, n[3] * d), 0, d},
                                     .dq = {random_matrix(t.backend, tokens, n[3] * d), 0, d},
                                     .dk = {random_matrix(t.backend, tokens, n[4] * d), 0, d},
                                     .dv = {random_matrix(t.backend, tokens, n[4] * d), 0, d},
                                     .log_sum = random_matrix(t.backend, tokens, n[3])};
    measure(&t, "forward", 2, t.backend->ops->attention_forward);
    measure(&t, "backward", 5, t.backend->ops->attention_backward);
    backend_free(t.backend);
    team_free(team);
    return 0;
}
