/* bench_evaluate MODEL SEQUENCES LENGTH [RUNS]: times evaluation of a checkpoint on random tokens; a line of JSON a run. Weights
 * are read from the file in every run, as the product does. */
#include "eval/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/random.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Multiply-adds count two: linears and logits 2 a weight and token, attention 4 d a key that a query may see. */
static double flop(const struct model *model, int64_t sequences, int64_t length)
{
    const struct model_config *c = &model->config;
    double weights = (double)(c->vocabulary_size * c->hidden_size);
    for (int64_t layer = 0; layer < c->layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *p = &model->programs[layer].parameters[i];
            if (p->linear) weights += (double)(p->rows * p->columns);
        }
    const double attention = 2.0 * (double)(length + 1) * (double)(c->heads * c->head_dim * c->layers);
    return (double)(sequences * length) * (2 * weights + attention);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct team *team = NULL;
    struct backend *backend = NULL;
    struct model *model = NULL;
    char description[256];
    if (argc < 4) {
        (void)fputs("usage: bench_evaluate MODEL SEQUENCES LENGTH [RUNS]\n", stderr);
        return 2;
    }
    const int64_t count = strtol(argv[2], NULL, 10), length = strtol(argv[3], NULL, 10),
                  runs = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    if (team_new(0, &team, &error) != STATUS_OK || backend_cpu_new(team, &backend, &error) != STATUS_OK ||
        model_open(argv[1], &model, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    struct sequences sequences = {count, calloc((size_t)count + 1, sizeof(int64_t)),
                                  calloc((size_t)(count * length), sizeof(uint32_t))};
    for (int64_t i = 0; i <= count; i++) sequences.starts[i] = i * length;
    for (int64_t i = 0; i < count * length; i++)
        sequences.tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, (uint64_t)model->config.vocabulary_size);
    backend_describe(backend, description, sizeof description);
    for (int64_t run = 0; run < runs; run++) {
        struct evaluate_result result;
        struct rusage usage;
        const double began = seconds();
        if (evaluate_run(model, backend, &sequences, NULL, &result, &error) != STATUS_OK) {
            (void)fprintf(stderr, "%s\n", error.detail);
            return 1;
        }
        const double took = seconds() - began;
        getrusage(RUSAGE_SELF, &usage);
        printf("{\"seconds\": %.4f, \"tokens\": %lld, \"gflops\": %.1f, \"loss\": %.9f, \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
               took, (long long)result.tokens, flop(model, count, length) / took * 1e-9, result.loss,
               (double)usage.ru_maxrss / 1024, description);
        (void)fflush(stdout);
        evaluate_result_reset(&result);
    }
    free(sequences.starts);
    free(sequences.tokens);
    model_close(model);
    backend_free(backend);
    team_free(team);
    return 0;
}
