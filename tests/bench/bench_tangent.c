/* bench_tangent.c: what the passes of a Hessian-vector product cost beside those of a gradient, at the shape of
 * Pythia-160M (or of a llama of that size with `llama`) on 4 sequences of 512 tokens: one block, the head, and both put
 * together for all layers. The best of several runs, DELTAQ_THREADS threads (default: all); with one thread processor
 * time counts, so a busy machine can be used. `tiny`: a small shape on 32 tokens, to try the program itself. */
#include "bench.h"
#include "model/gradient.h"
#include "model/head.h"
#include "model/walk.h"

#include <string.h>

enum { LAYERS = 12, TOKENS_MOST = 2048 };

static const struct shape {
    const char *name;
    int64_t sequences, length;
    const char *config;
} shapes[] = {
    {"neox", 4, 512,
     "{\"model_type\":\"gpt_neox\",\"vocab_size\":50304,\"hidden_size\":768,\"num_hidden_layers\":1,"
     "\"num_attention_heads\":12,"
     "\"intermediate_size\":3072,\"max_position_embeddings\":2048,\"rotary_pct\":0.25}"},
    {"llama", 4, 512,
     "{\"model_type\":\"llama\",\"vocab_size\":50304,\"hidden_size\":768,\"num_hidden_layers\":1,"
     "\"num_attention_heads\":12,"
     "\"num_key_value_heads\":4,\"intermediate_size\":2048,\"max_position_embeddings\":2048}"},
    {"tiny", 2, 16,
     "{\"model_type\":\"gpt_neox\",\"vocab_size\":256,\"hidden_size\":64,\"num_hidden_layers\":1,"
     "\"num_attention_heads\":4,"
     "\"intermediate_size\":128,\"max_position_embeddings\":64,\"rotary_pct\":0.25}"},
};

struct place {
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters, direction, into;
    struct chunks chunks;
    const struct batch *batch;
    struct matrix cosine, sine, hidden, hidden_t, dhidden, dhidden_t;
    struct walk forward, gradient, tangent;
    struct head head;
    struct matrix block[PROGRAM_PARAMETERS], block_t[PROGRAM_PARAMETERS], dblock[PROGRAM_PARAMETERS];
    double losses[TOKENS_MOST];
};

static struct error error;

static void need(enum status status)
{
    if (status == STATUS_OK) return;
    (void)fprintf(stderr, "%s\n", error.detail);
    exit(1);
}

static struct matrix hidden_new(struct place *place)
{
    struct matrix m = matrix_of(NULL, place->chunks.tokens, place->layout->config.hidden_size, sizeof(float));
    need(place->backend->ops->allocate(place->backend, m.rows * m.columns, "hidden states", &m.data, &error));
    float *values = m.data;
    for (int64_t i = 0; i < m.rows * m.columns; i++) values[i] = (float)random_normal(1, 2, (uint64_t)i % 100003);
    return m;
}

static void place_open(struct place *place, const struct shape *shape)
{
    struct model_config config;
    const int64_t length = shape->length, tokens = shape->sequences * length;
    need(config_parse("bench", shape->config, strlen(shape->config), &config, &error));
    const struct sequences sequences = bench_sequences(shape->sequences, length, config.vocabulary_size, 3);
    need(parameters_layout_new(&config, &place->layout, &error));
    need(parameters_init(&place->parameters, place->layout, place->backend, "parameters", &error));
    need(parameters_init(&place->direction, place->layout, place->backend, "direction", &error));
    need(parameters_init(&place->into, place->layout, place->backend, "gradients", &error));
    need(parameters_initialise(&place->parameters, 1, &error));
    need(parameters_initialise(&place->direction, 2, &error));
    need(chunks_init(&sequences, tokens, &place->chunks, &error));
    place->batch = &place->chunks.chunks[0].batch;
    need(place->backend->ops->prepare(place->backend, length, config.vocabulary_size, &error));
    need(model_rope_tables(&config, place->backend, length, &place->cosine, &place->sine, &error));
    need(walk_init(&place->forward, &config, place->backend, WALK_FORWARD, tokens, place->cosine, place->sine, &error));
    need(walk_init(&place->gradient, &config, place->backend, WALK_GRADIENT, tokens, place->cosine, place->sine,
                   &error));
    need(walk_init(&place->tangent, &config, place->backend, WALK_TANGENT, tokens, place->cosine, place->sine, &error));
    const struct head_weights weights = parameters_head(&place->parameters);
    need(head_init(&place->head, &config, place->backend, &weights, HEAD_TANGENT, &error));
    place->hidden = hidden_new(place), place->hidden_t = hidden_new(place);
    place->dhidden = hidden_new(place), place->dhidden_t = hidden_new(place);
    parameters_block(&place->parameters, 0, place->block);
    parameters_block(&place->direction, 0, place->block_t);
    parameters_block(&place->into, 0, place->dblock);
}

