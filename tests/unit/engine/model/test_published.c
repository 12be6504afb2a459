/* Losses and gradients of tiny models against the published modelling code (transformers, run in double). Element e of
 * the i-th tensor by name, in the file's order, is (float)(0.4 sin(1 + 0.7 i + 0.37 e)), and the
 * architecture's initial value more in vectors. */
#include "base/memory.h"
#include "model/architecture.h"
#include "model/gradient.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 9, VOCABULARY = 13 };

struct published {
    const char *config;
    double tolerance;      /* relative; where the published code goes through float32 (norms, rotary tables): 1e-6 */
    double loss, gradient; /* of the mean loss; norm of its gradient */
    struct {
        const char *tensor;
        double norm;
    } parts[3];
};

static const struct published models[] = {
    {"{\"model_type\":\"gpt2\",\"vocab_size\":13,\"n_embd\":6,\"n_layer\":2,\"n_head\":2,\"n_positions\":12}",
     1e-11,
     2.93589685230324,
     27.3060024311961,
     {{"transformer.h.1.attn.c_attn.weight", 7.51209359608993},
      {"transformer.wpe.weight", 3.16051601810279},
      {"transformer.wte.weight", 3.30890888820049}}},
    {"{\"model_type\":\"opt\",\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
     "\"ffn_dim\":7,"
     "\"max_position_embeddings\":12,\"pad_token_id\":1,\"word_embed_proj_dim\":6}",
     1e-11,
     2.55337024054081,
     0.541943835498807,
     {{"model.decoder.embed_tokens.weight", 0.471385703961583},
      {"model.decoder.embed_positions.weight", 0.0904529302058987}}},
    {"{\"model_type\":\"opt\",\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
     "\"ffn_dim\":7,"
     "\"max_position_embeddings\":12,\"pad_token_id\":1,\"word_embed_proj_dim\":4,\"do_layer_norm_before\":false}",
     1e-11,
     2.58989157692865,
     0.348706676314035,
     {{"model.decoder.embed_tokens.weight", 0.21112596181093},
      {"model.decoder.project_in.weight", 0.00385822932946099},
      {"model.decoder.project_out.weight", 0.269228164629772}}},
    {"{\"model_type\":\"apertus\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":2,"
     "\"num_key_value_heads\":1,\"intermediate_size\":7,\"max_position_embeddings\":16,\"pad_token_id\":1,"
     "\"rope_scaling\":{\"rope_type\":"
     "\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
     "\"original_max_position_embeddings\":8}}",
     1e-6,
     2.6480647096196,
     2.87817860245019,
     {{"model.embed_tokens.weight", 0.484474959336079},
      {"model.layers.0.mlp.act_fn.alpha_n", 0.00644207649029496},
      {"model.layers.1.mlp.act_fn.alpha_p", 0.0652537399574024}}},
    {"{\"model_type\":\"olmoe\",\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
     "\"intermediate_size\":4,\"max_position_embeddings\":16,\"pad_token_id\":1,\"num_experts\":4,"
     "\"num_experts_per_tok\":2,"
     "\"norm_topk_prob\":false}",
     1e-6,
     2.84555188113359,
     1.69058926314103,
     {{"model.layers.0.mlp.gate.weight", 0.161070020150683},
      {"model.layers.1.mlp.experts.1.down_proj.weight", 0.0962870475466619},
      {"model.layers.1.mlp.experts.3.down_proj.weight", 0.0411323493423232}}},
    {"{\"model_type\":\"olmoe\",\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
     "\"intermediate_size\":4,\"max_position_embeddings\":16,\"pad_token_id\":1,\"num_experts\":4,"
     "\"num_experts_per_tok\":2,"
     "\"norm_topk_prob\":true}",
     1e-6,
     2.79473332789099,
     1.62758082221754,
     {{"model.layers.0.mlp.gate.weight", 0.106823074523173},
      {"model.layers.1.mlp.experts.1.down_proj.weight", 0.101800895850536},
      {"model.layers.1.mlp.experts.3.down_proj.weight", 0.0458240831609892}}},
    {"{\"model_type\":\"mamba\",\"vocab_size\":13,\"hidden_size\":6,\"state_size\":3,\"num_hidden_layers\":2,"
     "\"conv_kernel\":3,"
     "\"time_step_rank\":2,\"use_bias\":true}",
     1e-6,
     3.04368921572425,
     1.92811954957435,
     {{"backbone.embeddings.weight", 1.29659223954403},
      {"backbone.layers.0.mixer.A_log", 0.00395250457244618},
      {"backbone.layers.1.mixer.conv1d.weight", 0.439187794335742}}},
    {"{\"model_type\":\"mamba2\",\"vocab_size\":13,\"hidden_size\":6,\"state_size\":3,\"num_hidden_layers\":2,"
     "\"num_heads\":4,"
     "\"head_dim\":3,\"n_groups\":2,\"time_step_limit\":[0.0,Infinity]}",
     1e-6,
     2.55484645840834,
     1.82826174048257,
     {{"backbone.layers.0.mixer.dt_bias", 0.0141782105409078},
      {"backbone.layers.0.mixer.A_log", 0.00894743425473045},
      {"backbone.layers.1.mixer.norm.weight", 0.0602688629018104}}},
    {"{\"model_type\":\"mamba2\",\"vocab_size\":13,\"hidden_size\":6,\"state_size\":3,\"num_hidden_layers\":2,"
     "\"num_heads\":4,"
     "\"head_dim\":3,\"n_groups\":2,\"time_step_limit\":[0.0,1.4]}",
     1e-6,
     2.58241739711713,
     1.8621800855249,
     {{"backbone.layers.0.mixer.dt_bias", 0.00651013466600636},
      {"backbone.layers.0.mixer.A_log", 0.0349085786604704},
      {"backbone.layers.1.mixer.norm.weight", 0.0523741016203749}}},
    {"{\"model_type\":\"olmoe\",\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
     "\"intermediate_size\":4,\"max_position_embeddings\":16,\"pad_token_id\":1,\"num_experts\":4,"
     "\"num_experts_per_tok\":2,"
     "\"clip_qkv\":1.1}",
     1e-6,
     2.81078388612376,
     1.58536713815575,
     {{"model.layers.0.mlp.gate.weight", 0.160945342914592},
      {"model.layers.0.self_attn.q_proj.weight", 0.0457997014603535},
      {"model.layers.1.self_attn.q_proj.weight", 0.00928762264286378}}},
};

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static int64_t place_by_name(const struct parameters_layout *layout, int64_t tensor)
{
    int64_t before = 0;
    for (int64_t i = 0; i < layout->tensor_count; i++)
        before += !layout->tensors[i].parameter.constant &&
                  strcmp(layout->tensors[i].parameter.name, layout->tensors[tensor].parameter.name) < 0;
    return before;
}

