#include "model/decoder.h"

#include "backend/routes.h"
#include "model/architecture.h"

#include <stdio.h>
#include <string.h>

struct builder {
    const struct model_config *config;
    const struct architecture *architecture;
    struct program *program;
    int layer, expert;
};

static const char *role_name(const struct builder *b, enum role role, const char *ending, char *buffer, size_t size)
{
    char stem[PARAMETER_NAME];
    const char *name = b->architecture->names[role], *prefix = b->architecture->prefix;
    if (b->config->bare_names && prefix != NULL) name += strlen(prefix);
        /* the rows of architecture.c are the only formats, with a %d for the layer and one for the expert */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(stem, sizeof stem, name, b->layer, b->expert);
#pragma GCC diagnostic pop
    (void)snprintf(buffer, size, "%s%s", stem, ending);
    return buffer;
}

static int build_parameter(struct builder *b, enum role role, const char *ending, int64_t rows, int64_t columns,
                           bool linear)
{
    char name[PARAMETER_NAME + 16];
    const int number =
        program_parameter(b->program, role_name(b, role, ending, name, sizeof name), rows, columns, linear);
    b->program->parameters[number].initial = strcmp(ending, ".bias") == 0 ? 0 : 1;
    return number;
}

static int build_matrix(struct builder *b, enum role role, const char *ending, int64_t rows, int64_t columns,
                        bool linear)
{
    const int number = build_parameter(b, role, ending, rows, columns, linear);
    b->program->parameters[number].matrix = true;
    return number;
}

/* Each of `groups` equal parts of a row is normalised on its own, with one weight of `weight` columns. */
static int build_norm_of(struct builder *b, enum role role, int input, int64_t groups, int64_t weight)
{
    const int output = program_slot(b->program, b->program->slots[input].width);
    struct step *step = program_step(b->program, &op_norm, input, output);
    step->attributes.norm = (struct norm_attributes){b->architecture->norm, b->config->norm_epsilon, groups};
    step->parameter[0] = build_parameter(b, role, ".weight", 1, weight, false);
    if (b->architecture->norm_bias) step->parameter[1] = build_parameter(b, role, ".bias", 1, weight, false);
    return output;
}

static int build_norm(struct builder *b, enum role role, int input)
{
    return build_norm_of(b, role, input, 1, b->program->slots[input].width);
}

static int build_query_key_norm(struct builder *b, enum role role, int input, int64_t heads)
{
    switch (b->architecture->query_key_norm) {
    case QUERY_KEY_NORM_NONE:
        break;
    case QUERY_KEY_NORM_HEAD:
        return build_norm_of(b, role, input, heads, b->config->head_dim);
    case QUERY_KEY_NORM_WHOLE:
        return build_norm(b, role, input);
    }
    return input;
}

static int build_projection(struct builder *b, enum role role, int input, int64_t width, bool bias, bool quantizable)
{
    const int output = program_slot(b->program, width);
    struct step *step = program_step(b->program, &op_linear, input, output);
    step->parameter[0] = build_matrix(b, role, ".weight", width, b->program->slots[input].width, quantizable);
    b->program->parameters[step->parameter[0]].transposed = b->architecture->transposed;
    if (bias) step->parameter[1] = build_parameter(b, role, ".bias", 1, width, false);
    return output;
}

static int build_linear(struct builder *b, enum role role, int input, int64_t width, bool bias)
{
    return build_projection(b, role, input, width, bias, true);
}

static int build_clip(struct builder *b, int input)
{
    const int output = program_slot(b->program, b->program->slots[input].width);
    program_step(b->program, &op_clip, input, output)->attributes.clip.bound = b->config->clip;
    return output;
}

static void build_rope(struct builder *b, int slot, int64_t offset, int64_t head_stride, int64_t heads)
{
    struct step *step = program_step(b->program, &op_rope, slot, slot);
    step->attributes.rope = (struct rope_attributes){offset, head_stride, heads, config_rotary(b->config)};
}

