/* A small real checkpoint (stories260K) on the text it was trained for, against what double precision gives: the damage
 * of plain rounding is known closely; that of GPTQ to a band, because one rounding tie changes everything after it. */
#include "dataset/dataset.h"
#include "jobs/quantize/quantize.h"
#include "shared.h"

#include <math.h>

static void test_stories260k_damage(void **state)
{
    (void)state;
    static const struct {
        struct quantize_method method;
        double delta, band;
    } rows[] = {
        {{.quantizer = QUANTIZER_GPTQ, .gptq = {4, 32, true, false, true, 0.05}}, 0.04502, 0.02},
        {{.quantizer = QUANTIZER_GPTQ, .gptq = {3, 32, true, false, true, 0.05}}, 0.37393, 0.1},
        {{.quantizer = QUANTIZER_RTN, .rtn = {3, 32, true}}, 0.64283, 0.003},
    };
    char directory[512], text[512], vocabulary[600];
    struct error error;
    struct team *team = NULL;
    struct backend *backend = NULL;
    struct model *model = NULL;
    struct tokenizer *tokenizer = NULL;
    struct sequences calibration, evaluation;
    shared_require("data/models/stories260K", directory, sizeof directory);
    shared_require("data/corpora/tinystories_a.txt", text, sizeof text);
    (void)snprintf(vocabulary, sizeof vocabulary, "%s/tokenizer.json", directory);
    assert_int_equal(team_new(2, &team, &error), STATUS_OK);
    assert_int_equal(backend_cpu_new(team, &backend, &error), STATUS_OK);
    if (model_open(directory, &model, &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (tokenizer_open(vocabulary, &tokenizer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct dataset_source source = {.format = DATASET_TEXT, .path = text};
    struct dataset_use use = {.packing = DATASET_BLOCKS, .sequence_length = 512, .max_sequences = 64};
    use.add_special_tokens = true; /* blocks of the first document only: one token at its start */
    if (dataset_load(&source, &use, tokenizer, NULL, &calibration, &error) != STATUS_OK) fail_msg("%s", error.detail);
    use.add_special_tokens = false;
    use.max_sequences = 40;
    if (dataset_load(&source, &use, tokenizer, NULL, &evaluation, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct quantize_request request = {.model = model,
                                                 .backend = backend,
                                                 .method = rows[i].method,
                                                 .calibration = &calibration,
                                                 .evaluation = &evaluation};
        struct quantize_result result;
        if (quantize_run(&request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
        print_message("%s%d: delta %.5f [%.5f, %.5f], expected %.5f +- %g\n",
                      quantizer_by_id(rows[i].method.quantizer)->name, (int)(i == 0 ? 4 : 3), result.delta,
                      result.delta_low, result.delta_high, rows[i].delta, rows[i].band);
        assert_true(fabs(result.fp.loss - 1.4575838479492453) < 2e-5);
        assert_true(fabs(result.delta - rows[i].delta) <= rows[i].band);
        quantize_result_reset(&result);
    }
    dataset_sequences_free(&calibration);
    dataset_sequences_free(&evaluation);
    tokenizer_close(tokenizer);
    model_close(model);
    backend_free(backend);
    team_free(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stories260k_damage)};
    return cmocka_run_group_tests_name("quantize a real model", tests, NULL, NULL);
}