static void fill(struct parameters *parameters)
{
    const struct parameters_layout *layout = parameters->layout;
    double *values = parameters->data;
    for (int64_t t = 0; t < layout->tensor_count; t++) {
        const struct parameter *p = &layout->tensors[t].parameter;
        const double i = (double)place_by_name(layout, t);
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t c = 0; c < p->columns; c++) {
                const double e = (double)(p->transposed ? c * p->rows + r : r * p->columns + c);
                const double value =
                    (double)(float)(0.4 * sin(1 + 0.7 * i + 0.37 * e) + (p->rows > 1 ? 0 : p->initial));
                values[layout->tensors[t].offset + r * p->columns + c] = p->constant ? p->initial : value;
            }
    }
}

static double norm_of(const struct parameters *gradients, int64_t tensor)
{
    const struct matrix view = parameters_view(gradients, tensor);
    return sqrt(gradients->backend->ops->dot(gradients->backend, view, view));
}

static void check(const struct published *model)
{
    struct model_config config;
    struct backend *backend = NULL;
    struct parameters_layout *layout = NULL;
    struct parameters parameters, gradients;
    struct gradient *gradient = NULL;
    struct chunks chunks;
    int64_t starts[] = {0, LENGTH, 2 * LENGTH};
    uint32_t tokens[2 * LENGTH];
    double losses[2 * LENGTH], loss = 0;
    for (uint32_t t = 0; t < LENGTH; t++) {
        tokens[t] = (7 * t * t + 3 * t + 1) % VOCABULARY;
        tokens[LENGTH + t] = (5 * t + 2) % VOCABULARY;
    }
    ok(config_parse("config.json", model->config, strlen(model->config), &config, &error));
    ok(backend_reference_new(true, NULL, &backend, &error));
    ok(parameters_layout_new(&config, &layout, &error));
    ok(parameters_init(&parameters, layout, backend, "parameters", &error));
    ok(parameters_init(&gradients, layout, backend, "gradients", &error));
    ok(chunks_init(&(struct sequences){2, starts, tokens}, 100, &chunks, &error));
    ok(gradient_new(&parameters, GRADIENT_RECOMPUTE, chunks.largest, chunks.longest, &gradient, &error));
    fill(&parameters);
    gradient_add(gradient, &chunks.chunks[0].batch, 1 / (double)chunks.predictions, losses, &gradients);
    for (int t = 0; t < 2 * LENGTH; t++) loss += losses[t] / (double)chunks.predictions;
    if (!(fabs(loss - model->loss) < model->tolerance * loss))
        fail_msg("%s: loss %.15g, not %.15g", config.architecture->model_type, loss, model->loss);
    const double all = sqrt(backend->ops->dot(backend, parameters_all(&gradients), parameters_all(&gradients)));
    if (!(fabs(all - model->gradient) < 100 * model->tolerance * all))
        fail_msg("%s: gradient %.15g, not %.15g", config.architecture->model_type, all, model->gradient);
    for (int i = 0; i < 3 && model->parts[i].tensor != NULL; i++) {
        const double norm = norm_of(&gradients, parameters_find(layout, model->parts[i].tensor));
        if (!(fabs(norm - model->parts[i].norm) < 100 * model->tolerance * all))
            fail_msg("%s: gradient %.15g, not %.15g", model->parts[i].tensor, norm, model->parts[i].norm);
    }
    gradient_free(gradient);
    chunks_reset(&chunks);
    parameters_reset(&gradients);
    parameters_reset(&parameters);
    parameters_layout_free(layout);
    backend_free(backend);
}

static void test_losses_and_gradients_are_those_of_the_published_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) check(&models[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses_and_gradients_are_those_of_the_published_code)};
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
