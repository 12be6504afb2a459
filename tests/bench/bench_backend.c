/* bench_backend.c: how near the fast backend comes to this machine's limits. `make bench-backend`.
 * Prints, for each op at shapes from real models, GFLOP/s against the best large square product, or GB/s against a
 * large copy; the best of several runs, single precision but for products in bf16, DELTAQ_THREADS threads (default:
 * all). With one thread it is processor time that counts, so a busy machine can be used. An argument picks the lines
 * whose name contains it ("": all). A second one, `tiny`, calls each op once on a sixteenth of every size, to try the
 * program itself. */
#include "backend/backend.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench {
    struct team *team;
    struct backend *backend;
    const char *only;
    bool tiny;
    double flops, bytes; /* the limits, per second */
};

static double now(const struct backend *backend)
{
    struct timespec t;
    clock_gettime(team_size(backend->team) == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct matrix make(const struct bench *bench, int64_t rows, int64_t columns)
{
    struct error error;
    struct matrix m = matrix_of(NULL, rows, columns, sizeof(float));
    if (bench->backend->ops->allocate(bench->backend, rows * columns, "bench", &m.data, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.detail);
        exit(1);
    }
    float *values = m.data;
    for (int64_t i = 0; i < rows * columns; i++) values[i] = (float)(i * 7919 % 1009) / 500 - 1;
    return m;
}

static void drop(const struct bench *bench, struct matrix m)
{
    bench->backend->ops->release(bench->backend, m.data);
}

static int64_t sized(const struct bench *bench, int64_t size)
{
    return bench->tiny ? (size + 15) / 16 : size;
}

/* The least time of a call, over half a second or five calls. */
static double measure(const struct bench *bench, void (*call)(struct backend *backend, void *args), void *args)
{
    struct backend *backend = bench->backend;
    double least = 1e9;
    const double start = now(backend);
    for (int i = 0; i < 5 || (now(backend) - start < 0.4 && i < 20000); i++) {
        const double before = now(backend);
        call(backend, args);
        const double spent = now(backend) - before;
        if (spent < least) least = spent;
        if (bench->tiny) break;
    }
    return least;
}

static bool wanted(const struct bench *bench, const char *name)
{
    return bench->only == NULL || strstr(name, bench->only) != NULL;
}

static void report_flops(const struct bench *bench, const char *name, double seconds, double flops)
{
    printf("%-44s %10.1f us %8.1f GFLOP/s %5.1f %%\n", name, 1e6 * seconds, flops / seconds / 1e9,
           100 * flops / seconds / bench->flops);
    fflush(stdout);
}

static void report_bytes(const struct bench *bench, const char *name, double seconds, double bytes)
{
    printf("%-44s %10.1f us %8.1f GB/s    %5.1f %%\n", name, 1e6 * seconds, bytes / seconds / 1e9,
           100 * bytes / seconds / bench->bytes);
    fflush(stdout);
}

static void call_gemm(struct backend *backend, void *args)
{
    backend->ops->gemm(backend, args);
}

static double time_gemm(const struct bench *bench, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    struct gemm_args args = {.transpose_a = ta, .transpose_b = tb, .alpha = 1};
    args.a = ta ? make(bench, k, m) : make(bench, m, k);
    args.b = tb ? make(bench, n, k) : make(bench, k, n);
    args.c = make(bench, m, n);
    const double seconds = measure(bench, call_gemm, &args);
    drop(bench, args.a);
    drop(bench, args.b);
    drop(bench, args.c);
    return seconds;
}

static void call_copy(struct backend *backend, void *args)
{
    const struct matrix *m = args;
    backend->ops->add(backend, m[0], m[1], 1, 0);
}

static void find_limits(struct bench *bench)
{
    const int64_t n = sized(bench, 3072);
    bench->flops = 2 * (double)n * (double)n * (double)n / time_gemm(bench, n, n, n, false, true);
    const int64_t elements = sized(bench, 1 << 26);
    struct matrix m[2] = {make(bench, 1, elements), make(bench, 1, elements)};
    bench->bytes = 8 * (double)elements / measure(bench, call_copy, m);
    drop(bench, m[0]);
    drop(bench, m[1]);
    char text[400];
    backend_describe(bench->backend, text, sizeof text);
    printf("%s\nlimits: %.1f GFLOP/s (sgemm %lld), %.1f GB/s (copy)\n", text, bench->flops / 1e9, (long long)n,
           bench->bytes / 1e9);
}

/* `products`: before the names, where not all is single precision. */
static void bench_gemm(const struct bench *bench, const char *products)
{
    static const struct {
        const char *name;
        int64_t m, n, k;
        bool ta, tb;
    } rows[] = {
        {"gemm 2048x256x256 y=xWt", 2048, 256, 256, false, true},
        {"gemm 2048x256x256 dx=dyW", 2048, 256, 256, false, false},
        {"gemm 256x256x2048 dW=dytx", 256, 256, 2048, true, false},
        {"gemm 2048x192x192 y=xWt", 2048, 192, 192, false, true},
        {"gemm 192x192x2048 dW", 192, 192, 2048, true, false},
        {"gemm 2048x512x192 y=xWt", 2048, 512, 192, false, true},
        {"gemm 2048x192x512 y=xWt", 2048, 192, 512, false, true},
        {"gemm 512x192x2048 dW", 512, 192, 2048, true, false},
        {"gemm 2048x4096x192 logits", 2048, 4096, 192, false, true},
        {"gemm 2048x192x4096 dx of logits", 2048, 192, 4096, false, false},
        {"gemm 4096x192x2048 dW of logits", 4096, 192, 2048, true, false},
        {"gemm 2048x576x576", 2048, 576, 576, false, true},
        {"gemm 2048x1536x576", 2048, 1536, 576, false, true},
        {"gemm 2048x576x1536", 2048, 576, 1536, false, true},
        {"gemm 2048x768x768", 2048, 768, 768, false, true},
        {"gemm 2048x2304x768", 2048, 2304, 768, false, true},
        {"gemm 2048x3072x768", 2048, 3072, 768, false, true},
        {"gemm 2048x768x3072", 2048, 768, 3072, false, true},
        {"gemm 32768x768x768", 32768, 768, 768, false, true},
        {"gemm 32768x3072x768", 32768, 3072, 768, false, true},
        {"gemm 256x50304x768 logits", 256, 50304, 768, false, true},
        {"gemm 512x50304x768 logits", 512, 50304, 768, false, true},
        {"gemm 64x64x64", 64, 64, 64, false, true},
        {"gemm 8x256x256", 8, 256, 256, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t m = sized(bench, rows[i].m), n = sized(bench, rows[i].n), k = sized(bench, rows[i].k);
        char name[64];
        snprintf(name, sizeof name, "%s%s", products, rows[i].name);
        if (wanted(bench, name))
            report_flops(bench, name, time_gemm(bench, m, n, k, rows[i].ta, rows[i].tb),
                         2 * (double)m * (double)n * (double)k);
    }
}

static void call_syrk(struct backend *backend, void *args)
{
    const struct matrix *m = args;
    backend->ops->syrk(backend, m[0], m[1], 1, 1);
}

static void call_inverse_cholesky(struct backend *backend, void *args)
{
    const struct matrix *m = args;
    backend->ops->add(backend, m[0], m[1], 1, 0);
    if (!backend->ops->inverse_cholesky(backend, m[0])) exit(1);
}

static void bench_hessian(const struct bench *bench)
{
    static const int64_t columns[] = {576, 768, 1536, 3072};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        const int64_t n = sized(bench, columns[i]), rows = sized(bench, 2048);
        char name[64];
        snprintf(name, sizeof name, "syrk %lld columns, 2048 rows", (long long)n);
        if (!wanted(bench, name) && !wanted(bench, "cholesky")) continue;
        struct matrix m[2] = {make(bench, n, n), make(bench, rows, n)};
        report_flops(bench, name, measure(bench, call_syrk, m), (double)n * (double)n * (double)rows);
        drop(bench, m[1]);
        m[1] = make(bench, n, n);
        bench->backend->ops->fill(bench->backend, m[1], 0.1);
        for (int64_t j = 0; j < n; j++)
            bench->backend->ops->fill(bench->backend, matrix_columns(matrix_rows(m[1], j, 1), j, 1), 5);
        snprintf(name, sizeof name, "inverse_cholesky %lld", (long long)n);
        report_flops(bench, name, measure(bench, call_inverse_cholesky, m), 2 * (double)n * (double)n * (double)n / 3);
        drop(bench, m[0]);
        drop(bench, m[1]);
    }
}

static void call_attention_forward(struct backend *backend, void *args)
{
    backend->ops->attention_forward(backend, args);
}

static void call_attention_backward(struct backend *backend, void *args)
{
    backend->ops->attention_backward(backend, args);
}

/* The flops that causal attention needs: 4 d for each of T (T + 1) / 2 pairs forward, 10 d backward. */
static void attention_case(const struct bench *bench, const char *name, int64_t sequences, int64_t length,
                           int64_t heads, int64_t kv_heads, int64_t d)
{
    if (!wanted(bench, name)) return;
    int64_t starts[65];
    length = sized(bench, length);
    const int64_t tokens = sequences * length;
    for (int64_t b = 0; b <= sequences; b++) starts[b] = b * length;
    const struct batch batch = {.tokens = tokens, .sequences = sequences, .longest = length, .starts = starts};
    struct attention_args args = {.batch = &batch, .heads = heads, .kv_heads = kv_heads, .head_dim = d, .scale = 0.125};
    args.q = (struct head_view){make(bench, tokens, heads * d), 0, d};
    args.k = (struct head_view){make(bench, tokens, kv_heads * d), 0, d};
    args.v = (struct head_view){make(bench, tokens, kv_heads * d), 0, d};
    args.out = (struct head_view){make(bench, tokens, heads * d), 0, d};
    args.dq = (struct head_view){make(bench, tokens, heads * d), 0, d};
    args.dk = (struct head_view){make(bench, tokens, kv_heads * d), 0, d};
    args.dv = (struct head_view){make(bench, tokens, kv_heads * d), 0, d};
    args.dout = (struct head_view){make(bench, tokens, heads * d), 0, d};
    args.log_sum = make(bench, tokens, heads);
    const double pairs = (double)(sequences * heads) * (double)length * (double)(length + 1) / 2;
    char line[80];
    snprintf(line, sizeof line, "%s forward", name);
    report_flops(bench, line, measure(bench, call_attention_forward, &args), 4 * (double)d * pairs);
    snprintf(line, sizeof line, "%s backward", name);
    report_flops(bench, line, measure(bench, call_attention_backward, &args), 10 * (double)d * pairs);
    const struct matrix all[] = {args.q.matrix,  args.k.matrix,  args.v.matrix,    args.out.matrix, args.dq.matrix,
                                 args.dk.matrix, args.dv.matrix, args.dout.matrix, args.log_sum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) drop(bench, all[i]);
}

static void bench_attention(const struct bench *bench)
{
    attention_case(bench, "attention 1x2048 12x64", 1, 2048, 12, 12, 64);
    attention_case(bench, "attention 8x256 6x32", 8, 256, 6, 6, 32);
    attention_case(bench, "attention 8x256 4x64", 8, 256, 4, 4, 64);
    attention_case(bench, "attention 64x32 4x32", 64, 32, 4, 4, 32);
    attention_case(bench, "attention 1x4096 9x64 kv 3", 1, 4096, 9, 3, 64);
}

static void call_norm_forward(struct backend *backend, void *args)
{
    backend->ops->norm_forward(backend, args);
}

static void call_norm_backward(struct backend *backend, void *args)
{
    backend->ops->norm_backward(backend, args);
}

static void bench_norm(const struct bench *bench, int64_t rows, int64_t columns)
{
    char name[80];
    rows = sized(bench, rows), columns = sized(bench, columns);
    snprintf(name, sizeof name, "norm rms %lldx%lld forward", (long long)rows, (long long)columns);
    if (!wanted(bench, name)) return;
    struct norm_args args = {.kind = NORM_RMS, .epsilon = 1e-5, .groups = 1};
    args.x = make(bench, rows, columns), args.y = make(bench, rows, columns);
    args.dx = make(bench, rows, columns), args.dy = make(bench, rows, columns);
    args.weight = make(bench, 1, columns), args.dweight = make(bench, 1, columns);
    const double bytes = 4 * (double)rows * (double)columns;
    report_bytes(bench, name, measure(bench, call_norm_forward, &args), 2 * bytes);
    snprintf(name, sizeof name, "norm rms %lldx%lld backward", (long long)rows, (long long)columns);
    report_bytes(bench, name, measure(bench, call_norm_backward, &args), 3 * bytes);
    const struct matrix all[] = {args.x, args.y, args.dx, args.dy, args.weight, args.dweight};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) drop(bench, all[i]);
}

static void call_activation_forward(struct backend *backend, void *args)
{
    backend->ops->activation_forward(backend, args);
}

static void call_activation_backward(struct backend *backend, void *args)
{
    backend->ops->activation_backward(backend, args);
}

static void bench_activation(const struct bench *bench, enum activation_kind kind, const char *label, int64_t rows,
                             int64_t columns, bool up)
{
    char name[80];
    rows = sized(bench, rows), columns = sized(bench, columns);
    snprintf(name, sizeof name, "activation %s%s %lldx%lld forward", label, up ? " up" : "", (long long)rows,
             (long long)columns);
    if (!wanted(bench, name)) return;
    struct activation_args args = {.kind = kind};
    args.gate = make(bench, rows, columns), args.y = make(bench, rows, columns), args.dy = make(bench, rows, columns);
    args.dgate = make(bench, rows, columns);
    const struct matrix up_matrix = make(bench, rows, columns), dup = make(bench, rows, columns);
    if (up) args.up = up_matrix, args.dup = dup;
    const double bytes = 4 * (double)rows * (double)columns;
    report_bytes(bench, name, measure(bench, call_activation_forward, &args), (up ? 3 : 2) * bytes);
    snprintf(name, sizeof name, "activation %s%s %lldx%lld backward", label, up ? " up" : "", (long long)rows,
             (long long)columns);
    report_bytes(bench, name, measure(bench, call_activation_backward, &args), (up ? 5 : 3) * bytes);
    const struct matrix all[] = {args.gate, args.y, args.dy, args.dgate, up_matrix, dup};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) drop(bench, all[i]);
}

