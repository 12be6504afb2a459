/* bench_quantize MODEL SEQUENCES LENGTH [RUNS [EVALUATION_SEQUENCES EVALUATION_LENGTH [BITS …]]]: times GPTQ (groups of
 * 128, the defaults) of a whole checkpoint on random calibration tokens, at 4 bits, or at several widths on one walk.
 * Without an evaluation one short sequence keeps the other streams from counting. A line of JSON a run. */
#include "bench.h"
#include "jobs/quantize/quantize.h"

enum { MEMBERS_MOST = 8 };

static int64_t number(int argc, char **argv, int at, int64_t otherwise)
{
    return argc > at ? strtol(argv[at], NULL, 10) : otherwise;
}

/* Calibration tokens pass each block twice, before its quantization and after; evaluation's once in full precision, and
 * quantized; each of these has its logits. A Hessian is n² a token, half of a product, for each input that linears
 * share: three of the hidden size and one of the inner in these shapes. Factors, blocks and errors of layers are not
 * counted. */
static double flop(const struct model *model, const struct quantize_request *request, int64_t members)
{
    const struct model_config *c = &model->config;
    const struct sequences *calibration = request->calibration, *evaluation = request->evaluation;
    const double tokens = (double)calibration->starts[calibration->count] * (double)members;
    const double evaluated = (double)evaluation->starts[evaluation->count] * (double)(1 + members);
    const double hidden = (double)c->hidden_size, inner = (double)c->intermediate_size;
    return bench_block_flop(model, 2 * tokens, (double)calibration->starts[1]) +
           bench_block_flop(model, evaluated, (double)evaluation->starts[1]) + bench_logits_flop(model, evaluated) +
           tokens * (double)c->layers * (3 * hidden * hidden + inner * inner);
}

static int run(const struct bench *bench, struct quantize_member *members, int64_t member_count, int64_t tokens)
{
    int failed = 0;
    double proxy = 0;
    const double began = bench_seconds();
    quantize_batch(members, member_count);
    const double took = bench_seconds() - began;
    for (int64_t i = 0; i < member_count; i++) {
        if (members[i].status != STATUS_OK) {
            failed = 1;
            (void)fprintf(stderr, "%s\n", members[i].error.detail);
            continue;
        }
        for (int64_t k = 0; k < members[i].result.layer_count; k++) proxy += members[i].result.layers[k].proxy_error;
    }
    printf("{\"seconds\": %.6f, \"members\": %lld, \"tokens\": %lld, \"layers\": %lld, \"proxy_error\": %.6g,"
           " \"gflops\": %.4g, \"peak_mib\": %.0f, \"what\": \"%s\"}\n",
           took, (long long)member_count, (long long)tokens, (long long)members[0].result.layer_count, proxy,
           flop(bench->model, &members[0].request, member_count) / took * 1e-9, bench_peak_mib(), bench->description);
    (void)fflush(stdout);
    for (int64_t i = 0; i < member_count; i++)
        if (members[i].status == STATUS_OK) quantize_result_reset(&members[i].result);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc == 6 || argc > 7 + MEMBERS_MOST) {
        (void)fputs(
            "usage: bench_quantize MODEL SEQUENCES LENGTH [RUNS [EVALUATION_SEQUENCES EVALUATION_LENGTH [BITS …]]]\n",
            stderr);
        return 2;
    }
    const int64_t count = number(argc, argv, 2, 0), length = number(argc, argv, 3, 0), runs = number(argc, argv, 4, 1);
    const int64_t member_count = argc > 7 ? argc - 7 : 1;
    struct bench bench = bench_open(argv[1]);
    const int64_t vocabulary = bench.model->config.vocabulary_size;
    struct sequences calibration = bench_sequences(count, length, vocabulary, 1);
    struct sequences evaluation = bench_sequences(number(argc, argv, 5, 1), number(argc, argv, 6, 16), vocabulary, 2);
    struct quantize_member members[MEMBERS_MOST] = {{.status = STATUS_OK}};
    int failed = 0;
    for (int64_t i = 0; i < member_count; i++)
        members[i].request = (struct quantize_request){
            .model = bench.model,
            .backend = bench.backend,
            .method = {.quantizer = QUANTIZER_GPTQ,
                       .gptq = {.bits = number(argc, argv, 7 + (int)i, 4),
                                .group_size = 128,
                                .sym = true,
                                .act_group_aware = true,
                                .damp_percent = 0.05}},
            .calibration = &calibration,
            .evaluation = &evaluation,
        };
    for (int64_t i = 0; i < runs && !failed; i++) failed = run(&bench, members, member_count, count * length);
    dataset_sequences_free(&calibration);
    dataset_sequences_free(&evaluation);
    bench_close(&bench);
    return failed;
}
