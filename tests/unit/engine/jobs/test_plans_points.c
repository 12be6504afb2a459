/* What work on several checkpoints says that it needs, beside what it takes: interpolations, landscapes, averages,
 * readings. */
#include "engine/jobs/planned.h"
#include "engine/jobs/tiny_fixture.h"
#include "health/reading.h"
#include "jobs/average.h"
#include "jobs/interpolate.h"
#include "jobs/landscape.h"
#include "jobs/quantize/quantize.h"

#include <dirent.h>
#include <sys/stat.h>

static const char wide[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 1000, \"hidden_size\": 256, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 1024, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-5, \"rotary_pct\": 0.25,"
    " \"rotary_emb_base\": 10000, \"max_position_embeddings\": 64, \"use_parallel_residual\": true,"
    " \"tie_word_embeddings\": false}";

enum { MEMBERS = 3, COUNT = 4, LENGTH = 32 };
static const char *const labels[MEMBERS] = {"a", "b", "c"};
static const struct quantize_method awq = {.quantizer = QUANTIZER_AWQ, .awq = {4, 16, 3, false, true}};

/* A fixture and two more checkpoints of its model, made once. */
struct members {
    struct fixture f;
    struct scratch others[MEMBERS];
    const struct model *models[MEMBERS];
    struct model *owned[MEMBERS];
    struct family family; /* of all, or of the first two */
};

static int open_members(void **state)
{
    struct members *m = calloc(1, sizeof *m);
    struct error error;
    open_fixture(&m->f, wide, COUNT, LENGTH);
    m->models[0] = m->f.model;
    for (int k = 1; k < MEMBERS; k++) {
        tiny_write(&m->others[k], wide, (struct tiny_change){.seed = (uint64_t)k});
        assert_int_equal(model_open(m->others[k].directory, &m->owned[k], &error), STATUS_OK);
        m->models[k] = m->owned[k];
    }
    *state = m;
    return 0;
}

static int close_members(void **state)
{
    struct members *m = *state;
    family_reset(&m->family);
    for (int k = 1; k < MEMBERS; k++) {
        model_close(m->owned[k]);
        scratch_close(&m->others[k]);
    }
    close_fixture(&m->f);
    free(m);
    return 0;
}

static void be_family(struct members *m, int count)
{
    struct error error;
    family_reset(&m->family);
    if (family_init(m->models, labels, count, &m->family, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static struct point_request point_of(const struct members *m, bool quantized)
{
    return (struct point_request){
        .family = &m->family,
        .backend = m->f.backend,
        .evaluation = &m->f.evaluation,
        .method = quantized ? &awq : NULL,
        .calibration = quantized ? &m->f.calibration : NULL,
        .directory = m->f.work.directory,
    };
}

static void check_interpolation(struct members *m, bool quantized)
{
    struct interpolate_result found;
    struct run_plan plan;
    struct error error;
    be_family(m, 2);
    const struct interpolate_request request = {.point = point_of(m, quantized), .low = 0, .high = 1.5, .points = 4};
    assert_int_equal(interpolate_plan(&request, &unbounded, &plan, &error), STATUS_OK);
    const struct watch watch = watch_begin();
    if (interpolate_run(&request, &found, &error) != STATUS_OK) fail_msg("%s", error.detail);
    watch_end(&watch, "interpolate", &plan);
    assert_int_equal(plan.tokens, 4 * (quantized ? 3 : 1) * COUNT * LENGTH);
    interpolate_result_reset(&found);
}

static void test_an_interpolation_takes_what_its_plan_says(void **state)
{
    check_interpolation(*state, false);
    check_interpolation(*state, true);
}

static void check_landscape(struct members *m, double margin)
{
    struct landscape_result found;
    struct run_plan plan;
    struct error error;
    be_family(m, MEMBERS);
    const struct landscape_request request = {.point = point_of(m, false), .columns = 2, .rows = 3, .margin = margin};
    assert_int_equal(landscape_plan(&request, &unbounded, &plan, &error), STATUS_OK);
    assert_int_equal(plan.at_most, isnan(margin));
    const struct watch watch = watch_begin();
    if (landscape_run(&request, &found, &error) != STATUS_OK) fail_msg("%s", error.detail);
    if (isnan(margin)) {
        compare("landscape", plan.peak[PLAN_HOST], counter_peak(watch.live));
        assert_true(plan.tokens > found.measured * COUNT * LENGTH);
    } else {
        watch_end(&watch, "landscape", &plan);
        assert_int_equal(plan.tokens, found.measured * COUNT * LENGTH);
    }
    landscape_result_reset(&found);
}

static void test_a_landscape_takes_what_its_plan_says(void **state)
{
    check_landscape(*state, 0.25);
    check_landscape(*state, NAN);
}

static int64_t bytes_in(const char *directory)
{
    int64_t bytes = 0;
    DIR *const list = opendir(directory);
    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        struct stat found;
        assert_int_equal(fstatat(dirfd(list), entry->d_name, &found, 0), 0);
        if (S_ISREG(found.st_mode)) bytes += found.st_size;
    }
    (void)closedir(list);
    return bytes;
}

static void test_an_average_takes_what_its_plan_says(void **state)
{
    static const int dtypes[] = {-1, DTYPE_BF16};
    struct members *m = *state;
    for (int i = 0; i < 2; i++) {
        struct run_plan plan;
        struct error error;
        be_family(m, MEMBERS);
        const struct average_request request = {
            .family = &m->family, .directory = m->f.work.directory, .dtype = dtypes[i]};
        assert_int_equal(average_plan(&request, &plan, &error), STATUS_OK);
        const struct watch watch = watch_begin();
        if (average_write(&request, &error) != STATUS_OK) fail_msg("%s", error.detail);
        watch_end(&watch, "average", &plan);
        assert_int_equal(bytes_in(m->f.work.directory), plan.peak[PLAN_DISK]);
    }
}

static enum status digest_begin(void *owner, struct error *error)
{
    (void)owner, (void)error;
    return STATUS_OK;
}

static enum status digest_add(void *owner, const void *bytes, size_t size, struct error *error)
{
    (void)owner, (void)bytes, (void)size, (void)error;
    return STATUS_OK;
}

static enum status digest_finish(void *owner, unsigned char digest[READING_DIGEST], struct error *error)
{
    (void)owner, (void)error;
    memset(digest, 0, READING_DIGEST);
    return STATUS_OK;
}

static void test_a_reading_takes_what_its_plan_says(void **state)
{
    struct members *m = *state;
    const struct reading_hash hash = {NULL, digest_begin, digest_add, digest_finish};
    for (int i = 0; i < 2; i++) {
        const struct reading_request request = {.weights = m->models[0]->weights,
                                                .previous = i == 0 ? NULL : m->models[1]->weights,
                                                .team = m->f.team,
                                                .hash = &hash};
        struct reading reading;
        struct run_plan plan = {.flops = 0};
        struct error error;
        reading_plan(request.weights, request.previous, team_size(request.team), &plan);
        const struct watch watch = watch_begin();
        if (reading_make(&request, &reading, &error) != STATUS_OK) fail_msg("%s", error.detail);
        watch_end(&watch, "reading", &plan);
        reading_reset(&reading);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_interpolation_takes_what_its_plan_says),
        cmocka_unit_test(test_a_landscape_takes_what_its_plan_says),
        cmocka_unit_test(test_an_average_takes_what_its_plan_says),
        cmocka_unit_test(test_a_reading_takes_what_its_plan_says),
    };
    return cmocka_run_group_tests_name("plans of points", tests, open_members, close_members);
}