static void block_forward(struct place *place)
{
    walk_forward(&place->gradient, &place->layout->programs[0], place->batch, place->block, place->hidden);
}

static void block_backward(struct place *place)
{
    walk_backward(&place->gradient, place->dhidden, place->dblock);
}

static void block_tangent(struct place *place)
{
    walk_tangent(&place->tangent, &place->layout->programs[0], place->batch, place->block, place->block_t,
                 place->hidden, place->hidden_t);
}

static void block_backward_tangent(struct place *place)
{
    walk_backward_tangent(&place->tangent, place->dhidden, place->dhidden_t, place->dblock);
}

static void whole_head(struct place *place)
{
    const struct head_weights into = parameters_head(&place->into);
    head_backward(&place->head, place->hidden, place->batch, 1e-3, place->losses, place->dhidden, &into);
}

static void whole_head_tangent(struct place *place)
{
    const struct head_weights directions = parameters_head(&place->direction), into = parameters_head(&place->into);
    head_backward_tangent(&place->head, place->hidden, place->hidden_t, place->batch, 1e-3, &directions, place->losses,
                          place->dhidden, place->dhidden_t, &into);
}

static double now(const struct place *place)
{
    struct timespec t;
    clock_gettime(team_size(place->backend->team) == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double measure(struct place *place, const char *name, void (*call)(struct place *place))
{
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        const double before = now(place);
        call(place);
        const double spent = now(place) - before;
        least = spent < least ? spent : least;
    }
    printf("%-36s %9.2f ms\n", name, 1e3 * least);
    (void)fflush(stdout);
    return least;
}

/* Time of each kind of step of the block in the passes of a product. */
static void measure_steps(struct place *place)
{
    const struct program *program = &place->layout->programs[0];
    const struct pass *pass = &place->tangent.pass;
    block_tangent(place);
    place->tangent.pass.parameter_gradient_tangents = place->dblock;
    place->gradient.pass.parameter_gradients = place->dblock;
    printf("%-12s %10s %10s %10s %10s ms\n", "step", "forward", "backward", "tangent", "backward_t");
    for (int i = 0; i < program->step_count; i++) {
        void (*const passes[])(const struct pass *pass, const struct step *step) = {
            program->steps[i].op->forward, program->steps[i].op->backward, program->steps[i].op->tangent,
            program->steps[i].op->backward_tangent};
        double least[4] = {1e9, 1e9, 1e9, 1e9};
        for (int p = 0; p < 4; p++)
            for (int k = 0; k < 3; k++) {
                const double before = now(place);
                passes[p](p == 1 ? &place->gradient.pass : pass, &program->steps[i]);
                const double spent = now(place) - before;
                least[p] = spent < least[p] ? spent : least[p];
            }
        printf("%-12s %10.2f %10.2f %10.2f %10.2f\n", program->steps[i].op->name, 1e3 * least[0], 1e3 * least[1],
               1e3 * least[2], 1e3 * least[3]);
    }
}

static const struct shape *shape_named(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    (void)fprintf(stderr, "bench_tangent [neox|llama|tiny]\n");
    exit(2);
}

int main(int count, char **arguments)
{
    static struct place place;
    struct team *team = NULL;
    const char *threads = getenv("DELTAQ_THREADS");
    char description[256];
    need(team_new(threads != NULL ? (int)strtol(threads, NULL, 10) : 0, &team, &error));
    need(backend_cpu_new(team, &place.backend, &error));
    place_open(&place, shape_named(count > 1 ? arguments[1] : shapes[0].name));
    backend_describe(place.backend, description, sizeof description);
    printf("%s\n", description);
    const double forward = measure(&place, "block forward", block_forward);
    const double backward = measure(&place, "block backward", block_backward);
    const double tangent = measure(&place, "block forward and tangent", block_tangent);
    const double backward_tangent = measure(&place, "block backward_tangent", block_backward_tangent);
    const double head = measure(&place, "head backward", whole_head);
    const double head_tangent = measure(&place, "head backward_tangent", whole_head_tangent);
    const double keep = LAYERS * (forward + backward) + head, recompute = keep + LAYERS * forward;
    const double kept = LAYERS * (tangent + backward_tangent) + head_tangent, again = kept + LAYERS * tangent;
    printf("block: product / gradient            %9.2f, walking forward twice in both %.2f\n",
           (tangent + backward_tangent) / (forward + backward),
           (2 * tangent + backward_tangent) / (2 * forward + backward));
    printf("head: product / gradient             %9.2f\n", head_tangent / head);
    printf("%d layers and head: gradient %.0f ms, recomputing %.0f ms; product %.0f ms, recomputing %.0f ms\n", LAYERS,
           1e3 * keep, 1e3 * recompute, 1e3 * kept, 1e3 * again);
    printf("product / gradient: both keeping %.2f, both recomputing %.2f, product recomputing alone %.2f\n",
           kept / keep, again / recompute, again / keep);
    measure_steps(&place);
    return 0;
}
