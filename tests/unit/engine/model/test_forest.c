/* Texts that share beginnings give, token by token, what they give when each is by itself: for every tiny model, on the
 * plain loops in double (which differ by summation order only) and on the fast backend, whatever the chunks and whoever
 * else is there. And questions about rows of hidden states: their answers and what these cost. */
#include "base/memory.h"
#include "engine/model/tiny_models.h"
#include "model/forest.h"
#include "model/head.h"
#include "model/hidden.h"
#include "model/walk.h"

#include <math.h>
#include <stdlib.h>

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static const char windowed[] =
    "{\"model_type\":\"mistral\",\"vocab_size\":17,\"hidden_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":4,\"intermediate_size\":6,\"max_position_embeddings\":64,"
    "\"sliding_window\":3,"
    "\"rms_norm_eps\":1e-5}";

/* Texts: duplicates, one that begins another, forks at every depth, and one apart. */
static int64_t starts[] = {0, 12, 24, 30, 44, 56, 57, 66, 80, 92};
static uint32_t tokens[92];
enum { TEXTS = 9 };

static struct sequences texts(const struct model_config *config)
{
    static const int64_t shared[TEXTS] = {0, 12, 6, 9, 9,
                                          1, 4,  4, 0}; /* tokens in common with the first text (7: the sixth) */
    for (int64_t s = 0; s < TEXTS; s++)
        for (int64_t t = 0; t < starts[s + 1] - starts[s]; t++) {
            const uint64_t place = t < shared[s] ? (uint64_t)t : (uint64_t)(100 * s + t);
            tokens[starts[s] + t] = (uint32_t)random_below(11, 0, place, (uint64_t)config->vocabulary_size);
        }
    return (struct sequences){TEXTS, starts, tokens};
}

struct bench {
    struct backend *backend;
    struct parameters_layout *layout;
    struct parameters parameters;
};

static void bench_open(struct bench *bench, const char *text, struct backend *backend, const struct parameters *like)
{
    struct model_config config;
    ok(config_parse("tiny", text, strlen(text), &config, &error));
    *bench = (struct bench){.backend = backend};
    ok(parameters_layout_new(&config, &bench->layout, &error));
    ok(parameters_init(&bench->parameters, bench->layout, backend, "parameters", &error));
    if (like == NULL)
        tiny_randomise(&bench->parameters);
    else
        backend->ops->upload(backend, parameters_all(&bench->parameters), like->data, DTYPE_F64);
}

static void bench_close(struct bench *bench)
{
    parameters_reset(&bench->parameters);
    parameters_layout_free(bench->layout);
}

/* The hidden states of all rows of `chunks` after the last block, as doubles. */
static double *states_of(const struct bench *bench, const struct chunks *chunks, const struct forest *forest)
{
    const struct model_config *config = &bench->layout->config;
    struct backend *backend = bench->backend;
    struct matrix cosine, sine, block[PROGRAM_PARAMETERS];
    struct hidden hidden;
    const struct hidden_place place = {HIDDEN_PARTS, NULL};
    struct embed embed;
    struct walk walk;
    struct cache cache = {0};
    double *states = NULL;
    ok(backend->ops->prepare(backend, chunks->longest, config->vocabulary_size, &error));
    ok(model_rope_tables(config, backend, chunks->longest, &cosine, &sine, &error));
    ok(walk_init(&walk, config, backend, WALK_FORWARD, chunks->largest, cosine, sine, &error));
    if (forest != NULL) {
        ok(cache_init(&cache, config, backend, chunks->longest, forest->slots, forest->forks, &error));
        walk.cache = &cache;
    }
    const struct embed_weights weights = parameters_embed(&bench->parameters);
    ok(embed_init(&embed, config, backend, &weights, chunks->largest, &error));
    ok(hidden_init(&hidden, backend, chunks, config->hidden_size, &place, &error));
    ok(hidden_embed(&embed, chunks, &hidden, &error));
    for (int64_t layer = 0; layer < config->layers; layer++) {
        const struct program *program = &bench->layout->programs[layer];
        parameters_block(&bench->parameters, layer, block);
        if (forest != NULL) cache_begin(&cache, program);
        for (int64_t i = 0; i < chunks->count; i++)
            walk_forward(&walk, program, &chunks->chunks[i].batch, block, hidden_rows(hidden.rows, &chunks->chunks[i]));
    }
    ok(memory_new(chunks->tokens * config->hidden_size, sizeof *states, "states", &states, &error));
    backend->ops->download(backend, hidden.rows, states, DTYPE_F64);
    cache_reset(&cache);
    embed_reset(&embed);
    walk_reset(&walk);
    hidden_reset(&hidden);
    matrix_release(backend, &cosine);
    return states;
}