/* Queries, keys and values with their rotation, then attention; fused projections hold [head][q|k|v][head_dim], or
 * (fused_blocks) [q|k|v][head][head_dim]. */
static int build_attention(struct builder *b, int input)
{
    const struct model_config *c = b->config;
    const int64_t dim = c->head_dim;
    struct attention_attributes a = {
        .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = dim, .window = config_window(c, b->layer)};
    int slot[3];
    if (b->architecture->names[ROLE_QUERY_KEY_VALUE] != NULL) {
        slot[0] = slot[1] = slot[2] =
            build_linear(b, ROLE_QUERY_KEY_VALUE, input, 3 * c->heads * dim, c->attention_bias);
        for (int i = 0; i < 3; i++) {
            a.offset[i] = b->architecture->fused_blocks ? i * c->heads * dim : i * dim;
            a.head_stride[i] = b->architecture->fused_blocks ? dim : 3 * dim;
        }
    } else {
        slot[0] = build_linear(b, ROLE_QUERY, input, c->heads * dim, c->attention_bias);
        slot[1] = build_linear(b, ROLE_KEY, input, c->kv_heads * dim, c->attention_bias);
        slot[2] = build_linear(b, ROLE_VALUE, input, c->kv_heads * dim, c->attention_bias);
        for (int i = 0; i < 3; i++) a.head_stride[i] = dim;
        slot[0] = build_query_key_norm(b, ROLE_QUERY_NORM, slot[0], c->heads);
        slot[1] = build_query_key_norm(b, ROLE_KEY_NORM, slot[1], c->kv_heads);
        for (int i = 0; i < 3 && c->clip > 0; i++) slot[i] = build_clip(b, slot[i]);
    }
    if (config_rotates(c, b->layer)) {
        build_rope(b, slot[0], a.offset[0], a.head_stride[0], c->heads);
        build_rope(b, slot[1], a.offset[1], a.head_stride[1], c->kv_heads);
    }
    const int output = program_slot(b->program, c->heads * dim);
    struct step *step = program_step(b->program, &op_attention, slot[0], output);
    for (int i = 0; i < 3; i++) step->input[i] = slot[i];
    step->saved = program_slot(b->program, c->heads);
    step->attributes.attention = a;
    return build_linear(b, ROLE_ATTENTION_OUTPUT, output, c->hidden_size,
                        c->attention_bias && !b->architecture->attention_output_plain);
}

static int build_activation_of(struct builder *b, int gate, int up, enum activation_kind kind)
{
    const int output = program_slot(b->program, b->program->slots[gate].width);
    struct step *step = program_step(b->program, &op_activation, gate, output);
    step->input[1] = up;
    step->attributes.activation.kind = kind;
    return output;
}

static int build_activation(struct builder *b, int gate, int up)
{
    return build_activation_of(b, gate, up, b->config->activation);
}

/* xIELU with the numbers that a fresh layer has (Huang and Schlag: both factors 0.8; alpha_n's beside beta). A file
 * without the constants has these values. */
static int build_xielu(struct builder *b, int input)
{
    static const struct {
        const char *ending;
        double initial;
        bool constant;
    } numbers[] = {
        {".alpha_p", 0.20338232081, false},  /* log(expm1(0.8)) */
        {".alpha_n", -1.05022561281, false}, /* log(expm1(0.8 - 0.5)) */
        {".beta", 0.5, true},
        {".eps", -1e-6, true},
    };
    const int output = program_slot(b->program, b->program->slots[input].width);
    struct step *step = program_step(b->program, &op_xielu, input, output);
    for (int i = 0; i < 4; i++) {
        step->parameter[i] = build_parameter(b, ROLE_ACTIVATION, numbers[i].ending, 1, 1, false);
        b->program->parameters[step->parameter[i]].initial = numbers[i].initial;
        b->program->parameters[step->parameter[i]].constant = numbers[i].constant;
    }
    return output;
}

