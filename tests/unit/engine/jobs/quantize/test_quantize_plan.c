/* Plans of quantizations that are parts of a job, made before their streams are there, against the plans of the same
 * quantizations with streams. */
#include "engine/jobs/planned.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/quantize/quantize_plan.h"

static struct quantize_request request_of(const struct fixture *f)
{
    return (struct quantize_request){
        .model = f->model,
        .backend = f->backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
    };
}

static void check_same(const struct run_plan *a, const struct run_plan *b)
{
    for (int space = 0; space < PLAN_SPACES; space++) {
        assert_int_equal(a->peak[space], b->peak[space]);
        assert_int_equal(a->live[space], b->live[space]);
    }
    assert_int_equal(a->read_bytes, b->read_bytes);
    assert_int_equal(a->written_bytes, b->written_bytes);
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->stream_tokens, b->stream_tokens);
    assert_int_equal(a->spilled_tokens, b->spilled_tokens);
    assert_true(a->flops == b->flops);
}

static struct run_plan plan_part(struct quantize_planner *planner, const struct quantize_request *request,
                                 const struct quantize_handover *handover, const struct plan_budget *budget)
{
    struct quantize_choice choice;
    struct run_plan plan;
    quantize_planner_plan(planner, request, handover, budget, &choice, &plan);
    return plan;
}

static struct run_plan plan_whole(const struct quantize_request *request, const struct plan_budget *budget)
{
    struct run_plan plan;
    struct error error;
    if (quantize_plan(request, 1, budget, &plan, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return plan;
}

static enum status visit(void *owner, const struct quantize_streams *streams, struct error *error)
{
    (void)owner;
    (void)streams;
    return error_set(error, STATUS_INTERNAL, "a plan shows nothing");
}

static void test_a_part_has_the_plan_of_the_run_that_has_its_streams(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct quantize_planner planner;
    float hidden[1] = {0};
    open_fixture(&f, tiny_llama, 4, 20);
    const struct quantize_override item = {.pattern = "^(?!model\\.layers\\.1\\.mlp)", .skip = true};
    const struct quantize_request asked = request_of(&f);
    struct quantize_request plain = asked, calm = asked;
    calm.method = (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 8, .group_size = -1}};
    calm.calibration = NULL;
    plain.idle_from = 2;
    plain.method.options.override_count = 1;
    plain.method.options.overrides = &item;
    if (quantize_planner_init(&asked, &planner, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct quantize_streams streams = {.layer = 1};
    const struct quantize_request *const requests[] = {&asked, &plain, &calm};
    for (int i = 0; i < 3; i++)
        for (int lent = 0; lent < 2; lent++)
            for (int64_t start = lent ? 1 : -1; start >= -1; start -= 2) {
                struct quantize_request run = *requests[i];
                const struct quantize_handover handover = {lent, false, start};
                if (lent) run.fp_hidden = matrix_of(hidden, 80, f.model->config.hidden_size, sizeof *hidden);
                if (start > 0) run.start = &streams;
                const struct run_plan whole = plan_whole(&run, &unbounded);
                const struct run_plan part = plan_part(&planner, requests[i], &handover, &unbounded);
                check_same(&part, &whole);
                assert_int_equal(part.tokens, (lent ? 80 : 160) + (run.calibration != NULL ? 80 : 0));
                const struct quantize_handover embedded = {lent, false, -1};
                const struct run_plan all = plan_part(&planner, requests[i], &embedded, &unbounded);
                if (start > 0) assert_true(part.flops < all.flops && part.read_bytes < all.read_bytes);
            }
    quantize_planner_reset(&planner);
    close_fixture(&f);
}

/* On a device, whose streams would go to host memory. */
static void test_streams_that_are_shown_are_not_spilled(void **state)
{
    (void)state;
    struct fixture f;
    struct error error;
    struct backend *device = NULL;
    struct quantize_planner planner;
    open_fixture(&f, tiny_llama, 4, 20);
    if (backend_cuda_paper_new(1LL << 32, NULL, &device, &error) != STATUS_OK) fail_msg("%s", error.detail);
    struct quantize_request request = request_of(&f);
    request.backend = device;
    if (quantize_planner_init(&request, &planner, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct quantize_handover plain = {.start = -1}, shown = {.shown = true, .start = -1};
    const struct plan_budget none = {.bytes = {INT64_MAX, 0, INT64_MAX}};
    const struct run_plan kept = plan_part(&planner, &request, &shown, &none);
    const struct run_plan spilled = plan_part(&planner, &request, &plain, &none);
    assert_int_equal(kept.spilled_tokens, 0);
    assert_int_equal(spilled.spilled_tokens, spilled.stream_tokens);
    request.visitor.streams = visit;
    const struct run_plan run = plan_whole(&request, &none);
    check_same(&kept, &run);
    quantize_planner_reset(&planner);
    backend_free(device);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_has_the_plan_of_the_run_that_has_its_streams),
        cmocka_unit_test(test_streams_that_are_shown_are_not_spilled),
    };
    return cmocka_run_group_tests_name("plans of quantizations", tests, NULL, NULL);
}
