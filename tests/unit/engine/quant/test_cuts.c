/* Where a block is cut to quantize it, and what is held there. */
#include "model/architecture.h"
#include "model/decoder.h"
#include "quant/cuts.h"
#include "unit.h"

#include <string.h>

static void llama_block(struct program *program)
{
    const struct model_config config = {
        .architecture = architecture_find("llama"),
        .vocabulary_size = 100,
        .hidden_size = 64,
        .intermediate_size = 160,
        .layers = 1,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
        .maximum_positions = 32,
        .norm_epsilon = 1e-6,
        .rope = {.theta = 10000, .partial = 1},
    };
    decoder_block(&config, 0, program);
}

static const char *linear_name(const struct program *program, int step)
{
    return strrchr(program->parameters[program->steps[step].parameter[0]].name, '.') - 6;
}

static void test_llama_is_cut_before_each_subset(void **state)
{
    (void)state;
    struct program program;
    struct cuts cuts;
    llama_block(&program);
    cuts_plan(&program, 1000, &cuts);
    static const char *const first[] = {"q_proj.weight", "o_proj.weight", "gate_proj.weight", "down_proj.weight"};
    static const int counts[] = {3, 1, 2, 1};
    static const int64_t held[] = {0, 64, 0, 160}; /* norms are computed again */
    assert_int_equal(cuts.count, 4);
    for (int i = 0; i < 4; i++) {
        const char *name = linear_name(&program, cuts.cuts[i].step);
        assert_non_null(strstr(first[i], name));
        assert_int_equal(cuts.cuts[i].count, counts[i]);
        assert_true(cuts.cuts[i].held);
        assert_int_equal(cuts.cuts[i].live_width, held[i]);
        assert_true(cuts.cuts[i].resume <= cuts.cuts[i].step);
    }
}

static void test_what_is_too_wide_is_computed_again(void **state)
{
    (void)state;
    struct program program;
    struct cuts cuts;
    llama_block(&program);
    cuts_plan(&program, 63, &cuts);
    assert_true(cuts.cuts[0].held && !cuts.cuts[1].held && cuts.cuts[2].held && !cuts.cuts[3].held);
}

/* Twice through an addition to the hidden states would add twice. */
static void test_an_addition_to_the_hidden_states_is_passed_once(void **state)
{
    (void)state;
    struct program program;
    struct cuts cuts;
    llama_block(&program);
    cuts_plan(&program, -1, &cuts);
    assert_true(!cuts.cuts[0].held && !cuts.cuts[1].held && cuts.cuts[2].held && !cuts.cuts[3].held);
    for (int i = 0; i < program.step_count; i++)
        if (program.steps[i].op == &op_add) {
            assert_true(i < cuts.cuts[2].resume);
            break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_is_cut_before_each_subset),
        cmocka_unit_test(test_what_is_too_wide_is_computed_again),
        cmocka_unit_test(test_an_addition_to_the_hidden_states_is_passed_once),
    };
    return cmocka_run_group_tests_name("cuts", tests, NULL, NULL);
}