static struct experts_attributes experts_of(const struct builder *b)
{
    return (struct experts_attributes){b->config->experts, b->config->experts_per_token, b->config->experts_normalised};
}

/* One linear of every expert over rows sorted by expert. */
static int build_experts(struct builder *b, enum role role, int input, int routes, int64_t width)
{
    const int64_t k = b->config->experts_per_token, columns = b->program->slots[input].width / k;
    const int output = program_slot(b->program, k * width);
    struct step *step = program_step(b->program, &op_experts, input, output);
    step->input[1] = routes;
    step->attributes.experts = experts_of(b);
    for (b->expert = 0; b->expert < b->config->experts; b->expert++) {
        const int number = build_matrix(b, role, ".weight", width, columns, true);
        if (b->expert == 0) step->parameter[0] = number;
    }
    b->expert = 0;
    return output;
}

static int build_mixture(struct builder *b, int input)
{
    const struct model_config *c = b->config;
    struct program *program = b->program;
    const int64_t k = c->experts_per_token;
    const int logits = build_projection(b, ROLE_ROUTER, input, c->experts, false, false);
    const int weights = program_slot(program, k), routes = program_slot(program, routes_columns(c->experts, k));
    struct step *step = program_step(program, &op_route, logits, weights);
    step->saved = routes;
    step->attributes.experts = experts_of(b);
    const int sorted = program_slot(program, k * c->hidden_size);
    step = program_step(program, &op_dispatch, input, sorted);
    step->input[1] = routes;
    step->attributes.experts = experts_of(b);
    const int gate = build_experts(b, ROLE_GATE, sorted, routes, c->intermediate_size);
    const int up = build_experts(b, ROLE_UP, sorted, routes, c->intermediate_size);
    const int made = build_experts(b, ROLE_DOWN, build_activation(b, gate, up), routes, c->hidden_size);
    const int output = program_slot(program, c->hidden_size);
    step = program_step(program, &op_combine, made, output);
    step->input[1] = weights;
    step->input[2] = routes;
    step->attributes.experts = experts_of(b);
    return output;
}

static int build_mlp(struct builder *b, int input)
{
    const struct model_config *c = b->config;
    if (b->architecture->names[ROLE_ROUTER] != NULL) return build_mixture(b, input);
    const bool gated = b->architecture->names[ROLE_GATE] != NULL;
    const int first = build_linear(b, gated ? ROLE_GATE : ROLE_UP, input, c->intermediate_size, c->mlp_bias);
    const int second = gated ? build_linear(b, ROLE_UP, input, c->intermediate_size, c->mlp_bias) : NO_SLOT;
    const int inner = c->xielu ? build_xielu(b, first) : build_activation(b, first, second);
    return build_linear(b, ROLE_DOWN, inner, c->hidden_size, c->mlp_bias);
}

static int build_add(struct builder *b, int a, int other)
{
    const int output = program_slot(b->program, b->program->slots[a].width);
    program_step(b->program, &op_add, a, output)->input[1] = other;
    return output;
}

static int build_convolution(struct builder *b, int input)
{
    const struct state_space_config *s = &b->config->state_space;
    const int64_t width = b->program->slots[input].width;
    const int output = program_slot(b->program, width);
    struct step *step = program_step(b->program, &op_convolution, input, output);
    step->attributes.convolution = (struct convolution_attributes){width, s->kernel};
    step->parameter[0] = build_matrix(b, ROLE_STATE_CONVOLUTION, ".weight", width, s->kernel, false);
    b->program->parameters[step->parameter[0]].depthwise = true;
    b->program->parameters[step->parameter[0]].fresh = FRESH_UNIFORM;
    if (s->kernel_bias) step->parameter[1] = build_parameter(b, ROLE_STATE_CONVOLUTION, ".bias", 1, width, false);
    return build_activation(b, output, NO_SLOT);
}

