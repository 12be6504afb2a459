/* The training curve as a file: which steps of a long run have a row, and how numbers are written. */
#include "jobs/train/train_curve.h"
#include "unit.h"

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

/* Notes the steps from `first` on, with losses that tell them apart. */
static void note_all(struct train_curve *curve, int64_t first)
{
    struct trainer trainer = {.gradient_norm = 0.5};
    for (trainer.step = first; trainer.step <= curve->total; trainer.step++) {
        trainer.loss = 1 / (double)trainer.step;
        train_curve_note(curve, &trainer);
    }
}

static void test_short_runs_have_every_step(void **state)
{
    (void)state;
    struct train_curve curve;
    ok(train_curve_init(&curve, TRAIN_CURVE_ROWS, &error));
    note_all(&curve, 1);
    assert_int_equal(curve.count, TRAIN_CURVE_ROWS);
    for (int64_t i = 0; i < curve.count; i++) assert_int_equal(curve.points[i].step, i + 1);
    train_curve_reset(&curve);
}

static void test_long_runs_have_every_kth_step_and_the_last(void **state)
{
    (void)state;
    static const struct {
        int64_t total, every, rows;
    } cases[] = {
        {TRAIN_CURVE_ROWS + 1, 2, TRAIN_CURVE_ROWS / 2 + 1},
        {2 * TRAIN_CURVE_ROWS, 2, TRAIN_CURVE_ROWS},
        {250000, 3, 83334},
        {1000000, 10, 100000},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct train_curve curve;
        ok(train_curve_init(&curve, cases[c].total, &error));
        assert_int_equal(train_curve_bytes(cases[c].total), curve.capacity * (int64_t)sizeof *curve.points);
        note_all(&curve, 1);
        assert_int_equal(curve.count, cases[c].rows);
        assert_int_equal(curve.points[0].step, cases[c].every);
        assert_int_equal(curve.points[1].step, 2 * cases[c].every);
        assert_int_equal(curve.points[curve.count - 1].step, cases[c].total);
        train_curve_reset(&curve);
    }
}

/* Wherever a run goes on, and in a branch, the same steps have rows. */
static void test_a_continued_curve_is_the_whole_one(void **state)
{
    (void)state;
    struct train_curve whole, part;
    ok(train_curve_init(&whole, 250000, &error));
    ok(train_curve_init(&part, 250000, &error));
    note_all(&whole, 1);
    for (int64_t kept = 0; kept < 3; kept++) {
        ok(train_curve_continue(&part, whole.points, kept, &error));
        note_all(&part, kept * whole.every + 1);
        assert_int_equal(part.count, whole.count);
        assert_memory_equal(part.points, whole.points, (size_t)whole.count * sizeof *whole.points);
    }
    part.count = 0;
    note_all(&part, 200000); /* a branch */
    assert_memory_equal(part.points, &whole.points[whole.count - part.count], (size_t)part.count * sizeof *part.points);
    assert_int_equal(part.points[0].step, 200001);
    assert_int_equal(train_curve_continue(&part, whole.points, part.capacity + 1, &error), STATUS_INPUT_CHANGED);
    train_curve_reset(&part);
    train_curve_reset(&whole);
}

static void test_rows_restore_the_doubles(void **state)
{
    (void)state;
    static const struct state_point points[] = {{1, 0.1, 1.0 / 3}, {10, 2.5, 1e-300}};
    struct train_params params = {.tokens = 100 * 32, .batch_sequences = 4, .sequence_length = 8};
    struct buffer text = {0};
    params.schedule.name = SCHEDULE_CONSTANT;
    params.schedule.peak = 1e-3;
    params.schedule.warmup = 4 * 32;
    train_curve_head(&text);
    ok(train_curve_rows(&text, &params, points, 2, &error));
    assert_string_equal(text.bytes, "step,tokens,learning_rate,loss,gradient_norm\n"
                                    "1,32,0.00025000000000000001,0.10000000000000001,0.33333333333333331\n"
                                    "10,320,0.001,2.5,1e-300\n");
    buffer_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_runs_have_every_step),
        cmocka_unit_test(test_long_runs_have_every_kth_step_and_the_last),
        cmocka_unit_test(test_a_continued_curve_is_the_whole_one),
        cmocka_unit_test(test_rows_restore_the_doubles),
    };
    return cmocka_run_group_tests_name("train_curve", tests, NULL, NULL);
}
