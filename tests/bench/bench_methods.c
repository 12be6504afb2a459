/* bench_methods MODEL CALIBRATION EVALUATION LENGTH GROUP METHOD…: what quantization costs a checkpoint, for
 * comparisons with other programs on the same tokens. CALIBRATION and EVALUATION are files of tokens (unsigned, 32
 * bits, in this machine's order), which are cut into sequences of LENGTH. The methods are those of the table below,
 * with the settings that the libraries have. A line of JSON a method. */
#include "bench.h"
#include "jobs/quantize/quantize.h"

#include <string.h>

enum { METHODS = 16, BLOCK = 64, FIXED = 6 };

static const struct named {
    const char *name;
    struct quantize_method method;
} table[] = {
    {"rtn4", {.quantizer = QUANTIZER_RTN, .rtn = {4, 0, true}}},
    {"nf4", {.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = BLOCK}}},
    {"nf4-double", {.quantizer = QUANTIZER_NF4, .nf4 = {.block_size = BLOCK, .double_quant = true}}},
    {"fp4", {.quantizer = QUANTIZER_FP4, .fp4 = {.block_size = BLOCK, .values = 1}}},
    {"fp4-double", {.quantizer = QUANTIZER_FP4, .fp4 = {.block_size = BLOCK, .double_quant = true, .values = 1}}},
    {"llm_int8", {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 6}}},
    {"llm_int8-whole", {.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 0}}},
    {"awq4", {.quantizer = QUANTIZER_AWQ, .awq = {4, 0, 20, false, true}}},
    {"awq4-unclipped", {.quantizer = QUANTIZER_AWQ, .awq = {4, 0, 20, false, false}}},
    {"smoothquant", {.quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, false}}},
    {"awq3-unclipped", {.quantizer = QUANTIZER_AWQ, .awq = {3, 0, 20, false, false}}},
    {"rtn3", {.quantizer = QUANTIZER_RTN, .rtn = {3, 0, true}}},
    {"gptq4", {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 0, true, false, true, 0.05}}},
    {"gptq3", {.quantizer = QUANTIZER_GPTQ, .gptq = {3, 0, true, false, true, 0.05}}},
};

static struct quantize_method method_of(const char *name, int64_t group)
{
    struct error error;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct quantize_method method = table[i].method;
        if (strcmp(table[i].name, name) != 0) continue;
        method.rtn.group_size = method.gptq.group_size = method.awq.group_size = group;
        if (quantize_method_complete(&method, &error) == STATUS_OK) return method;
        (void)fprintf(stderr, "%s: %s\n", name, error.detail);
        exit(1);
    }
    (void)fprintf(stderr, "no method %s\n", name);
    exit(2);
}

static struct sequences read_tokens(const char *path, int64_t length)
{
    FILE *file = fopen(path, "rb");
    long bytes = 0;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        perror(path);
        exit(1);
    }
    const int64_t count = bytes / (int64_t)sizeof(uint32_t) / length;
    struct sequences sequences = {count, calloc((size_t)count + 1, sizeof(int64_t)),
                                  calloc((size_t)(count * length), sizeof(uint32_t))};
    for (int64_t i = 0; i <= count; i++) sequences.starts[i] = i * length;
    if (fread(sequences.tokens, sizeof(uint32_t), (size_t)(count * length), file) != (size_t)(count * length)) exit(1);
    (void)fclose(file);
    return sequences;
}

static int tell(const char *name, struct quantize_member *member)
{
    const struct quantize_result *result = &member->result;
    if (member->status != STATUS_OK) {
        (void)fprintf(stderr, "%s: %s\n", name, member->error.detail);
        return 1;
    }
    printf("{\"method\": \"%s\", \"loss_fp\": %.9f, \"loss_q\": %.9f, \"delta\": %.9f, \"kl\": %.9f,"
           " \"bits_per_weight\": %.4f}\n",
           name, result->fp.loss, result->q.loss, result->delta, result->kl, result->bits_per_weight);
    quantize_result_reset(&member->result);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < FIXED + 1 || argc > FIXED + METHODS) {
        (void)fputs("usage: bench_methods MODEL CALIBRATION EVALUATION LENGTH GROUP METHOD…\n", stderr);
        return 2;
    }
    struct bench bench = bench_open(argv[1]);
    const int64_t length = strtol(argv[4], NULL, 10);
    struct sequences calibration = read_tokens(argv[2], length), evaluation = read_tokens(argv[3], length);
    struct quantize_member members[METHODS] = {{.status = STATUS_OK}};
    const int count = argc - FIXED;
    int failed = 0;
    for (int i = 0; i < count; i++)
        members[i].request =
            (struct quantize_request){.model = bench.model,
                                      .backend = bench.backend,
                                      .method = method_of(argv[FIXED + i], strtol(argv[FIXED - 1], NULL, 10)),
                                      .calibration = &calibration,
                                      .evaluation = &evaluation};
    quantize_batch(members, count);
    for (int i = 0; i < count; i++) failed |= tell(argv[FIXED + i], &members[i]);
    dataset_sequences_free(&calibration);
    dataset_sequences_free(&evaluation);
    bench_close(&bench);
    return failed;
}