static int build_scan(struct builder *b, int x, int step_sizes, int bc)
{
    const struct state_space_config *s = &b->config->state_space;
    const bool heads = b->architecture->block == BLOCK_MAMBA2;
    const int output = program_slot(b->program, s->width);
    struct step *step = program_step(b->program, &op_scan, x, output);
    step->input[1] = step_sizes;
    step->input[2] = bc;
    step->saved = program_slot(b->program, scan_kept_columns(s->width, s->states));
    step->attributes.scan =
        (struct scan_attributes){s->width, s->heads, s->groups, s->states, s->step_least, s->step_most};
    step->parameter[0] =
        build_parameter(b, ROLE_STATE_DECAY, "", heads ? 1 : s->heads, heads ? s->heads : s->states, false);
    step->parameter[1] = build_parameter(b, ROLE_STATE_SKIP, "", 1, s->heads, false);
    b->program->parameters[step->parameter[0]].fresh = FRESH_DECAY;
    b->program->parameters[step->parameter[0]].matrix = !heads;
    if (!heads) return output;
    step->parameter[2] = build_parameter(b, ROLE_STATE_STEP_BIAS, "", 1, s->heads, false);
    b->program->parameters[step->parameter[2]].fresh = FRESH_STEP;
    return output;
}

/* The projection of the step sizes is not quantized: it is very small, and published quantizers of such models leave it
 * as it is. */
static int build_mamba(struct builder *b, int input)
{
    const struct state_space_config *s = &b->config->state_space;
    const int both = build_linear(b, ROLE_STATE_INPUT, input, 2 * s->width, s->bias);
    const int x = program_view(b->program, both, 0, s->width),
              gate = program_view(b->program, both, s->width, s->width);
    const int mixed = build_convolution(b, x);
    const int selection = build_linear(b, ROLE_STATE_SELECTION, mixed, s->rank + 2 * s->states, false);
    const int low = program_view(b->program, selection, 0, s->rank);
    const int bc = program_view(b->program, selection, s->rank, 2 * s->states);
    const int step_sizes = build_projection(b, ROLE_STATE_STEP, low, s->width, true, false);
    const struct step *step = &b->program->steps[b->program->step_count - 1];
    b->program->parameters[step->parameter[0]].fresh = FRESH_UNIFORM;
    b->program->parameters[step->parameter[1]].fresh = FRESH_STEP;
    const int gated = build_activation(b, gate, build_scan(b, mixed, step_sizes, bc));
    return build_linear(b, ROLE_STATE_OUTPUT, gated, b->config->hidden_size, s->bias);
}

static int build_mamba2(struct builder *b, int input)
{
    const struct state_space_config *s = &b->config->state_space;
    const int64_t inner = s->width + 2 * s->groups * s->states;
    const int all = build_linear(b, ROLE_STATE_INPUT, input, s->width + inner + s->heads, s->bias);
    const int gate = program_view(b->program, all, 0, s->width), xbc = program_view(b->program, all, s->width, inner);
    const int step_sizes = program_view(b->program, all, s->width + inner, s->heads);
    const int mixed = build_convolution(b, xbc);
    const int x = program_view(b->program, mixed, 0, s->width);
    const int bc = program_view(b->program, mixed, s->width, inner - s->width);
    /* hidden_act is that of the convolution; the published norm gates with silu */
    const int gated = build_activation_of(b, gate, build_scan(b, x, step_sizes, bc), ACTIVATION_SILU);
    const int normed = build_norm_of(b, ROLE_STATE_GATED_NORM, gated, s->groups, s->width);
    return build_linear(b, ROLE_STATE_OUTPUT, normed, b->config->hidden_size, s->bias);
}

