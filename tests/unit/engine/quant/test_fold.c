/* Where scales of columns go, by linear, in the blocks of each architecture. */
#include "model/config.h"
#include "model/decoder.h"
#include "quant/fold.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define NORM   FOLD_NORM
#define ROWS   FOLD_ROWS
#define SHARED FOLD_SHARED
#define NONE   FOLD_NOWHERE

/* Of the cuts of a block in order. */
static void check(const char *type, const char *fields, int count, const enum fold *expected)
{
    char text[768];
    struct model_config config;
    struct program program;
    struct cuts cuts;
    struct error error;
    const int size = snprintf(text, sizeof text,
                              "{\"model_type\":\"%s\",\"vocab_size\":96,\"hidden_size\":32,\"num_hidden_layers\":1,"
                              "\"intermediate_size\":40,\"num_attention_heads\":4,\"max_position_embeddings\":64%s}",
                              type, fields);
    if (config_parse("config.json", text, (size_t)size, &config, &error) != STATUS_OK) fail_msg("%s", error.detail);
    decoder_block(&config, 0, &program);
    cuts_plan(&program, 0, &cuts);
    assert_int_equal(cuts.count, count);
    for (int i = 0; i < count; i++)
        if (fold_of(&program, &cuts.cuts[i]) != expected[i])
            fail_msg("%s: cut %d: %d, expected %d", type, i, (int)fold_of(&program, &cuts.cuts[i]), (int)expected[i]);
}

static void test_scales_go_where_autoawq_puts_them(void **state)
{
    static const struct {
        const char *type, *fields;
        int count;
        enum fold folds[5];
    } rows[] = {
        {"llama", "", 4, {NORM, ROWS, NORM, ROWS}},
        {"llama", ",\"num_key_value_heads\":2", 4, {NORM, SHARED, NORM, ROWS}},
        {"qwen3", ",\"num_key_value_heads\":4", 4, {NORM, ROWS, NORM, ROWS}},
        {"olmo2", "", 4, {NONE, ROWS, NONE, ROWS}},                            /* norms behind the linears */
        {"gpt_neox", ",\"hidden_act\":\"gelu\"", 4, {NORM, ROWS, NORM, NONE}}, /* gelu is no factor of its input */
        /* the sum behind the MLP reads the norm before it too */
        {"opt", ",\"ffn_dim\":40,\"do_layer_norm_before\":false", 4, {NONE, ROWS, NONE, NONE}},
        {"gpt2", "", 4, {NORM, ROWS, NORM, NONE}},
        /* the router reads the norm too; an expert's down reads its own up */
        {"olmoe", ",\"num_experts\":4,\"num_experts_per_tok\":2", 4, {NORM, ROWS, NONE, ROWS}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(rows[i].type, rows[i].fields, rows[i].count, rows[i].folds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scales_go_where_autoawq_puts_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