static void call_cross_entropy_forward(struct backend *backend, void *args)
{
    backend->ops->cross_entropy_forward(backend, args);
}

static void call_cross_entropy_backward(struct backend *backend, void *args)
{
    backend->ops->cross_entropy_backward(backend, args);
}

static void call_compare(struct backend *backend, void *args)
{
    backend->ops->compare(backend, args);
}

static void bench_losses(const struct bench *bench, int64_t rows, int64_t vocabulary)
{
    char name[80];
    rows = sized(bench, rows), vocabulary = sized(bench, vocabulary);
    snprintf(name, sizeof name, "cross_entropy %lldx%lld forward", (long long)rows, (long long)vocabulary);
    if (!wanted(bench, name)) return;
    const struct matrix logits = make(bench, rows, vocabulary), others = make(bench, rows, vocabulary);
    const size_t count = (size_t)rows;
    uint32_t *targets = calloc(count, sizeof *targets);
    double *losses = calloc(4 * count, sizeof *losses);
    uint8_t *agree = calloc(count, 1);
    if (targets == NULL || losses == NULL || agree == NULL) exit(1);
    struct cross_entropy_args args = {
        .logits = logits, .targets = targets, .losses = losses, .log_sum = losses + count, .weight = 1e-3};
    struct compare_args compare = {
        logits, others, targets, losses + count, losses + 3 * count, losses, losses + 2 * count, agree};
    const double bytes = 4 * (double)rows * (double)vocabulary;
    report_bytes(bench, name, measure(bench, call_cross_entropy_forward, &args), bytes);
    snprintf(name, sizeof name, "compare %lldx%lld", (long long)rows, (long long)vocabulary);
    report_bytes(bench, name, measure(bench, call_compare, &compare), 2 * bytes);
    snprintf(name, sizeof name, "cross_entropy %lldx%lld backward", (long long)rows, (long long)vocabulary);
    report_bytes(bench, name, measure(bench, call_cross_entropy_backward, &args), 2 * bytes);
    free(targets);
    free(losses);
    free(agree);
    drop(bench, logits);
    drop(bench, others);
}