void decoder_block(const struct model_config *config, int64_t layer, struct program *out)
{
    struct builder b = {config, config->architecture, out, (int)layer, 0};
    *out = (struct program){0};
    out->input = program_slot(out, config->hidden_size);
    if (b.architecture->block != BLOCK_ATTENTION) {
        const int normed = build_norm(&b, ROLE_ATTENTION_NORM, out->input);
        out->output = build_add(
            &b, out->input, b.architecture->block == BLOCK_MAMBA ? build_mamba(&b, normed) : build_mamba2(&b, normed));
    } else if (config->parallel_residual) {
        const int attention = build_attention(&b, build_norm(&b, ROLE_ATTENTION_NORM, out->input));
        const int mlp = build_mlp(&b, build_norm(&b, ROLE_MLP_NORM, out->input));
        out->output = build_add(&b, build_add(&b, out->input, attention), mlp);
    } else if (config->norm_after_sum) {
        const int middle =
            build_norm(&b, ROLE_ATTENTION_NORM, build_add(&b, out->input, build_attention(&b, out->input)));
        out->output = build_norm(&b, ROLE_MLP_NORM, build_add(&b, middle, build_mlp(&b, middle)));
    } else if (config->architecture->norm_placement == NORM_AFTER) {
        const int attention = build_norm(&b, ROLE_ATTENTION_NORM, build_attention(&b, out->input));
        const int middle = build_add(&b, out->input, attention);
        out->output = build_add(&b, middle, build_norm(&b, ROLE_MLP_NORM, build_mlp(&b, middle)));
    } else {
        const int attention = build_attention(&b, build_norm(&b, ROLE_ATTENTION_NORM, out->input));
        const int middle = build_add(&b, out->input, attention);
        const int mlp = build_mlp(&b, build_norm(&b, ROLE_MLP_NORM, middle));
        out->output = build_add(&b, middle, mlp);
    }
}

static struct parameter end_parameter(const struct builder *b, enum role role, const char *ending, int64_t rows,
                                      int64_t columns)
{
    struct parameter parameter = {.rows = rows, .columns = columns, .matrix = role != ROLE_FINAL_NORM};
    if (b->architecture->names[role] != NULL) role_name(b, role, ending, parameter.name, sizeof parameter.name);
    return parameter;
}

void decoder_ends(const struct model_config *config, struct decoder_ends *out)
{
    const struct builder b = {config, config->architecture, NULL, 0, 0};
    const int64_t vocabulary = config->vocabulary_size, width = config->hidden_size, narrow = config->embedding_size;
    const int64_t positions = config->maximum_positions + config->architecture->position_offset;
    *out = (struct decoder_ends){0};
    out->embedding = end_parameter(&b, ROLE_EMBEDDING, ".weight", vocabulary, narrow);
    out->positions = end_parameter(&b, ROLE_POSITIONS, ".weight", positions, width);
    if (narrow != width) out->project_in = end_parameter(&b, ROLE_PROJECT_IN, ".weight", width, narrow);
    if (config->final_norm) out->norm_weight = end_parameter(&b, ROLE_FINAL_NORM, ".weight", 1, width);
    if (config->final_norm && config->architecture->norm_bias)
        out->norm_bias = end_parameter(&b, ROLE_FINAL_NORM, ".bias", 1, width);
    if (narrow != width) out->project_out = end_parameter(&b, ROLE_PROJECT_OUT, ".weight", narrow, width);
    out->output = config->tied ? out->embedding : end_parameter(&b, ROLE_OUTPUT, ".weight", vocabulary, narrow);
    out->norm_weight.initial = 1;
}

int decoder_ends_list(const struct decoder_ends *ends, bool tied, const struct parameter *list[DECODER_ENDS])
{
    const struct parameter *all[] = {&ends->embedding, &ends->positions,   &ends->project_in, &ends->norm_weight,
                                     &ends->norm_bias, &ends->project_out, &ends->output};
    int count = 0;
    for (int i = 0; i < DECODER_ENDS; i++)
        if (all[i]->name[0] != '\0' && !(tied && all[i] == &ends->output)) list[count++] = all[i];
    return count;
}
