/* Averages held against sums written out here, also where rounding twice would differ; mixes; refusals; taking up a
 * table. */
#include "engine/jobs/tiny_model.h"

#include "base/memory.h"
#include "files/file.h"
#include "jobs/average.h"
#include "jobs/saved_table.h"

enum { MEMBERS = 3 };

struct members {
    struct scratch scratch[MEMBERS];
    struct model *models[MEMBERS];
    struct family family;
};
static const char *const labels[MEMBERS] = {"a", "b", "c"};

/* `first`: an element of each. */
static void members_open_with(struct members *members, const char *config, const float first[MEMBERS])
{
    struct error error;
    for (int k = 0; k < MEMBERS; k++) {
        tiny_write(&members->scratch[k], config,
                   (struct tiny_change){.name = "model.norm.weight", .value = first[k], .seed = (uint64_t)k});
        assert_int_equal(model_open(members->scratch[k].directory, &members->models[k], &error), STATUS_OK);
    }
    if (family_init((const struct model *const *)members->models, labels, MEMBERS, &members->family, &error) !=
        STATUS_OK)
        fail_msg("%s", error.detail);
}

static void members_open(struct members *members, const char *config)
{
    /* with weights 1, 2^-30, 0: a little above the middle between two bf16 numbers, by less than a float can say */
    const float first[MEMBERS] = {1 + 0x1p-8f, 4, 1};
    members_open_with(members, config, first);
}

static void members_close(struct members *members)
{
    family_reset(&members->family);
    for (int k = 0; k < MEMBERS; k++) {
        model_close(members->models[k]);
        scratch_close(&members->scratch[k]);
    }
}

/* Nearest even bf16 of a double, in one step, as the bits of its float: found by comparing with both neighbours. */
static float bf16_of(double value)
{
    uint32_t bits, below;
    float low, high;
    const float cut = (float)value;
    memcpy(&bits, &cut, sizeof bits);
    below = bits & 0xffff0000u;
    memcpy(&low, &below, sizeof low);
    if (fabs((double)low) > fabs(value)) below -= 0x10000u;
    const uint32_t above = below + 0x10000u;
    memcpy(&low, &below, sizeof low);
    memcpy(&high, &above, sizeof high);
    const double down = fabs(value - (double)low), up = fabs((double)high - value);
    if (down < up) return low;
    if (up < down) return high;
    return (below & 0x10000u) == 0 ? low : high;
}

