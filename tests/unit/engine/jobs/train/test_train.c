/* Training runs as a whole: they learn, write checkpoints that open, go on after being stopped anywhere with the same
 * bits, and branch. */
#include "engine/jobs/train_runs.h"
#include "eval/evaluate.h"
#include "jobs/train/train_curve.h"
#include "jobs/train/train_plan.h"

#include <signal.h>
#include <sys/wait.h>

static void test_learns_and_writes_checkpoints_that_evaluate_the_same(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result, full;
    struct place place;
    char path[900];
    params.tokens = 300 * STEP;
    params.checkpoint_every = 60 * STEP;
    place_open(&place);
    struct backend *backend = fast_backend(NULL);
    ok(run(&place, &params, NULL, backend, -1, 0, &result));
    assert_int_equal(result.checkpoint_count, 5);
    assert_int_equal(place.written, 5);
    assert_int_equal(result.steps, 300);
    assert_int_equal(result.tokens, 300 * STEP);
    assert_true(result.checkpoints[0].learning_rate == 1e-2);
    assert_true(fabs(result.checkpoints[4].learning_rate - 1e-3) <
                1e-15); /* a tenth is left at the last of ten decay steps */
    /* the rule's own entropy is about 0.4 nats; not knowing anything costs log 31 = 3.4 */
    assert_true(result.validation_loss < 0.8);
    assert_true(result.validation_loss < result.checkpoints[0].validation_loss);

    struct model *model = NULL;
    struct evaluate_result evaluated;
    int64_t starts[9];
    for (int64_t s = 0; s <= 8; s++) starts[s] = s * 16;
    const struct sequences sequences = {8, starts, stream};
    (void)snprintf(path, sizeof path, "%s/step0000300", place.out);
    ok(model_open(path, &model, &error));
    ok(evaluate_run(model, backend, &sequences, NULL, &evaluated, &error));
    assert_true(fabs(evaluated.loss - result.validation_loss) < 1e-6);
    evaluate_result_reset(&evaluated);
    model_close(model);

    /* asked again when all is done, it gives the same answer at once and tells of every checkpoint again */
    ok(run(&place, &params, NULL, backend, -1, 0, &full));
    assert_same_result(&result, &full);
    assert_int_equal(place.written, 10);
    train_result_reset(&full);
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
}

static void test_stopped_anywhere_it_ends_with_the_same_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct train_result expected;
    struct place whole;
    place_open(&whole);
    ok(run(&whole, &params, NULL, backend, -1, 0, &expected));
    for (int64_t k = 3; k <= 9; k += 2)
        resume_to_the_end(&params, k, 1e-9, &whole, &expected); /* state saved at every step */
    resume_to_the_end(&params, 17, 1e9, &whole, &expected);     /* only at checkpoints */
    resume_to_the_end(&params, 13, 1e9, &whole, &expected);
    train_result_reset(&expected);
    backend_free(backend);
    place_close(&whole);
}

/* The same with SIGKILL at any instruction, also in the middle of writing. */
static void test_killed_anywhere_it_ends_with_the_same_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct train_result expected, found;
    struct place whole, place;
    int killed = 0, ended = 0;
    place_open(&whole);
    place_open(&place);
    ok(run(&whole, &params, NULL, backend, -1, 0, &expected));
    for (unsigned attempt = 0; !ended && attempt < 400; attempt++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct train_result result;
            _exit(run(&place, &params, NULL, backend, -1, 1e-9, &result) == STATUS_OK ? 0 : 1);
        }
        int how = 0;
        (void)usleep(300 * attempt + 10 * attempt * attempt); /* it comes further each time, on a slow machine too */
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        killed += WIFSIGNALED(how);
        ended = WIFEXITED(how);
        if (ended) assert_int_equal(WEXITSTATUS(how), 0);
    }
    assert_true(ended && killed > 0);
    DIR *work = opendir(place.work); /* nothing but the state is left of all those attempts */
    for (const struct dirent *item; (item = readdir(work)) != NULL;)
        if (item->d_name[0] != '.' || item->d_name[1] == 'd') assert_string_equal(item->d_name, "training.state");
    (void)closedir(work);
    for (int step = 10; step <= 40; step += 10) {
        char name[32];
        train_checkpoint_name(step, false, name, sizeof name);
        assert_same_file(&place, &whole, name, "model.safetensors");
        assert_same_file(&place, &whole, name, "training.state");
    }
    ok(run(&place, &params, NULL, backend, -1, 0, &found)); /* what the last child found */
    assert_same_result(&found, &expected);
    train_result_reset(&found);
    train_result_reset(&expected);
    backend_free(backend);
    place_close(&place);
    place_close(&whole);
}