static void compare(const struct bench *bench, int64_t chunk_tokens, int64_t slots, double tolerance)
{
    const int64_t width = bench->layout->config.hidden_size;
    const struct sequences sequences = texts(&bench->layout->config);
    struct chunks chunks;
    struct forest forest;
    ok(chunks_init(&sequences, 1000, &chunks, &error));
    ok(forest_init(&sequences, chunk_tokens, slots, &forest, &error));
    assert_true(forest.chunks.tokens < chunks.tokens - 20); /* something is shared */
    double *alone = states_of(bench, &chunks, NULL), *together = states_of(bench, &forest.chunks, &forest);
    for (int64_t s = 0; s < TEXTS; s++)
        for (int64_t t = 0; t < starts[s + 1] - starts[s]; t++)
            for (int64_t c = 0; c < width; c++) {
                const double a = alone[(starts[s] + t) * width + c],
                             b = together[forest_row(&forest, s, t) * width + c];
                if (!(fabs(a - b) <= tolerance * (1 + fabs(a))))
                    fail_msg("text %lld, token %lld, column %lld, chunks of %lld: %.17g alone, %.17g together",
                             (long long)s, (long long)t, (long long)c, (long long)chunk_tokens, a, b);
            }
    memory_free(alone);
    memory_free(together);
    forest_reset(&forest);
    chunks_reset(&chunks);
}

static void compare_all(const char *text)
{
    static const int64_t sizes[] = {1, 3, 7, 16, 1000};
    struct team *team = NULL;
    struct backend *exact = NULL, *fast = NULL;
    struct bench doubles, floats;
    ok(team_new(2, &team, &error));
    ok(backend_reference_new(true, team, &exact, &error));
    ok(backend_cpu_new(team, &fast, &error));
    bench_open(&doubles, text, exact, NULL);
    bench_open(&floats, text, fast, &doubles.parameters);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        compare(&doubles, sizes[i], 0, 1e-11);
        compare(&floats, sizes[i], 0, 1e-4);
    }
    compare(&doubles, 1000, 2, 1e-11);
    bench_close(&floats);
    bench_close(&doubles);
    backend_free(fast);
    backend_free(exact);
    team_free(team);
}

static void test_texts_together_give_what_they_give_alone(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) compare_all(tiny_models[model]);
}

static void test_window_reaches_into_the_shared_text(void **state)
{
    (void)state;
    compare_all(windowed);
}

static void test_shared_tokens_are_counted_once(void **state)
{
    (void)state;
    static int64_t lengths[] = {0, 4, 8, 11, 15};
    static uint32_t ids[] = {1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 1, 2, 3, 4};
    const struct sequences sequences = {4, lengths, ids};
    struct forest forest;
    ok(forest_init(&sequences, 100, 0, &forest, &error));
    assert_int_equal(forest.chunks.tokens, 5); /* 1 2 3, then 4 and 5 */
    assert_int_equal(forest.segment_count, 3);
    assert_int_equal(forest_row(&forest, 0, 3), forest_row(&forest, 3, 3));
    assert_int_equal(forest_row(&forest, 2, 2), forest_row(&forest, 1, 2));
    assert_int_not_equal(forest_row(&forest, 0, 3), forest_row(&forest, 1, 3));
    assert_int_equal(forest.chunks.chunks[0].batch.branches->slot_count, 1);
    forest_reset(&forest);
}

/* Rows with a question, with two, with three, and one with more than a slice of the head takes rows (16 at least). */
enum { ROWS = 40, SLICE = 16, QUESTIONS = 200 };

static int64_t questions_of(int64_t row)
{
    return row == 5 ? 2 * SLICE + 8 : 1 + row % 3;
}