static void check_average(const double *weights, int dtype)
{
    struct members members;
    struct scratch out;
    struct error error;
    struct weights *made = NULL;
    members_open(&members, tiny_llama);
    scratch_open(&out);
    const struct family *family = &members.family;
    const struct average_request request = {
        .family = family, .weights = weights, .directory = out.directory, .dtype = dtype};
    if (average_write(&request, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(weights_open(out.directory, &made, &error), STATUS_OK);
    assert_int_equal(weights_count(made), family->tensors);
    for (int64_t t = 0; t < family->tensors; t++) {
        const int64_t n = family->elements[t];
        float *values = calloc((size_t)(n * MEMBERS), sizeof *values), *found = calloc((size_t)n, sizeof *found);
        for (int64_t k = 0; k < MEMBERS; k++)
            assert_int_equal(family_read(family, k, t, 0, n, values + k * n, &error), STATUS_OK);
        assert_int_equal(weights_read_f32(made, weights_find(made, family->names[t]), 0, n, found, &error), STATUS_OK);
        for (int64_t i = 0; i < n; i++) {
            double sum = 0, total = 0;
            for (int64_t k = 0; k < MEMBERS; k++) {
                const double weight = weights == NULL ? 1 : weights[k];
                sum += weight * (double)values[k * n + i];
                total += weight;
            }
            const float expected = dtype == DTYPE_BF16 ? bf16_of(sum / total) : (float)(sum / total);
            assert_memory_equal(&found[i], &expected, sizeof expected);
        }
        free(values);
        free(found);
    }
    weights_close(made);
    scratch_close(&out);
    members_close(&members);
}

static void test_sums_are_the_stated_ones(void **state)
{
    (void)state;
    const double soup[MEMBERS] = {0.7, -0.2, 0.25};
    check_average(NULL, -1);
    check_average(soup, DTYPE_F32);
}

static void test_narrow_types_are_rounded_once(void **state)
{
    (void)state;
    const double nearly_one[MEMBERS] = {1, 0x1p-30, 0};
    check_average(NULL, DTYPE_BF16);
    check_average(nearly_one, DTYPE_BF16);
}

/* The largest numbers of float16 and bf16 are 65504 and 3.3895e38: what is nearer to the next one above is infinite
 * there, and may be finite as a float. */
static void test_what_the_stored_type_cannot_hold_is_refused(void **state)
{
    static const char other[] = "take another \"dtype\"", none[] = "is not finite";
    static const struct {
        float first[MEMBERS];
        int dtype;
        const char *refusal; /* NULL: it is written */
    } rows[] = {
        {{65519, 65519, 0}, DTYPE_F16, NULL},
        {{65520, 65520, 0}, DTYPE_F16, other},
        {{-32760, 0, 0}, DTYPE_F16, other},
        {{32760, 0, 0}, DTYPE_BF16, NULL},
        {{3.396e38f, 3.396e38f, 0}, DTYPE_BF16, NULL},
        {{3.397e38f, 3.397e38f, 0}, DTYPE_BF16, other},
        {{3.397e38f, 3.397e38f, 0}, DTYPE_F32, NULL},
        {{3e38f, 0, 0}, DTYPE_BF16, other},
        {{3e38f, 0, 0}, DTYPE_F32, none},
        {{INFINITY, 0, 0}, DTYPE_F16, none},
    };
    const double weights[MEMBERS] = {2, -1, 0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *refusal = rows[i].refusal;
        struct members members;
        struct scratch out;
        struct error error = {0};
        members_open_with(&members, tiny_llama, rows[i].first);
        scratch_open(&out);
        const struct average_request request = {
            .family = &members.family, .weights = weights, .directory = out.directory, .dtype = rows[i].dtype};
        assert_int_equal(average_write(&request, &error), refusal == NULL ? STATUS_OK : STATUS_NOT_FINITE);
        assert_true((access(scratch_path(&out, "model.safetensors"), F_OK) == 0) == (refusal == NULL));
        if (refusal != NULL)
            assert_true(strstr(error.detail, refusal) != NULL && strstr(error.detail, "\"model.norm.weight\"") != NULL);
        scratch_close(&out);
        members_close(&members);
    }
}

/* The average of llamas whose config.json has `more`, in that type, names `expected`; NULL: it is their config.json. */
static void check_named_type(const char *more, int dtype, const char *expected)
{
    struct members members;
    struct scratch out;
    struct error error;
    char config[600], *text = NULL;
    size_t size = 0;
    (void)snprintf(config, sizeof config, "%.*s%s}", (int)strlen(tiny_llama) - 1, tiny_llama, more);
    members_open(&members, config);
    scratch_open(&out);
    const struct average_request request = {.family = &members.family, .directory = out.directory, .dtype = dtype};
    assert_int_equal(average_write(&request, &error), STATUS_OK);
    assert_int_equal(file_read_all(AT_FDCWD, scratch_path(&out, "config.json"), 4096, &text, &size, &error), STATUS_OK);
    if (expected == NULL) {
        assert_int_equal(size, strlen(config));
        assert_memory_equal(text, config, size);
    } else
        assert_non_null(memmem(text, size, expected, strlen(expected)));
    memory_free(text);
    scratch_close(&out);
    members_close(&members);
}

/* The members are stored as float32. */
static void test_the_configuration_names_the_stored_type(void **state)
{
    (void)state;
    static const char narrow[] = ", \"torch_dtype\": \"bfloat16\"", wide[] = ", \"dtype\": \"float32\"";
    check_named_type(narrow, DTYPE_F32, "\"torch_dtype\": \"float32\"");
    check_named_type(narrow, -1, "\"torch_dtype\": \"float32\"");
    check_named_type(narrow, DTYPE_BF16, NULL);
    check_named_type(wide, DTYPE_F16, "\"dtype\": \"float16\"");
    check_named_type(wide, -1, NULL);
    check_named_type("", DTYPE_BF16, NULL);
}

/* A model of a mix reads as the file of the same average would. */
static void test_mix_equals_the_file(void **state)
{
    (void)state;
    struct members members;
    struct scratch out;
    struct error error;
    struct model *mixed = NULL, *written = NULL;
    const double ones[MEMBERS] = {1, 1, 1};
    members_open(&members, tiny_gpt_neox);
    scratch_open(&out);
    const struct average_request request = {.family = &members.family, .directory = out.directory, .dtype = -1};
    assert_int_equal(average_write(&request, &error), STATUS_OK);
    assert_int_equal(model_open(out.directory, &written, &error), STATUS_OK);
    assert_int_equal(family_model(&members.family, ones, 3, &mixed, &error), STATUS_OK);
    assert_int_equal(mixed->parameters, written->parameters);
    assert_int_equal(weights_file_count(mixed->weights), 0);
    assert_int_equal(weights_check_unchanged(mixed->weights, &error), STATUS_OK);
    for (int64_t t = 0; t < weights_count(mixed->weights); t++) {
        struct weights_tensor tensor;
        weights_tensor(mixed->weights, t, &tensor);
        float *a = calloc((size_t)tensor.elements, sizeof *a), *b = calloc((size_t)tensor.elements, sizeof *b);
        assert_int_equal(weights_read_f32(mixed->weights, t, 0, tensor.elements, a, &error), STATUS_OK);
        assert_int_equal(weights_read_f32(written->weights, weights_find(written->weights, tensor.name), 0,
                                          tensor.elements, b, &error),
                         STATUS_OK);
        assert_memory_equal(a, b, (size_t)tensor.elements * sizeof *a);
        free(a);
        free(b);
    }
    model_close(mixed);
    model_close(written);
    scratch_close(&out);
    members_close(&members);
}

static void test_other_models_are_refused_by_name(void **state)
{
    (void)state;
    struct scratch scratch[2];
    struct model *models[2];
    struct family family;
    struct error error;
    tiny_write(&scratch[0], tiny_llama, (struct tiny_change){0});
    tiny_write(&scratch[1], tiny_gpt_neox, (struct tiny_change){0});
    for (int k = 0; k < 2; k++) assert_int_equal(model_open(scratch[k].directory, &models[k], &error), STATUS_OK);
    assert_int_equal(family_init((const struct model *const *)models, labels, 2, &family, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "model_type"));
    for (int k = 0; k < 2; k++) {
        model_close(models[k]);
        scratch_close(&scratch[k]);
    }
}

static void test_a_changed_member_stops_the_average(void **state)
{
    (void)state;
    struct members members;
    struct scratch out;
    struct error error;
    members_open(&members, tiny_llama);
    scratch_open(&out);
    const int file = open(scratch_path(&members.scratch[1], "model.safetensors"), O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0 && ftruncate(file, 4000) == 0);
    (void)close(file);
    const struct average_request request = {.family = &members.family, .directory = out.directory, .dtype = -1};
    assert_int_equal(average_write(&request, &error), STATUS_INPUT_CHANGED);
    assert_true(access(scratch_path(&out, "model.safetensors"), F_OK) != 0);
    const double zero[MEMBERS] = {1, -1, 0};
    const struct average_request nothing = {
        .family = &members.family, .weights = zero, .directory = out.directory, .dtype = -1};
    assert_int_equal(average_write(&nothing, &error), STATUS_INVALID);
    scratch_close(&out);
    members_close(&members);
}

static void test_saved_table_goes_on_only_with_the_same_work(void **state)
{
    (void)state;
    struct scratch scratch;
    struct saved_table table;
    struct error error;
    scratch_open(&scratch);
    assert_int_equal(saved_table_open(scratch.directory, "t", 7, 5, 2, &table, &error), STATUS_OK);
    const double rows[2][2] = {{1, NAN}, {2, -2}};
    table.saved_at = -10;
    assert_int_equal(saved_table_add(&table, rows[0], &error), STATUS_OK);
    table.saved_at = -10;
    assert_int_equal(saved_table_add(&table, rows[1], &error), STATUS_OK);
    saved_table_reset(&table);
    const struct {
        uint64_t fingerprint;
        int64_t rows, done;
    } cases[] = {{7, 5, 2}, {8, 5, 0}, {7, 6, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            saved_table_open(scratch.directory, "t", cases[i].fingerprint, cases[i].rows, 2, &table, &error),
            STATUS_OK);
        assert_int_equal(table.done, cases[i].done);
        if (table.done > 0) assert_true(isnan(table.values[1]) && table.values[3] == -2 && isnan(table.values[4]));
        saved_table_reset(&table);
    }
    FILE *file = fopen(scratch_path(&scratch, "t"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 60, SEEK_SET), 0);
    assert_int_equal(fputc(0x55, file), 0x55);
    (void)fclose(file);
    assert_int_equal(saved_table_open(scratch.directory, "t", 7, 5, 2, &table, &error), STATUS_OK);
    assert_int_equal(table.done, 0);
    saved_table_reset(&table);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_the_stated_ones),
        cmocka_unit_test(test_the_configuration_names_the_stored_type),
        cmocka_unit_test(test_narrow_types_are_rounded_once),
        cmocka_unit_test(test_what_the_stored_type_cannot_hold_is_refused),
        cmocka_unit_test(test_mix_equals_the_file),
        cmocka_unit_test(test_other_models_are_refused_by_name),
        cmocka_unit_test(test_a_changed_member_stops_the_average),
        cmocka_unit_test(test_saved_table_goes_on_only_with_the_same_work),
    };
    return cmocka_run_group_tests_name("average", tests, NULL, NULL);
}
