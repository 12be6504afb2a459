/* bench_quantize MODEL SEQUENCES LENGTH [RUNS]: times GPTQ (4 bit, groups of 128, the defaults) of a whole checkpoint on random
 * calibration tokens. One short evaluation sequence keeps the other streams from counting; a line of JSON a run. */
#include "bench.h"
#include "jobs/quantize.h"

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fputs("usage: bench_quantize MODEL SEQUENCES LENGTH [RUNS]\n", stderr);
        return 2;
    }
    const int64_t count = strtol(argv[2], NULL, 10), length = strtol(argv[3], NULL, 10),
                  runs = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    struct bench bench = bench_open(argv[1]);
    struct sequences calibration = bench_sequences(count, length, bench.model->config.vocabulary_size, 1);
    struct sequences evaluation =
        bench_sequences(argc > 5 ? strtol(argv[5], NULL, 10) : 1, argc > 5 ? strtol(argv[6], NULL, 10) : 16,
                        bench.model->config.vocabulary_size, 2);
    const struct quantize_request request = {
        .model = bench.model,
        .backend = bench.backend,
        .method = {.quantizer = QUANTIZER_GPTQ,
                   .gptq = {.bits = 4, .group_size = 128, .sym = true, .act_group_aware = true, .damp_percent = 0.05}},
        .calibration = &calibration,
        .evaluation = &evaluation,
    };
    int failed = 0;
    for (int64_t run = 0; run < runs && !failed; run++) {
        struct quantize_result result;
        struct error error = {0};
        double proxy = 0;
        const double began = bench_seconds();
        failed = quantize_run(&request, &result, &error) != STATUS_OK;
        const double took = bench_seconds() - began;
        if (failed) (void)fprintf(stderr, "%s\n", error.detail);
        for (int64_t i = 0; i < result.layer_count; i++) proxy += result.layers[i].proxy_error;
        printf(
            "{\"seconds\": %.4f, \"tokens\": %lld, \"layers\": %lld, \"proxy_error\": %.6g, \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
            took, (long long)(count * length), (long long)result.layer_count, proxy, bench_peak_mib(), bench.description);
        (void)fflush(stdout);
        quantize_result_reset(&result);
    }
    dataset_sequences_free(&calibration);
    dataset_sequences_free(&evaluation);
    bench_close(&bench);
    return failed;
}