static void call_adamw(struct backend *backend, void *args)
{
    backend->ops->adamw(backend, args);
}

static void call_sum_rows(struct backend *backend, void *args)
{
    const struct matrix *m = args;
    backend->ops->sum_rows(backend, m[0], m[1]);
}

static void bench_steps(const struct bench *bench, int64_t count)
{
    char name[80];
    count = sized(bench, count);
    snprintf(name, sizeof name, "adamw %lld", (long long)count);
    if (!wanted(bench, name)) return;
    const struct matrix p = make(bench, 1, count), m = make(bench, 1, count), v = make(bench, 1, count),
                        g = make(bench, 1, count);
    bench->backend->ops->fill(bench->backend, v, 1);
    struct adamw_args args = {p.data, m.data, v.data, g.data, count, 1e-4, 0.9, 0.95, 1e-8, 0.1, 1, 1, 1};
    report_bytes(bench, name, measure(bench, call_adamw, &args), 28 * (double)count);
    struct matrix sums[2] = {make(bench, 1, 1000), matrix_of(p.data, count / 1000, 1000, sizeof(float))};
    snprintf(name, sizeof name, "sum_rows %lldx1000", (long long)count / 1000);
    report_bytes(bench, name, measure(bench, call_sum_rows, sums), 4 * (double)count);
    const struct matrix all[] = {p, m, v, g, sums[0]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) drop(bench, all[i]);
}

