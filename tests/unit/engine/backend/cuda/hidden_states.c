/* Hidden states that a device has no space for: over its lanes into host memory and back while other work goes on. Run
 * as whole_models is. The emulated device copies as late as somebody waits for it, so a wait that is missing shows in
 * the numbers. */
#include "engine/backend/cuda/stand_in.h"
#undef backend_cpu_new /* both are wanted here */

#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize.h"
#include "model/chunks.h"
#include "model/hidden.h"

enum { SEQUENCES = 9, WIDTH = 5, PASSES = 3, CHUNK_TOKENS = 12 };

static const int64_t sequence_lengths[SEQUENCES] = {7, 5, 11, 2, 9, 12, 3, 4, 6};

struct stream {
    struct backend *device;
    struct chunks chunks;
    struct hidden hidden;
    int64_t tokens;
    float *expected, *found; /* [tokens, WIDTH] */
};

static void good(enum status status, const struct error *error)
{
    if (status != STATUS_OK) fail_msg("%s", error->detail);
}

/* `parts` of HIDDEN_PARTS stay on the device. */
static void open_stream(struct stream *s, int64_t parts, int64_t count)
{
    struct error error;
    int64_t starts[SEQUENCES + 1] = {0};
    uint32_t tokens[128] = {0};
    const struct hidden_place place = {.parts = parts};
    for (int64_t i = 0; i < count; i++) starts[i + 1] = starts[i] + sequence_lengths[i];
    const struct sequences sequences = {count, starts, tokens};
    *s = (struct stream){.tokens = starts[count]};
    good(stand_in_new(NULL, &s->device, &error), &error);
    good(chunks_init(&sequences, CHUNK_TOKENS, &s->chunks, &error), &error);
    good(hidden_init(&s->hidden, s->device, &s->chunks, WIDTH, &place, &error), &error);
    s->expected = calloc((size_t)(s->tokens * WIDTH), sizeof(float));
    s->found = calloc((size_t)(s->tokens * WIDTH), sizeof(float));
    for (int64_t i = 0; i < s->tokens * WIDTH; i++) s->expected[i] = (float)(i % 97) / 8;
    good(hidden_write(&s->hidden, 0, s->tokens, s->expected, DTYPE_F32, &error), &error);
}

static void close_stream(struct stream *s)
{
    hidden_reset(&s->hidden);
    chunks_reset(&s->chunks);
    backend_free(s->device);
    free(s->expected);
    free(s->found);
}

/* x becomes x / 2 + the number of its row in the chunk + the pass: exact in float, and another number for whoever mixes
 * rows up. */
static void work_through(struct stream *s, int pass, bool keep)
{
    struct error error;
    void *data;
    good(s->device->ops->allocate(s->device, s->chunks.largest * WIDTH, "terms", &data, &error), &error);
    const struct matrix terms = matrix_of(data, s->chunks.largest, WIDTH, sizeof(float));
    for (int64_t r = 0; r < terms.rows; r++)
        s->device->ops->fill(s->device, matrix_rows(terms, r, 1), (double)(r + pass));
    for (int64_t i = 0; i < s->chunks.count; i++) {
        const struct chunk *chunk = &s->chunks.chunks[i];
        struct matrix rows;
        good(hidden_lend(&s->hidden, chunk, &rows, &error), &error);
        if (!keep) continue;
        s->device->ops->add(s->device, rows, matrix_rows(terms, 0, rows.rows), 1, 0.5);
        good(hidden_return(&s->hidden, chunk, &error), &error);
        for (int64_t r = 0; r < chunk->batch.tokens; r++)
            for (int64_t c = 0; c < WIDTH; c++) {
                float *x = &s->expected[(chunk->first_token + r) * WIDTH + c];
                *x = *x / 2 + (float)(r + pass);
            }
    }
    s->device->ops->release(s->device, data);
}

static void compare(struct stream *s)
{
    struct error error;
    good(hidden_read(&s->hidden, 0, s->tokens, s->found, DTYPE_F32, &error), &error);
    good(s->device->ops->sync(s->device, &error), &error);
    assert_memory_equal(s->found, s->expected, (size_t)(s->tokens * WIDTH) * sizeof(float));
}

static void test_streams_pass_through_host_memory_unchanged(void **state)
{
    (void)state;
    for (int64_t count = 1; count <= SEQUENCES; count += 2)
        for (int64_t parts = 0; parts < HIDDEN_PARTS; parts += 5) {
            struct stream s;
            open_stream(&s, parts, count);
            for (int pass = 0; pass < PASSES; pass++) work_through(&s, pass, true);
            compare(&s);
            close_stream(&s);
        }
}

static void test_what_is_written_from_outside_is_what_is_lent(void **state)
{
    (void)state;
    struct stream s;
    struct error error;
    open_stream(&s, 4, SEQUENCES);
    work_through(&s, 0, true);
    for (int64_t i = 0; i < s.tokens * WIDTH; i++) s.expected[i] = (float)(i % 31);
    good(hidden_write(&s.hidden, 0, s.tokens, s.expected, DTYPE_F32, &error), &error);
    work_through(&s, 1, true);
    compare(&s);
    work_through(&s, 2, false); /* who only looks changes nothing */
    compare(&s);
    close_stream(&s);
}

/* A device's backend that has `memory` to plan with. */
struct small_device {
    struct backend_ops ops;
    int64_t memory;
};

static int64_t small_memory(struct backend *backend)
{
    return ((const struct small_device *)(uintptr_t)backend->ops)->memory;
}

static void test_quantizing_with_little_memory_gives_the_same_bits(void **state)
{
    (void)state;
    static const struct plan_budget nothing = {.bytes = {INT64_MAX, 0, INT64_MAX}};
    struct fixture f;
    struct backend *device;
    struct quantize_result whole, spilled;
    struct run_plan least;
    struct error error;
    open_fixture(&f, tiny_llama, 4, 24);
    good(stand_in_new(f.team, &device, &error), &error);
    const struct backend_ops *own = device->ops;
    const struct quantize_request request = {
        .model = f.model,
        .backend = device,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, false, false, true, 0.05}},
        .calibration = &f.calibration,
        .evaluation = &f.evaluation,
    };
    good(quantize_run(&request, &whole, &error), &error);
    good(quantize_plan(&request, 1, &nothing, &least, &error), &error);
    assert_int_equal(least.spilled_tokens, least.stream_tokens);
    struct small_device small = {*own, least.peak[PLAN_DEVICE]};
    small.ops.memory = small_memory;
    device->ops = &small.ops;
    good(quantize_run(&request, &spilled, &error), &error);
    assert_true(whole.delta == spilled.delta && whole.kl == spilled.kl && whole.q.loss == spilled.q.loss);
    assert_memory_equal(whole.layers, spilled.layers, (size_t)whole.layer_count * sizeof *whole.layers);
    quantize_result_reset(&spilled);
    quantize_result_reset(&whole);
    device->ops = own;
    backend_free(device);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_pass_through_host_memory_unchanged),
        cmocka_unit_test(test_what_is_written_from_outside_is_what_is_lent),
        cmocka_unit_test(test_quantizing_with_little_memory_gives_the_same_bits),
    };
    return cmocka_run_group_tests_name("hidden states of a device", tests, NULL, NULL);
}