/* A row for each step, which has at checkpoints what they say of themselves. */
static void test_the_curve_agrees_with_the_checkpoints(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct buffer text = {0};
    struct train_result result;
    struct place place;
    char row[200];
    place_open(&place);
    ok(run(&place, &params, NULL, backend, -1, 0, &result));
    assert_int_equal(result.curve_count, 40);
    train_curve_head(&text);
    ok(train_curve_rows(&text, &params, result.curve, result.curve_count, &error));
    assert_memory_equal(text.bytes, "step,tokens,learning_rate,loss,gradient_norm\n1,64,", 50);
    for (int64_t i = 0; i < result.curve_count; i++) {
        assert_int_equal(result.curve[i].step, i + 1);
        assert_true(result.curve[i].gradient_norm > 0);
    }
    assert_true(result.curve[39].loss == result.final_loss);
    for (int64_t i = 0; i < result.checkpoint_count; i++) {
        const struct state_checkpoint *reached = &result.checkpoints[i];
        const struct state_point *point = &result.curve[reached->step - 1];
        assert_true(point->loss == reached->train_loss);
        (void)snprintf(row, sizeof row, "\n%lld,%lld,%.17g,%.17g,%.17g\n", (long long)reached->step,
                       (long long)reached->tokens, reached->learning_rate, reached->train_loss, point->gradient_norm);
        assert_non_null(strstr(text.bytes, row));
    }
    /* the state beside a checkpoint has no curve: it is of version 1, as before there were curves */
    size_t size = 0;
    char *kept = contents(place.out, "step0000010", "training.state", &size);
    assert_memory_equal(kept, "deltaqTS\1\0\0\0", 12);
    memory_free(kept);
    buffer_reset(&text);
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
}