static void nothing(void *context, int64_t i, int thread)
{
    (void)context, (void)i, (void)thread;
}

static void call_team(struct backend *backend, void *args)
{
    (void)args;
    team_run(backend->team, team_size(backend->team), nothing, NULL);
}

int main(int count, char **arguments)
{
    struct bench bench = {.only = count > 1 ? arguments[1] : NULL,
                          .tiny = count > 2 && strcmp(arguments[2], "tiny") == 0};
    struct error error;
    const char *threads = getenv("DELTAQ_THREADS");
    if (team_new(threads != NULL ? (int)strtol(threads, NULL, 10) : 0, &bench.team, &error) != STATUS_OK ||
        backend_cpu_new(bench.team, &bench.backend, &error) != STATUS_OK ||
        bench.backend->ops->prepare(bench.backend, 4096, 4096, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    find_limits(&bench);
    if (wanted(&bench, "team_run")) printf("team_run of nothing: %.2f us\n", 1e6 * measure(&bench, call_team, NULL));
    bench_gemm(&bench, "");
    struct bench rounded = bench;
    if (backend_new("cpu", "bf16", bench.team, &rounded.backend, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    bench_gemm(&rounded, "bf16 ");
    backend_free(rounded.backend);
    bench_hessian(&bench);
    bench_attention(&bench);
    bench_norm(&bench, 2048, 256);
    bench_norm(&bench, 32768, 768);
    bench_activation(&bench, ACTIVATION_SILU, "silu", 2048, 512, true);
    bench_activation(&bench, ACTIVATION_GELU, "gelu", 8192, 3072, false);
    bench_activation(&bench, ACTIVATION_GELU_TANH, "gelu_tanh", 8192, 3072, false);
    bench_losses(&bench, 2048, 4096);
    bench_losses(&bench, 512, 50304);
    bench_steps(&bench, 3000000);
    bench_steps(&bench, 100000000);
    backend_free(bench.backend);
    team_free(bench.team);
    return 0;
}
