/* bench_hvp MODEL SEQUENCES LENGTH [MODE] [ITERATIONS] [products]: times Hessian-vector products of the checkpoint in
 * MODEL on random tokens beside its gradients, as power iterations make them (three vectors: parameters, direction,
 * product); a line of JSON. MODE is recompute, chunk or values: what is kept between the walks (curvature/hvp.h). With
 * `products` no gradients are timed, and each product has its line when it has ended. */
#include "bench.h"
#include "curvature/hvp.h"
#include "model/gradient.h"

#include <math.h>
#include <string.h>

static const char *const modes[HVP_MODES] = {"recompute", "chunk", "values"};

struct work {
    struct bench bench;
    struct parameters_layout *layout;
    struct parameters parameters;
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix v, product;
    double quotient;
};

static void must(enum status status, const struct error *error)
{
    if (status == STATUS_OK) return;
    (void)fprintf(stderr, "%s\n", error->detail);
    exit(1);
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct cost {
    double seconds, processor; /* of the wall, of all threads */
};

/* Medians over `count` times of `step`, after one that is not counted. */
static struct cost median(struct work *work, int64_t count, void (*step)(struct work *work))
{
    double times[64], processor[64];
    step(work);
    if (count > 64) count = 64;
    for (int64_t i = 0; i < count; i++) {
        const double began = bench_seconds(), spent = processor_seconds();
        step(work);
        times[i] = bench_seconds() - began;
        processor[i] = processor_seconds() - spent;
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    qsort(processor, (size_t)count, sizeof *processor, compare);
    return (struct cost){times[count / 2], processor[count / 2]};
}

static void power_step(struct work *work)
{
    const struct symmetric_operator *op = hvp_operator(work->hvp);
    struct backend *backend = work->bench.backend;
    struct error error;
    must(operator_apply(op, work->v, work->product, &error), &error);
    work->quotient = backend->ops->dot(backend, work->v, work->product);
    vector_normalise(&op->space, work->product);
    backend->ops->add(backend, work->v, work->product, 1, 0);
}

struct gradients {
    struct work work;
    struct gradient *gradient;
    struct parameters into;
    double *losses;
};

static void gradient_step(struct work *work)
{
    struct gradients *g = (struct gradients *)work;
    g->work.bench.backend->ops->fill(g->work.bench.backend, parameters_all(&g->into), 0);
    for (int64_t i = 0; i < g->work.chunks.count; i++)
        gradient_add(g->gradient, &g->work.chunks.chunks[i].batch, 1 / (double)g->work.chunks.predictions,
                     g->losses + g->work.chunks.chunks[i].first_token, &g->into);
}

/* The gradient takes the memory that the products had; peak is read before. */
static struct cost time_gradient(const struct work *work, enum gradient_mode mode, int64_t iterations)
{
    struct error error;
    struct gradients g = {.work = *work};
    g.losses = calloc((size_t)work->chunks.tokens, sizeof *g.losses);
    must(parameters_init(&g.into, work->layout, work->bench.backend, "gradients", &error), &error);
    must(gradient_new(&work->parameters, mode, work->chunks.largest, work->chunks.longest, &g.gradient, &error),
         &error);
    const struct cost cost = median(&g.work, iterations, gradient_step);
    gradient_free(g.gradient);
    parameters_reset(&g.into);
    free(g.losses);
    return cost;
}

static void products_end(struct work *work)
{
    hvp_free(work->hvp);
    matrix_release(work->bench.backend, &work->v);
    matrix_release(work->bench.backend, &work->product);
}

static void each_product(struct work *work, int64_t iterations)
{
    power_step(work);
    for (int64_t i = 0; i < iterations; i++) {
        const double began = bench_seconds();
        power_step(work);
        printf("{\"seconds\": %.6f, \"rayleigh_quotient\": %.6g, \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
               bench_seconds() - began, work->quotient, bench_peak_mib(), work->bench.description);
        (void)fflush(stdout);
    }
    products_end(work);
}

static void beside_gradients(struct work *work, const char *mode, int64_t iterations)
{
    const struct cost product = median(work, iterations, power_step);
    const double peak = bench_peak_mib();
    products_end(work);
    const struct cost keep = time_gradient(work, GRADIENT_KEEP, iterations);
    const struct cost again = time_gradient(work, GRADIENT_RECOMPUTE, iterations);
    printf("{\"seconds\": %.6f, \"processor_seconds\": %.4f, \"mode\": \"%s\", \"rayleigh_quotient\": %.6g, "
           "\"peak_mib\": %.0f, \"gradient_seconds\": %.4f, \"gradient_recompute_seconds\": %.4f, \"gradients\": %.3f, "
           "\"gradients_recompute\": %.3f, \"gradients_processor\": %.3f, \"gradients_recompute_processor\": %.3f, "
           "\"parameters\": %lld, \"what\": \"%s\"}\n",
           product.seconds, product.processor, mode, work->quotient, peak, keep.seconds, again.seconds,
           product.seconds / keep.seconds, product.seconds / again.seconds, product.processor / keep.processor,
           product.processor / again.processor, (long long)work->layout->numbers, work->bench.description);
}

int main(int count, char **arguments)
{
    struct error error;
    struct work work = {0};
    int mode = HVP_KEEP_VALUES;
    if (count < 4) {
        (void)fprintf(stderr, "bench_hvp MODEL SEQUENCES LENGTH [recompute|chunk|values] [ITERATIONS] [products]\n");
        return 2;
    }
    const int64_t sequences = strtoll(arguments[2], NULL, 10), length = strtoll(arguments[3], NULL, 10);
    for (int i = 0; count > 4 && i < HVP_MODES; i++)
        if (strcmp(modes[i], arguments[4]) == 0) mode = i;
    const int64_t iterations = count > 5 ? strtoll(arguments[5], NULL, 10) : 5;
    work.bench = bench_open(arguments[1]);
    struct sequences data = bench_sequences(sequences, length, work.bench.model->config.vocabulary_size, 1);
    must(parameters_layout_new(&work.bench.model->config, &work.layout, &error), &error);
    must(parameters_init(&work.parameters, work.layout, work.bench.backend, "parameters", &error), &error);
    must(parameters_read(&work.parameters, work.bench.model, &error), &error);
    must(chunks_init(&data, work.bench.backend->ops->sizes->micro, &work.chunks, &error), &error);
    must(hvp_new(&work.parameters, &work.chunks, (enum hvp_mode)mode, NULL, &work.hvp, &error), &error);
    const struct vector_space *space = &hvp_operator(work.hvp)->space;
    must(vector_new(space, "v", &work.v, &error), &error);
    must(vector_new(space, "Hv", &work.product, &error), &error);
    vector_normal(space, 1, 0, work.v);
    vector_normalise(space, work.v);
    if (count > 6)
        each_product(&work, iterations);
    else
        beside_gradients(&work, modes[mode], iterations);
    free(data.starts);
    free(data.tokens);
    chunks_reset(&work.chunks);
    parameters_reset(&work.parameters);
    parameters_layout_free(work.layout);
    bench_close(&work.bench);
    return 0;
}
