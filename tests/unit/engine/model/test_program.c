/* The shared-memory plan of a block must never let two live slots overlap. Every architecture's block is run twice on
 * random numbers, once with the shared plan and once with every slot apart: the outputs must be equal to the bit. */
#include "model/walk.h"
#include "unit.h"

#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const configs[] = {
    "{\"model_type\":\"llama\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,\"num_attention_heads\":6,"
    "\"num_key_value_heads\":2,\"head_dim\":8,\"intermediate_size\":40,\"max_position_embeddings\":64,"
    "\"attention_bias\":true}",
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":3,"
    "\"intermediate_size\":24,\"max_position_embeddings\":64}",
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":3,"
    "\"intermediate_size\":100,\"max_position_embeddings\":64,\"use_parallel_residual\":false}",
    "{\"model_type\":\"mamba\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,\"state_size\":5,"
    "\"use_bias\":true}",
    "{\"model_type\":\"mamba2\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,\"state_size\":5,"
    "\"num_heads\":6,"
    "\"n_groups\":3}",
};

static struct matrix random_matrix(struct backend *backend, int64_t rows, int64_t columns, uint64_t stream)
{
    struct error error;
    void *data = NULL;
    double *host = calloc((size_t)(rows * columns), sizeof *host);
    assert_int_equal(backend->ops->allocate(backend, rows * columns, "test", &data, &error), STATUS_OK);
    for (int64_t i = 0; i < rows * columns; i++) host[i] = random_normal(3, stream, (uint64_t)i) * 0.3;
    const struct matrix matrix = matrix_of(data, rows, columns, backend->ops->element);
    backend->ops->upload(backend, matrix, host, DTYPE_F64);
    free(host);
    return matrix;
}

static void run_block(const struct model_config *config, enum walk_kind kind, double *out)
{
    struct error error;
    struct backend *backend = NULL;
    struct program program;
    struct matrix parameters[PROGRAM_PARAMETERS], cosine, sine;
    struct chunks chunks;
    struct walk walk;
    int64_t starts[] = {0, 7, 12};
    uint32_t tokens[12] = {0};
    const struct sequences sequences = {2, starts, tokens};
    assert_int_equal(backend_reference_new(true, NULL, &backend, &error), STATUS_OK);
    assert_int_equal(chunks_init(&sequences, 100, &chunks, &error), STATUS_OK);
    assert_int_equal(backend->ops->prepare(backend, 7, 128, &error), STATUS_OK);
    assert_int_equal(model_rope_tables(config, backend, 7, &cosine, &sine, &error), STATUS_OK);
    decoder_block(config, 0, &program);
    for (int i = 0; i < program.parameter_count; i++)
        parameters[i] = random_matrix(backend, program.parameters[i].rows, program.parameters[i].columns, (uint64_t)i);
    struct matrix hidden = random_matrix(backend, 12, config->hidden_size, 99);
    assert_int_equal(walk_init(&walk, config, backend, kind, 12, cosine, sine, &error), STATUS_OK);
    walk_forward(&walk, &program, &chunks.chunks[0].batch, parameters, hidden);
    backend->ops->download(backend, kind == WALK_FORWARD ? hidden : walk.values[program.output], out, DTYPE_F64);
    for (int i = 0; i < program.parameter_count; i++) backend->ops->release(backend, parameters[i].data);
    backend->ops->release(backend, hidden.data);
    backend->ops->release(backend, cosine.data);
    walk_reset(&walk);
    chunks_reset(&chunks);
    backend_free(backend);
}

static void test_shared_plan_computes_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct model_config config;
        struct error error;
        double shared[12 * 24], apart[12 * 24];
        if (config_parse("config.json", configs[i], strlen(configs[i]), &config, &error) != STATUS_OK)
            fail_msg("%s", error.detail);
        run_block(&config, WALK_FORWARD, shared);
        run_block(&config, WALK_GRADIENT, apart);
        assert_memory_equal(shared, apart, sizeof shared);
    }
}

static void test_shared_plan_is_smaller(void **state)
{
    struct model_config config;
    struct error error;
    struct program program;
    struct program_plan shared, apart;
    (void)state;
    assert_int_equal(config_parse("config.json", configs[1], strlen(configs[1]), &config, &error), STATUS_OK);
    decoder_block(&config, 0, &program);
    program_plan(&program, false, &shared);
    program_plan(&program, true, &apart);
    assert_true(shared.width < apart.width);
    assert_int_equal(shared.offset[program.output], -1); /* residual additions work on the hidden states themselves */
}

static struct program program_of(const char *text)
{
    struct model_config config;
    struct program program;
    struct error error;
    if (config_parse("config.json", text, strlen(text), &config, &error) != STATUS_OK) fail_msg("%s", error.detail);
    decoder_block(&config, 0, &program);
    return program;
}