/* The curve of a branch is the end of that of a run with its schedule, also when the branch was stopped. */
static void test_the_curve_of_a_branch_begins_at_its_own_first_step(void **state)
{
    (void)state;
    const struct train_params whole = plain();
    struct train_params branch = plain();
    struct train_result result[2];
    struct place place[2];
    struct backend *backend = fast_backend(NULL);
    char from[900];
    enum status status;
    int attempts = 0;
    branch.model = NULL;
    branch.from = "t/step0000010";
    for (int i = 0; i < 2; i++) place_open(&place[i]);
    ok(run(&place[0], &whole, NULL, backend, -1, 0, &result[0]));
    (void)snprintf(from, sizeof from, "%s/step0000010", place[0].out);
    while ((status = run(&place[1], &branch, from, backend, 7, 1e-9, &result[1])) == STATUS_CANCELLED) {
        attempts++;
        train_result_reset(&result[1]);
    }
    ok(status);
    assert_true(attempts > 2);
    assert_int_equal(result[1].curve_count, 30);
    assert_memory_equal(result[1].curve, &result[0].curve[10], 30 * sizeof *result[1].curve);
    for (int i = 0; i < 2; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
    backend_free(backend);
}

static void test_threads_do_not_change_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct train_result result[3];
    struct place place[3];
    for (int threads = 1; threads <= 3; threads++) {
        struct team *team = NULL;
        ok(team_new(threads, &team, &error));
        struct backend *backend = fast_backend(team);
        place_open(&place[threads - 1]);
        ok(run(&place[threads - 1], &params, NULL, backend, -1, 0, &result[threads - 1]));
        backend_free(backend);
        team_free(team);
    }
    for (int i = 1; i < 3; i++) {
        assert_same_result(&result[0], &result[i]);
        assert_same_file(&place[0], &place[i], "step0000040", "training.state");
    }
    for (int i = 0; i < 3; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
}

static void test_a_branch_gives_the_bits_of_a_run_with_its_schedule(void **state)
{
    (void)state;
    struct train_params whole = plain(), stable = plain(), decay = plain();
    struct train_result result[3];
    struct place place[3];
    char from[900];
    struct backend *backend = fast_backend(NULL);
    stable.schedule.name = SCHEDULE_CONSTANT;
    stable.tokens = 60 * STEP; /* longer than where the decay begins, which is at step 30 */
    decay.model = NULL;
    decay.from = "t/step0000030";
    for (int i = 0; i < 3; i++) place_open(&place[i]);
    ok(run(&place[0], &whole, NULL, backend, -1, 0, &result[0]));
    ok(run(&place[1], &stable, NULL, backend, -1, 0, &result[1]));
    (void)snprintf(from, sizeof from, "%s/step0000030", place[1].out);
    ok(run(&place[2], &decay, from, backend, -1, 0, &result[2]));
    assert_int_equal(result[2].checkpoint_count, 1);
    assert_same_file(&place[0], &place[1], "step0000030", "model.safetensors");
    assert_same_file(&place[0], &place[2], "step0000040", "model.safetensors");
    for (int i = 0; i < 3; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
    backend_free(backend);
}

/* How many updates a run at a rate of 1000 makes before its loss is not finite; the error must say `how`, with the step
 * that is so many after the last one of the curve, which counts as names of checkpoints do. */
static int64_t diverging(int64_t tokens, int64_t every, const char *how, int64_t after, int *checkpoints)
{
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct backend *backend = fast_backend(NULL);
    char said[80];
    params.schedule = (__typeof__(params.schedule)){.name = SCHEDULE_CONSTANT, .peak = 1e3};
    params.checkpoint_every = every;
    params.tokens = tokens;
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_NOT_FINITE);
    const int64_t steps = result.curve_count;
    (void)snprintf(said, sizeof said, "%s step %lld is not finite", how, (long long)(steps + after));
    assert_non_null(strstr(error.detail, said));
    assert_non_null(strstr(error.detail, "1000"));
    assert_int_equal(result.checkpoint_count, 0);
    for (int64_t i = 0; i < steps; i++) assert_int_equal(result.curve[i].step, i + 1);
    *checkpoints = place.written;
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
    return steps;
}

static void test_divergence_stops_the_run_and_keeps_its_checkpoints(void **state)
{
    (void)state;
    int made;
    const int64_t steps = diverging(400 * STEP, STEP, "validation loss after", 0, &made);
    assert_int_equal(made, steps - 1); /* one after each step, but for that of no finite loss */
    assert_int_equal(diverging(400 * STEP, 400 * STEP, ": the loss at", 1, &made), steps);
    assert_int_equal(made, 0);
    /* nor does it succeed where no update follows */
    assert_int_equal(diverging(steps * STEP, 0, "validation loss after", 0, &made), steps);
    assert_int_equal(made, 0);
}

static void test_a_changed_request_is_not_gone_on_with(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct backend *backend = fast_backend(NULL);
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, 5, 1e-9, &result), STATUS_CANCELLED);
    train_result_reset(&result);
    params.schedule.peak = 2e-2;
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_INPUT_CHANGED);
    backend_free(backend);
    place_close(&place);
}

static void test_a_damaged_state_is_refused(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct train_result result;
    struct place place;
    char path[900];
    struct backend *backend = fast_backend(NULL);
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, 5, 1e-9, &result), STATUS_CANCELLED);
    train_result_reset(&result);
    (void)snprintf(path, sizeof path, "%s/training.state", place.work);
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    char byte = 0;
    assert_int_equal(pread(descriptor, &byte, 1, 5000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, 5000), 1);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_CORRUPT);
    assert_int_equal(ftruncate(descriptor, 5000), 0);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_CORRUPT);
    (void)close(descriptor);
    backend_free(backend);
    place_close(&place);
}

static void expect_refusal(const struct train_params *params, const char *pointer)
{
    assert_int_not_equal(train_check(params, &error), STATUS_OK);
    assert_string_equal(error.pointer, pointer);
}

