/* bench_train MODEL SEQUENCES LENGTH STEPS [RUNS]: times training steps of the shape in MODEL/config.json from fresh
 * weights on random tokens; a line of JSON a run. Two steps go before the clock starts. Products are in
 * DELTAQ_BENCH_PRODUCTS: f32, bf16. */
#include "base/memory.h"
#include "bench.h"
#include "train/trainer.h"

/* Forward 2 a weight and token and 2 d a key that a query may see (twice: scores and sums), backward twice that. */
static double flop(const struct parameters_layout *layout, int64_t sequences, int64_t length)
{
    const struct model_config *c = &layout->config;
    double weights = (double)(c->vocabulary_size * c->hidden_size);
    for (int64_t i = 0; i < layout->tensor_count; i++)
        if (layout->tensors[i].parameter.linear)
            weights += (double)(layout->tensors[i].parameter.rows * layout->tensors[i].parameter.columns);
    const double attention = 2.0 * (double)(length + 1) * (double)(c->heads * c->head_dim * c->layers);
    return 3 * (double)(sequences * length) * (2 * weights + attention);
}

static enum status steps_run(struct trainer *trainer, int64_t steps, struct error *error)
{
    for (int64_t i = 0; i < steps; i++) {
        const enum status status = trainer_step(trainer, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static void report(const struct trainer *trainer, int64_t steps, double took)
{
    const struct trainer_setup *setup = &trainer->setup;
    const double tokens = (double)(steps * setup->batch_sequences * setup->sequence_length);
    char description[256];
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    backend_describe(trainer->backend, description, sizeof description);
    printf("{\"seconds\": %.6f, \"tokens\": %.0f, \"tokens_per_second\": %.0f, \"gflops\": %.4g, \"parameters\": %lld, "
           "\"loss\": %.6f, \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
           took, tokens, tokens / took,
           (double)steps * flop(trainer->parameters.layout, setup->batch_sequences, setup->sequence_length) / took *
               1e-9,
           (long long)trainer->parameters.layout->numbers, trainer->loss, (double)usage.ru_maxrss / 1024, description);
    (void)fflush(stdout);
}

static enum status measure(const char *path, int64_t sequences, int64_t length, int64_t steps, int64_t runs,
                           struct error *error)
{
    const int64_t count = 1 << 20;
    struct team *team = NULL;
    struct backend *backend = NULL;
    struct model_config config;
    struct parameters_layout *layout = NULL;
    struct trainer trainer = {0};
    uint32_t *tokens = NULL;
    enum status status;
    if ((status = team_new(0, &team, error)) != STATUS_OK) goto done;
    if ((status = backend_new(bench_device(), bench_products(), team, &backend, error)) != STATUS_OK) goto done;
    if ((status = config_read(path, &config, error)) != STATUS_OK) goto done;
    if ((status = parameters_layout_new(&config, &layout, error)) != STATUS_OK) goto done;
    if ((status = memory_new(count, sizeof *tokens, "tokens", &tokens, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, (uint64_t)config.vocabulary_size);
    const struct trainer_setup setup = {
        .optimizer = optimizer_kinds[0],
        .settings = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip = 1},
        .schedule = {.kind = SCHEDULE_CONSTANT, .peak = 3e-3, .total = INT32_MAX},
        .batch_sequences = sequences,
        .sequence_length = length,
        .tokens = tokens,
        .token_count = count,
        .memory_limit = INT64_C(1) << 40,
    };
    if ((status = trainer_init(&trainer, layout, backend, &setup, error)) != STATUS_OK) goto done;
    if ((status = parameters_initialise(&trainer.parameters, 0, error)) != STATUS_OK) goto done;
    if ((status = steps_run(&trainer, 2, error)) != STATUS_OK) goto done;
    for (int64_t run = 0; run < runs; run++) {
        const double began = bench_seconds();
        if ((status = steps_run(&trainer, steps, error)) != STATUS_OK) goto done;
        report(&trainer, steps, bench_seconds() - began);
    }
done:
    trainer_reset(&trainer);
    parameters_layout_free(layout);
    memory_free(tokens);
    backend_free(backend);
    team_free(team);
    return status;
}

int main(int argc, char **argv)
{
    struct error error = {0};
    if (argc < 5) {
        (void)fputs("usage: bench_train MODEL SEQUENCES LENGTH STEPS [RUNS]\n", stderr);
        return 2;
    }
    if (measure(argv[1], strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10),
                argc > 5 ? strtol(argv[5], NULL, 10) : 1, &error) == STATUS_OK)
        return 0;
    (void)fprintf(stderr, "%s\n", error.detail);
    return 1;
}