/* Question j of row r asks for token r + j, or, turned, the questions of a row have their tokens in reverse. */
static int64_t ask(struct head_question *questions, int64_t vocabulary, bool turned)
{
    int64_t count = 0;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t j = 0; j < questions_of(row); j++) {
            const int64_t which = turned ? questions_of(row) - 1 - j : j;
            questions[count++] =
                (struct head_question){.row = row, .number = which, .token = (uint32_t)((row + which) % vocabulary)};
        }
    return count;
}

static int downloads;
static const struct backend_ops *plain_ops;

static void counting_download(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    downloads++;
    plain_ops->download(backend, from, to, dtype);
}

/* How many times a slice's further logits are fetched. */
static int fetches(void)
{
    int all = 0;
    for (int64_t first = 0; first < ROWS; first += SLICE) {
        int64_t again = 0;
        for (int64_t row = first; row < first + SLICE && row < ROWS; row++) again += questions_of(row) - 1;
        all += (int)((again + SLICE - 1) / SLICE);
    }
    return all;
}

static void check_answers(const struct bench *bench, struct head *head, struct matrix hidden)
{
    struct head_question asked[QUESTIONS], turned[QUESTIONS];
    const int64_t count = ask(asked, bench->layout->config.vocabulary_size, false);
    uint32_t targets[ROWS];
    double losses[ROWS];
    (void)ask(turned, bench->layout->config.vocabulary_size, true);
    for (int64_t i = count - 1; i >= 0; i--) targets[asked[i].row] = asked[i].token;
    head_losses(head, hidden, &(struct batch){.tokens = ROWS, .targets = targets}, losses);
    downloads = 0;
    ok(head_answer(head, hidden, asked, count, NULL, &error));
    assert_int_equal(downloads, fetches());
    ok(head_answer(head, hidden, turned, count, NULL, &error));
    for (int64_t i = 0, first = 0; i < count; i++) {
        const int64_t row = asked[i].row;
        if (i > 0 && row != asked[i - 1].row) first = i;
        if (i == first) assert_true(asked[i].log_probability == -losses[row]);
        assert_true(asked[i].log_probability == turned[2 * first + questions_of(row) - 1 - i].log_probability);
    }
}

/* The first question of a row is answered by a loss, the others by logits that are fetched together: the same bits,
 * whichever of them is the first, in models with and without a norm or a projection after the blocks. */
static void test_answers_are_losses_and_fetched_together(void **state)
{
    (void)state;
    for (int model = 0; model < TINY_MODELS; model++) {
        struct backend *backend = NULL, *exact = NULL;
        struct bench bench, doubles;
        struct head head;
        struct matrix hidden;
        double values[ROWS * 64];
        ok(backend_reference_new(true, NULL, &exact, &error));
        ok(backend_cpu_new(NULL, &backend, &error));
        const struct backend_sizes sizes = {.logits = 1};
        struct backend_ops ops = *(plain_ops = backend->ops);
        ops.download = counting_download;
        ops.sizes = &sizes;
        bench_open(&doubles, tiny_models[model], exact, NULL);
        bench_open(&bench, tiny_models[model], backend, &doubles.parameters);
        const int64_t width = bench.layout->config.hidden_size;
        assert_true(width <= 64);
        for (int64_t i = 0; i < ROWS * width; i++) values[i] = random_normal(12, 0, (uint64_t)i);
        ok(matrix_new(backend, ROWS, width, "hidden states", &hidden, &error));
        backend->ops->upload(backend, hidden, values, DTYPE_F64);
        backend->ops = &ops;
        const struct head_weights weights = parameters_head(&bench.parameters);
        ok(head_init(&head, &bench.layout->config, backend, &weights, HEAD_ANSWER, &error));
        check_answers(&bench, &head, hidden);
        head_reset(&head);
        backend->ops = plain_ops;
        matrix_release(backend, &hidden);
        bench_close(&bench);
        bench_close(&doubles);
        backend_free(backend);
        backend_free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_tokens_are_counted_once),
        cmocka_unit_test(test_texts_together_give_what_they_give_alone),
        cmocka_unit_test(test_window_reaches_into_the_shared_text),
        cmocka_unit_test(test_answers_are_losses_and_fetched_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