static const struct step *step_of(const struct program *program, const struct op *op)
{
    for (int i = 0; i < program->step_count; i++)
        if (program->steps[i].op == op) return &program->steps[i];
    fail_msg("there is no step %s", op->name);
    return NULL;
}

/* Fused projections of three heads of two columns: gpt2 has three blocks q, k, v; gpt_neox has q, k, v of a head side
 * by side. */
static void test_fused_projections_lie_as_published(void **state)
{
    (void)state;
    const struct program blocks =
        program_of("{\"model_type\":\"gpt2\",\"vocab_size\":9,\"n_embd\":6,\"n_layer\":1,\"n_head\":3,"
                   "\"n_positions\":16}");
    const struct program heads = program_of(
        "{\"model_type\":\"gpt_neox\",\"vocab_size\":9,\"hidden_size\":6,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":3,\"intermediate_size\":8,\"max_position_embeddings\":16,\"rotary_pct\":1}");
    const struct attention_attributes *gpt2 = &step_of(&blocks, &op_attention)->attributes.attention;
    const struct attention_attributes *neox = &step_of(&heads, &op_attention)->attributes.attention;
    for (int i = 0; i < 3; i++) {
        assert_true(gpt2->offset[i] == 6 * i && gpt2->head_stride[i] == 2);
        assert_true(neox->offset[i] == 2 * i && neox->head_stride[i] == 6);
    }
}

/* [z | x B C | dt] of widths 48, 48 + 2 * 3 * 5 and 6; the convolution goes over the middle. */
static void test_the_input_of_mamba2_is_cut_as_published(void **state)
{
    (void)state;
    const struct program program = program_of(configs[4]);
    const struct step *scan = step_of(&program, &op_scan), *convolution = step_of(&program, &op_convolution);
    const struct slot *sizes = &program.slots[scan->input[1]], *mixed = &program.slots[convolution->input[0]];
    const int all = program.steps[1].output;
    assert_int_equal(program.slots[all].width, 48 + 78 + 6);
    assert_true(sizes->of == all && sizes->first == 126 && sizes->width == 6);
    assert_true(mixed->of == all && mixed->first == 48 && mixed->width == 78);
}

/* hidden_act is that of the convolution in both; mamba gates with it too, and mamba2's norm with silu. */
static void test_the_gate_of_mamba2_is_silu(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum activation_kind gate;
    } rows[] = {{"mamba", ACTIVATION_GELU}, {"mamba2", ACTIVATION_SILU}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "{\"model_type\":\"%s\",\"vocab_size\":32,\"hidden_size\":24,\"num_hidden_layers\":1,"
                       "\"state_size\":5,\"num_heads\":6,\"n_groups\":3,\"hidden_act\":\"gelu\"}",
                       rows[i].type);
        const struct program program = program_of(text);
        const struct step *convolution = step_of(&program, &op_convolution), *scan = step_of(&program, &op_scan);
        int found = 0;
        for (int k = 0; k < program.step_count; k++) {
            const struct step *step = &program.steps[k];
            if (step->op != &op_activation) continue;
            found++;
            if (step->input[0] == convolution->output)
                assert_int_equal(step->attributes.activation.kind, ACTIVATION_GELU);
            if (step->input[1] == scan->output) assert_int_equal(step->attributes.activation.kind, rows[i].gate);
        }
        assert_int_equal(found, 2);
    }
}

/* Both factors of a fresh xIELU are 0.8: softplus(alpha_p), and beta + softplus(alpha_n) with beta 0.5. */
static void test_a_fresh_xielu_is_the_published_one(void **state)
{
    (void)state;
    const struct program program =
        program_of("{\"model_type\":\"apertus\",\"vocab_size\":9,\"hidden_size\":8,\"num_hidden_layers\":1,"
                   "\"num_attention_heads\":2,\"intermediate_size\":8,\"max_position_embeddings\":16}");
    const struct step *xielu = step_of(&program, &op_xielu);
    const struct parameter *p = &program.parameters[xielu->parameter[0]], *n = &program.parameters[xielu->parameter[1]];
    const struct parameter *beta = &program.parameters[xielu->parameter[2]],
                           *eps = &program.parameters[xielu->parameter[3]];
    assert_true(fabs(log1p(exp(p->initial)) - 0.8) < 1e-10 &&
                fabs(beta->initial + log1p(exp(n->initial)) - 0.8) < 1e-10);
    assert_true(!p->constant && !n->constant && beta->constant && eps->constant);
    assert_true(beta->initial == 0.5 && eps->initial == -1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_plan_computes_the_same),
        cmocka_unit_test(test_shared_plan_is_smaller),
        cmocka_unit_test(test_fused_projections_lie_as_published),
        cmocka_unit_test(test_the_input_of_mamba2_is_cut_as_published),
        cmocka_unit_test(test_the_gate_of_mamba2_is_silu),
        cmocka_unit_test(test_a_fresh_xielu_is_the_published_one),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