static void test_what_does_not_fit_is_refused_at_its_field(void **state)
{
    (void)state;
    struct train_params params = plain();
    error = (struct error){0};
    ok(train_check(&params, &error));
    params.from = "t/x";
    expect_refusal(&params, "/params/model");
    params = plain();
    params.model = NULL;
    expect_refusal(&params, "/params/model");
    params = plain();
    params.model = "{\"model_type\":\"unheard\"}";
    expect_refusal(&params, "/params/model");
    params = plain();
    params.sequence_length = 64;
    expect_refusal(&params, "/params/sequence_length");
    params = plain();
    params.schedule.warmup = 35 * STEP;
    expect_refusal(&params, "/params/schedule");
    params = plain();
    params.tokenizer.name = TRAIN_TOKENIZER_BYTES;
    expect_refusal(&params, "/params/model");
    params = plain();
    params.optimizer.name = OPTIMIZER_SCHEDULE_FREE;
    expect_refusal(&params, "/params/schedule/decay");
    params.schedule.decay = 0;
    ok(train_check(&params, &error));
    params.schedule.name = SCHEDULE_COSINE;
    expect_refusal(&params, "/params/schedule/name");
}

static void test_refuses_a_checkpoint_without_state_and_too_little_memory(void **state)
{
    (void)state;
    struct train_params params = plain(), on = plain();
    struct train_result result;
    struct place place, next;
    char from[900];
    struct backend *backend = fast_backend(NULL);
    params.keep_state = false;
    place_open(&place);
    place_open(&next);
    ok(run(&place, &params, NULL, backend, -1, 0, &result));
    train_result_reset(&result);
    (void)snprintf(from, sizeof from, "%s/step0000010", place.out);
    on.model = NULL;
    on.from = "t/step0000010";
    error.pointer[0] = '\0';
    assert_int_equal(run(&next, &on, from, backend, -1, 0, &result), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/from");
    const struct train_request tight = {.params = &params,
                                        .dataset = &stream_source,
                                        .directory = next.out,
                                        .work_directory = next.work,
                                        .memory_limit = 10000,
                                        .backend = backend};
    assert_int_equal(train_run(&tight, &result, &error), STATUS_TOO_LARGE);
    assert_int_equal(error.of_device, backend_space(backend) == PLAN_DEVICE);
    backend_free(backend);
    place_close(&place);
    place_close(&next);
}

/* Text: the vocabulary is learned, kept for the next attempt, and written beside the weights. */
static void test_learns_a_tokenizer_from_text(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct tokenizer *tokenizer = NULL;
    char text[20000], path[900];
    size_t size = 0;
    struct backend *backend = fast_backend(NULL);
    for (uint64_t i = 0; size + 32 < sizeof text; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "the %s runs %s.\n",
                                 random_below(1, 5, i, 2) ? "dog" : "cat", random_below(1, 6, i, 2) ? "home" : "away");
    params.model = "{\"model_type\":\"gpt_neox\",\"vocab_size\":300,\"hidden_size\":16,\"num_hidden_layers\":1,"
                   "\"num_attention_heads\":2,"
                   "\"intermediate_size\":24,\"max_position_embeddings\":32,\"rotary_pct\":0.25}";
    params.tokenizer.name = TRAIN_TOKENIZER_LEARNED;
    params.tokenizer.vocabulary_size = 300;
    place_open(&place);
    scratch_write(&place.scratch, "text.txt", text, size);
    const struct dataset_source source = {.format = DATASET_TEXT, .path = scratch_path(&place.scratch, "text.txt")};
    const struct train_request request = {.params = &params,
                                          .dataset = &source,
                                          .validation = &source,
                                          .directory = place.out,
                                          .work_directory = place.work,
                                          .backend = backend};
    ok(train_run(&request, &result, &error));
    assert_true(result.validation_loss < result.checkpoints[0].validation_loss);
    train_result_reset(&result);
    (void)snprintf(path, sizeof path, "%s/step0000040/tokenizer.json", place.out);
    ok(tokenizer_open(path, &tokenizer, &error));
    assert_true(tokenizer_vocabulary_size(tokenizer) <= 300 && tokenizer_vocabulary_size(tokenizer) > 256);
    tokenizer_close(tokenizer);
    params.tokenizer.name = TRAIN_TOKENIZER_NONE;
    error.pointer[0] = '\0';
    assert_int_equal(train_run(&request, &result, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/tokenizer");
    backend_free(backend);
    place_close(&place);
}

/* Products in bf16 keep a copy of the weights in bf16: a plan made without the device counts it too. */
static void test_a_plan_on_paper_counts_the_copy_in_bf16(void **state)
{
    (void)state;
    const struct train_params params = plain();
    const char *const products[] = {NULL, "f32", "bf16"};
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        struct run_plan plan;
        struct train_request request = {.params = &params};
        ok(backend_cuda_paper_new(1LL << 32, products[i], &request.backend, &error));
        ok(train_plan_run(&request, TOKENS, &plan, &error));
        bytes[i] = plan.peak[PLAN_DEVICE];
        backend_free(request.backend);
    }
    assert_int_equal(bytes[0], bytes[1]);
    /* two blocks of 16 columns, with one key head of 8, and the tied embeddings of 31 tokens */
    const int64_t weights = 31 * 16 + 2 * (2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16) + 5 * 16;
    assert_true(bytes[2] - bytes[1] >= 2 * weights && bytes[2] - bytes[1] < 2 * weights + 4096);
}

/* A request of the largest numbers asks for more than 64 bits can count: the plan stays above every limit. */
static void test_plans_do_not_overflow(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct run_plan plan;
    struct train_request request = {.params = &params, .backend = fast_backend(NULL)};
    params.tokens = (int64_t)1e15;
    params.batch_sequences = 1;
    params.sequence_length = 2;
    params.checkpoint_every = 1;
    params.validation = "d";
    params.validation_sequences = (int64_t)1e9;
    params.schedule.warmup = params.schedule.decay = 0;
    ok(train_plan_run(&request, TOKENS, &plan, &error));
    assert_true(plan.written_bytes == INT64_MAX && plan.peak[PLAN_DISK] == INT64_MAX && plan.tokens == INT64_MAX);
    assert_true(plan.flops > 1e15);
    const struct run_plan twice = plan;
    plan_add(&plan, &twice, 2);
    assert_true(plan.written_bytes == INT64_MAX && plan.tokens == INT64_MAX && plan.peak[PLAN_DISK] == INT64_MAX);
    backend_free(request.backend);
    assert_int_equal(train_check(&params, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/checkpoint_every");
    assert_non_null(strstr(error.detail, "give 10000000000 tokens or more"));
    params.checkpoint_every = 10000000000; /* what it says is enough, and one step less is not */
    ok(train_check(&params, &error));
    params.checkpoint_every -= 2;
    assert_int_equal(train_check(&params, &error), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_and_writes_checkpoints_that_evaluate_the_same),
        cmocka_unit_test(test_stopped_anywhere_it_ends_with_the_same_bits),
        cmocka_unit_test(test_killed_anywhere_it_ends_with_the_same_bits),
        cmocka_unit_test(test_the_curve_agrees_with_the_checkpoints),
        cmocka_unit_test(test_the_curve_of_a_branch_begins_at_its_own_first_step),
        cmocka_unit_test(test_threads_do_not_change_bits),
        cmocka_unit_test(test_a_branch_gives_the_bits_of_a_run_with_its_schedule),
        cmocka_unit_test(test_divergence_stops_the_run_and_keeps_its_checkpoints),
        cmocka_unit_test(test_a_changed_request_is_not_gone_on_with),
        cmocka_unit_test(test_a_damaged_state_is_refused),
        cmocka_unit_test(test_what_does_not_fit_is_refused_at_its_field),
        cmocka_unit_test(test_refuses_a_checkpoint_without_state_and_too_little_memory),
        cmocka_unit_test(test_learns_a_tokenizer_from_text),
        cmocka_unit_test(test_a_plan_on_paper_counts_the_copy_in_bf16),
        cmocka_unit_test(test_plans_do_not_overflow),
    };
    stream_fill();
    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
