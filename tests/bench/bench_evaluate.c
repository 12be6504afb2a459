/* bench_evaluate MODEL SEQUENCES LENGTH [RUNS]: times evaluation of a checkpoint on random tokens; a line of JSON a
 * run. Weights are read from the file in every run, as the product does. */
#include "bench.h"
#include "eval/evaluate.h"

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fputs("usage: bench_evaluate MODEL SEQUENCES LENGTH [RUNS]\n", stderr);
        return 2;
    }
    const int64_t count = strtol(argv[2], NULL, 10), length = strtol(argv[3], NULL, 10),
                  runs = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    struct bench bench = bench_open(argv[1]);
    struct sequences sequences = bench_sequences(count, length, bench.model->config.vocabulary_size, 1);
    const double tokens = (double)(count * length);
    const double flop = bench_block_flop(bench.model, tokens, (double)length) + bench_logits_flop(bench.model, tokens);
    int failed = 0;
    for (int64_t run = 0; run < runs && !failed; run++) {
        struct evaluate_result result;
        struct error error = {0};
        const double began = bench_seconds();
        failed = evaluate_run(bench.model, bench.backend, &sequences, NULL, &result, &error) != STATUS_OK;
        const double took = bench_seconds() - began;
        if (failed) (void)fprintf(stderr, "%s\n", error.detail);
        printf("{\"seconds\": %.6f, \"tokens\": %.0f, \"flop\": %.4g, \"gflops\": %.4g, \"loss\": %.9f,"
               " \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
               took, tokens, flop, flop / took * 1e-9, result.loss, bench_peak_mib(), bench.description);
        (void)fflush(stdout);
        evaluate_result_reset(&result);
    }
    dataset_sequences_free(&sequences);
    bench_close(&bench);
    return failed;
}
