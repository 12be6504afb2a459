/* One step that is stopped anywhere leaves the parameters as they were, and is then the step it would have been. */
#include "train/trainer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                 \
    "{\"model_type\":\"llama\",\"vocab_size\":31,\"hidden_size\":16,\"num_hidden_layers\":1," \
    "\"num_attention_heads\":2,"                                                              \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"max_position_embeddings\":2048,\"initializer_range\":0.1}"
/* Longer sequences than half of what goes through the model at once: a step of three asks its monitor three times a
 * gradient. */
enum { LENGTH = 1100, SEQUENCES = 3 };

static struct error error;
static uint32_t tokens[4 * LENGTH];

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static enum status stop_later(void *owner, struct error *e)
{
    int *left = owner;
    return (*left)-- == 0 ? error_set(e, STATUS_CANCELLED, "stopped by the test") : STATUS_OK;
}

static void open_trainer(struct trainer *trainer, const struct optimizer_kind *kind,
                         const struct parameters_layout *layout, struct backend *backend, const struct monitor *monitor)
{
    const struct trainer_setup setup = {.optimizer = kind,
                                        .settings = {0.9, 0.95, 1e-8, 0.1, 1, 0.05, 0.01, 0, 0, 0, 2, 8},
                                        .ema_decay = 0.5,
                                        .schedule = {.kind = SCHEDULE_CONSTANT, .peak = 1e-2, .total = 10},
                                        .batch_sequences = SEQUENCES,
                                        .sequence_length = LENGTH,
                                        .tokens = tokens,
                                        .token_count = 4 * LENGTH,
                                        .monitor = monitor,
                                        .memory_limit = INT64_C(1) << 30};
    ok(trainer_init(trainer, layout, backend, &setup, &error));
    ok(parameters_initialise(&trainer->parameters, 1, &error));
}

static void test_a_stopped_step_changes_nothing(void **state)
{
    (void)state;
    struct model_config config;
    struct parameters_layout *layout = NULL;
    struct backend *backend = NULL;
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &layout, &error));
    ok(backend_cpu_new(NULL, &backend, &error));
    const size_t bytes = (size_t)layout->elements * sizeof(float);
    float *before = malloc(bytes);
    for (int k = 0; optimizer_kinds[k] != NULL; k++) {
        struct trainer whole, stopped;
        int left = -1;
        const struct monitor monitor = {.owner = &left, .check = stop_later};
        const int checks = SEQUENCES * optimizer_kinds[k]->gradients;
        open_trainer(&whole, optimizer_kinds[k], layout, backend, NULL);
        open_trainer(&stopped, optimizer_kinds[k], layout, backend, &monitor);
        for (int step = 0; step < 3; step++) {
            memcpy(before, stopped.parameters.data, bytes);
            for (int check = 0; check < checks; check++) {
                left = check;
                assert_int_equal(trainer_step(&stopped, &error), STATUS_CANCELLED);
                assert_memory_equal(stopped.parameters.data, before, bytes);
                assert_int_equal(stopped.step, step);
            }
            left = -1;
            ok(trainer_step(&stopped, &error));
            ok(trainer_step(&whole, &error));
            assert_memory_equal(stopped.parameters.data, whole.parameters.data, bytes);
            assert_memory_equal(stopped.ema.mean.data, whole.ema.mean.data, bytes);
        }
        /* what is shown is the average, and then again what it was */
        memcpy(before, stopped.parameters.data, bytes);
        trainer_show_average(&stopped);
        assert_memory_equal(stopped.parameters.data, stopped.ema.mean.data, bytes);
        trainer_show_parameters(&stopped);
        assert_memory_equal(stopped.parameters.data, before, bytes);
        trainer_reset(&stopped);
        trainer_reset(&whole);
    }
    free(before);
    backend_free(backend);
    parameters_layout_free(layout);
}

/* Each sequence predicts all of its tokens but the first. */
static void test_the_loss_of_a_step_is_the_mean_over_its_predictions(void **state)
{
    (void)state;
    struct model_config config;
    struct parameters_layout *layout = NULL;
    struct backend *backend = NULL;
    struct trainer trainer;
    struct chunks chunks;
    int64_t starts[SEQUENCES + 1] = {0};
    static uint32_t ids[SEQUENCES * LENGTH];
    double expected = 0;
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &layout, &error));
    ok(backend_cpu_new(NULL, &backend, &error));
    open_trainer(&trainer, optimizer_kinds[0], layout, backend, NULL);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        starts[s + 1] = (s + 1) * LENGTH;
        memcpy(ids + s * LENGTH, tokens + batches_block(&trainer.batches, s) * LENGTH, LENGTH * sizeof *ids);
    }
    const struct sequences sequences = {SEQUENCES, starts, ids};
    ok(chunks_init(&sequences, trainer_chunk_tokens(&trainer), &chunks, &error));
    ok(trainer_validate(&trainer, &chunks, &expected, &error));
    ok(trainer_step(&trainer, &error));
    assert_int_equal(chunks.predictions, SEQUENCES * (LENGTH - 1));
    assert_true(fabs(trainer.loss - expected) < 1e-6 * expected);
    chunks_reset(&chunks);
    trainer_reset(&trainer);
    backend_free(backend);
    parameters_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_step_changes_nothing),
        cmocka_unit_test(test_the_loss_of_a_step_is_the_mean_over_its_predictions),
    };
    for (uint32_t t = 0; t < 4 * LENGTH; t++) tokens[t] = (t * t + 3 * t) % 31;
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}
